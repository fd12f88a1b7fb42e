"""Beside the papers: every published table by one command, ``python -m benchmarks.papers``."""
