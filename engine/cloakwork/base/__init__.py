"""The vocabulary that all packages share: errors, names, numbers, costs, facts."""
