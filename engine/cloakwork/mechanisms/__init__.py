"""Everything that changes a log, one shape for all of them."""
