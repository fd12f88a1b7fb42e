"""Run a mechanism that measures on a variant histogram, as a plan would on a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from pydantic import JsonValue

from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.facts import Facts, Unit
from cloakwork.engines.measured import measured_of
from cloakwork.kernel import Books, Kernel, Measured
from cloakwork.noise import Noise
from cloakwork.run.steps import GrantedStep


@dataclass(frozen=True, slots=True)
class Release:
    """``table``: rows (``variant``, ``cases``) of what is released, each at least one case."""

    table: pl.DataFrame
    internal: Mapping[str, JsonValue]
    recorded: PrivacyEvent


def release(
    mechanism: Any,
    params: Any,
    histogram: pl.DataFrame | Measured,
    noise: Noise,
    facts: Facts | None = None,
) -> Release:
    """``histogram``: a table as ``VariantCounts`` makes it, or what ``measured_of`` made of one,
    which is faster where a mechanism is run often. ``facts``: by default the unit that the
    parameters name.
    """
    unit = Unit(attribute=getattr(params, "unit", None), max_cases=getattr(params, "max_cases", 1))
    step = GrantedStep.of(mechanism, params, facts or Facts(unit=unit))
    seen = histogram if isinstance(histogram, Measured) else measured_of(histogram, noise)
    found, kernel = step.measure(seen, noise)
    table = pl.DataFrame(
        {"variant": pl.Series(found.variants, dtype=pl.List(pl.String)), "cases": found.cases},
        schema={"variant": pl.List(pl.String), "cases": pl.Int64},
    )
    return Release(table.filter(pl.col("cases") > 0), found.internal, kernel.recorded)


def kernel_on(
    histogram: pl.DataFrame | Measured, event: PrivacyEvent, noise: Noise, max_cases: int = 1
) -> Kernel:
    """A kernel on a variant histogram that answers what ``event`` lists."""
    seen = histogram if isinstance(histogram, Measured) else measured_of(histogram, noise)
    return Kernel(seen, Books.of(event), noise, max_cases)
