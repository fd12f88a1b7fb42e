"""PRIPEL, as published."""
