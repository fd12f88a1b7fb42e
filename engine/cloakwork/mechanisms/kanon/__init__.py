"""k-anonymous control flow: the PRETSA family."""
