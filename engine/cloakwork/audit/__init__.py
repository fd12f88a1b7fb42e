"""Evidence: audits, utility, risk."""
