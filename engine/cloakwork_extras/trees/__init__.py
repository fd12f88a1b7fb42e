"""Prefix trees with noise on their nodes, as two papers have them."""
