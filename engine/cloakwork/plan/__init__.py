"""From policy and facts to a plan, and the proof of it."""
