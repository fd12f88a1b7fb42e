"""Event logs as columns, and how they are read and written."""
