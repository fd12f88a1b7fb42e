"""What people read: reports, the signed statement, the stamp in the log."""
