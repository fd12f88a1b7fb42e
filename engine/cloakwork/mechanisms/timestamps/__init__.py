"""Private timestamps."""
