"""Privacy against what is left: several settings of policies beside each other, before choosing."""
