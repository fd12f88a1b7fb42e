"""Cloakwork: a declarative, policy-driven anonymization engine for process-mining event logs."""
