"""The processes that the example logs come from, all of them invented."""
