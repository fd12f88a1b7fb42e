"""Treatments of attributes."""
