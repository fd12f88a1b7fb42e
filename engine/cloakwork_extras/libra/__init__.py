"""Libra: variants sampled, and noise that their sampling makes smaller."""
