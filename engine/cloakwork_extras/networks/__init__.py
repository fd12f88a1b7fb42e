"""Networks that are trained on noisy answers, and what they need; torch loads where one is used."""
