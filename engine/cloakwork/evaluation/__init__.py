"""What a release keeps and what it tells: measures, attacks, audits, settings beside each other."""
