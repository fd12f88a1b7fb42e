"""Readers and writers: XES, CSV, Parquet."""
