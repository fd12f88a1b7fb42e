"""What measurements cost, and the ledger that adds releases up."""
