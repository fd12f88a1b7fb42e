"""Mechanisms of papers that Cloakwork's own choice beats, and the engine on Spark: registered as
those of other packages are.
"""
