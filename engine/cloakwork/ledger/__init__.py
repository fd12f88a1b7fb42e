"""The budget of a dataset, in a journal that can never be overspent."""
