"""Directly-follows graphs with noise on each count."""
