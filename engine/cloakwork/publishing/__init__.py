"""What becomes of a release: its statement, signature, folder and verification."""
