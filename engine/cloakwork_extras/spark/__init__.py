"""The engine on Spark."""
