"""Where and with what a release was made, and what to run to make one like it."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from cloakwork.base.quantities import Frozen
from cloakwork.plan.model import Plan

_PACKAGES: Final = ("dp-accounting", "highspy", "numpy", "polars", "pydantic", "scipy")
"""What figures, searches and prices of a release depend on."""


class RunOrigin(Frozen):
    """Versions and platform of the run that made a release.

    ``command``: makes another release of the same plan. Its noise, order and ids are others: they
    are drawn anew, on purpose.
    """

    engine: str
    python: str
    platform: str
    packages: dict[str, str]
    command: str


def origin_of(plan: Plan) -> RunOrigin:
    """The origin of a release of ``plan`` that is made in this process."""
    window = plan.facts.release_window
    command = "cloakwork apply plan.json LOG --out NEW_FOLDER"
    return RunOrigin(
        engine=f"cloakwork {plan.engine}, in memory",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        packages=dict(_versions()),
        command=command if window is None else f"{command} --window {window}",
    )


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
