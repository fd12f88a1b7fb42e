"""Cloakwork: a declarative, policy-driven anonymization engine for process-mining event logs.

>>> import cloakwork
>>> published = cloakwork.release("policy.yaml", "log.xes.gz", "release")   # doctest: +SKIP
>>> cloakwork.verify("release")                                             # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cloakwork import errors as errors
from cloakwork.base.arguments import checked

if TYPE_CHECKING:
    from cloakwork.api import (
        apply,
        compare,
        load_policy,
        make_report,
        pack,
        publish,
        release,
        risk,
        verify,
    )
    from cloakwork.authoring.exploration import explore
    from cloakwork.authoring.registry import Registry
    from cloakwork.ledger.datasets import datasets, declare_dataset
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.log.eventlog import EventLog
    from cloakwork.log.formats import read_log, write_log
    from cloakwork.plan.planner import make_plan, prove
    from cloakwork_extras.spark.spark import spark_engine

_HOMES = {
    "EventLog": "cloakwork.log.eventlog",
    "Ledger": "cloakwork.ledger.ledger",
    "Registry": "cloakwork.authoring.registry",
    "apply": "cloakwork.api",
    "datasets": "cloakwork.ledger.datasets",
    "declare_dataset": "cloakwork.ledger.datasets",
    "compare": "cloakwork.api",
    "explore": "cloakwork.authoring.exploration",
    "load_policy": "cloakwork.api",
    "make_plan": "cloakwork.plan.planner",
    "make_report": "cloakwork.api",
    "pack": "cloakwork.api",
    "prove": "cloakwork.plan.planner",
    "publish": "cloakwork.api",
    "read_log": "cloakwork.log.formats",
    "release": "cloakwork.api",
    "risk": "cloakwork.api",
    "spark_engine": "cloakwork_extras.spark.spark",
    "verify": "cloakwork.api",
    "write_log": "cloakwork.log.formats",
}

__all__ = [
    "EventLog",
    "Ledger",
    "Registry",
    "apply",
    "compare",
    "datasets",
    "declare_dataset",
    "explore",
    "load_policy",
    "make_plan",
    "make_report",
    "pack",
    "prove",
    "publish",
    "read_log",
    "release",
    "risk",
    "spark_engine",
    "verify",
    "write_log",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import cloakwork`` and ``--help`` stay
    fast.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'cloakwork' has no attribute '{name}'")
    found = getattr(import_module(_HOMES[name]), name)
    # Once loaded, Python finds it without asking here.
    globals()[name] = found if isinstance(found, type) else checked(found)
    return globals()[name]


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion with the Tab key."""
    return sorted(__all__)
