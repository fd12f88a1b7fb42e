"""Differentially private control flow."""
