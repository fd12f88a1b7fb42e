"""Running a plan on a log."""
