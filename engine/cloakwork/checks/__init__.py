"""Guarantees measured on a log, independently of any mechanism."""
