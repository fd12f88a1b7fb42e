"""The command line, one file a command group."""

from importlib import import_module

import click

COMMANDS = {
    "policy": "cloakwork.cli.policy:policy",
    "plan": "cloakwork.cli.plan:plan",
    "apply": "cloakwork.cli.apply:apply",
    "verify": "cloakwork.cli.verify:verify",
    "report": "cloakwork.cli.report:report",
    "ledger": "cloakwork.cli.ledger:ledger",
    "mechanisms": "cloakwork.cli.mechanisms:mechanisms",
}
"""Each command's home: loaded when it is asked for, so that ``--help`` stays fast."""
