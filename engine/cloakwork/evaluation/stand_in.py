"""The stand-in: an invented log that has nothing of the raw log but declared facts and what a DP
profile, which was paid for, tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts, Window
from cloakwork.evaluation.invented_times import InventedTimes
from cloakwork.evaluation.invented_values import InventedAttribute, attributes_of
from cloakwork.evaluation.process_shape import (
    ProcessShape,
    draw_variants,
    profiled_shape,
    supposed_shapes,
    variant_sizes,
)
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.mechanisms.profile import Profile
from cloakwork.policy.model import Policy

USUAL_CASES: Final = 1_000
USUAL_ACTIVITIES: Final = 12
USUAL_GAP: Final = timedelta(days=30)
USUAL_WINDOW: Final = Window(
    start=datetime(2022, 1, 1, tzinfo=UTC), end=datetime(2024, 1, 1, tzinfo=UTC)
)
"""What is taken where no policy declares it."""

MOST_CASES: Final = 20_000
MOST_VARIANTS: Final = 1_500
"""A stand-in is no larger: comparing so many variants with as many takes a second."""

_MERGED: Final = ("alphabet", "units_at_most", "longest_case", "longest_gap", "window")

RunSeed = tuple[ProcessShape, int]
"""What one run of a setting goes by: how the invented process is, and the seed."""


@dataclass(frozen=True, slots=True)
class StandInFacts:
    """Everything that invented logs are made of, merged over the policies that are compared.

    ``assumed``: what nobody declared, one line each, with what to declare. ``activity_names``,
    ``time_names``: the attributes that the policies give these roles. ``units``: attributes that
    name units of privacy, and the most cases of each.
    """

    shapes: tuple[ProcessShape, ...]
    cases: int
    alphabet: tuple[str, ...]
    times: InventedTimes
    attributes: tuple[InventedAttribute, ...]
    activity_names: tuple[str, ...]
    time_names: tuple[str, ...]
    units: Mapping[str, int]
    assumed: tuple[str, ...] = ()
    _logs: dict[RunSeed, EventLog] = field(default_factory=dict, compare=False, repr=False)

    def log(self, shape: ProcessShape, seed: int) -> EventLog:
        """The invented log of a shape and a seed; the same for every setting."""
        key = (shape, seed)
        if key not in self._logs:
            self._logs[key] = _invented_log(self, shape, seed)
        return self._logs[key]


def stand_in_facts(
    policies: Sequence[Policy], profile: Profile | None = None, cases: int | None = None
) -> StandInFacts:
    """What invented logs are made of: declared facts of ``policies``, and a profile's figures.

    ``cases``: how many cases the log is publicly known to have.
    """
    facts = [policy.facts() for policy in policies]
    merged = {name: _declared(facts, name) for name in _MERGED}
    found = Facts(**merged)
    assumed = list[str]()
    if profile is not None:
        found = profile.facts(found)
    count = _cases(found, profile, cases, assumed)
    shapes = _shapes(found, profile, assumed)
    alphabet = _alphabet(found, assumed)
    releases_times = any("timestamp" in _roles(policy) for policy in policies)
    times = _times(found, assumed if releases_times else [])
    units = {
        policy.spec.unit.attribute: policy.spec.unit.max_cases
        for policy in policies
        if policy.spec.unit.attribute is not None
    }
    attributes = attributes_of(policies, {*units}, assumed)
    return StandInFacts(
        shapes=shapes,
        cases=count,
        alphabet=alphabet,
        times=times,
        attributes=attributes,
        activity_names=_names(policies, "control-flow", ACTIVITY),
        time_names=_names(policies, "timestamp", TIMESTAMP),
        units=units,
        assumed=tuple(assumed),
    )


def _declared(facts: Sequence[Facts], name: str) -> Any:
    """What the first policy that declares a fact says of it; None where none does."""
    values = (getattr(each, name) for each in facts)
    return next((value for value in values if value is not None), None)


def _roles(policy: Policy) -> set[str | None]:
    return {rule.role for rule in policy.spec.attributes.values()}


def _names(policies: Sequence[Policy], role: str, standard: str) -> tuple[str, ...]:
    named = [
        name
        for policy in policies
        for name, rule in policy.spec.attributes.items()
        if rule.role == role
    ]
    return tuple(dict.fromkeys([standard, *named]))


def _cases(facts: Facts, profile: Profile | None, known: int | None, assumed: list[str]) -> int:
    """How many cases: as publicly known, as the profile counted, or half of what is declared at
    most.
    """
    if known is not None:
        return min(known, MOST_CASES)
    if profile is not None:
        return min(max(1, profile.figures.cases), MOST_CASES)
    if facts.units_at_most is None:
        assumed.append(
            f"{USUAL_CASES:,} cases: declare assume.units_at_most, or give the number of cases "
            "where it is public"
        )
        return USUAL_CASES
    count = min(max(1, facts.units_at_most // 2), MOST_CASES)
    assumed.append(
        f"{count:,} cases, of at most {facts.units_at_most:,} declared: give the number of "
        "cases where it is public"
    )
    return count


def _shapes(facts: Facts, profile: Profile | None, assumed: list[str]) -> tuple[ProcessShape, ...]:
    if profile is not None:
        return (profiled_shape(profile.figures, facts.longest_case),)
    assumed.append(
        "how alike cases are: two processes, one of few variants and one of many, are tried; a DP "
        "profile (cloakwork profile) tells it"
    )
    if facts.longest_case is None:
        assumed.append("cases of 8 events, of 60 at most: declare assume.longest_case")
    return supposed_shapes(facts.longest_case)


def _alphabet(facts: Facts, assumed: list[str]) -> tuple[str, ...]:
    if facts.alphabet is not None:
        return facts.alphabet
    assumed.append(f"{USUAL_ACTIVITIES} activities: declare assume.alphabet")
    return tuple(f"activity {number}" for number in range(1, USUAL_ACTIVITIES + 1))


def _times(facts: Facts, assumed: list[str]) -> InventedTimes:
    if facts.window is None:
        assumed.append("starts within two years: declare assume.window")
    if facts.longest_gap is None:
        assumed.append("at most 30 days between two events: declare assume.longest_gap")
    return InventedTimes(facts.window or USUAL_WINDOW, facts.longest_gap or USUAL_GAP)


def _invented_log(facts: StandInFacts, shape: ProcessShape, seed: int) -> EventLog:
    """Cases of an invented process, with times and values."""
    # No privacy rests on these draws: nothing of a log is in them.
    draw = np.random.default_rng([seed, len(facts.alphabet), facts.cases])
    sizes = variant_sizes(shape, facts.cases, draw)[:MOST_VARIANTS]
    variants = draw_variants(shape, len(facts.alphabet), len(sizes), draw)
    variant_of = np.repeat(np.arange(len(variants)), sizes[: len(variants)])
    variant_of = draw.permutation(variant_of)
    lengths = np.array([len(variant) for variant in variants], np.int64)[variant_of]
    codes = np.concatenate([np.array(variants[row], np.int64) for row in variant_of])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    stamps = facts.times.drawn(codes, offsets, len(facts.alphabet), draw)
    events = dict(_events(facts, codes, stamps, draw))
    cases = dict(_cases_columns(facts, len(variant_of), draw))
    return EventLog(pl.DataFrame(events), pl.DataFrame(cases), offsets)


def _events(
    facts: StandInFacts, codes: Ints, stamps: pl.Series, draw: np.random.Generator
) -> Iterator[tuple[str, pl.Series]]:
    labels = pl.Series(ACTIVITY, facts.alphabet, pl.String).gather(codes)
    for name in facts.activity_names:
        yield name, labels.alias(name)
    for name in facts.time_names:
        yield name, stamps.alias(name)
    for attribute in facts.attributes:
        if not attribute.name.startswith(CASE_PREFIX):
            yield attribute.name, attribute.of_events(codes, len(facts.alphabet), draw)


def _cases_columns(
    facts: StandInFacts, count: int, draw: np.random.Generator
) -> Iterator[tuple[str, pl.Series]]:
    yield CASE_ID, pl.Series(CASE_ID, [f"case {row}" for row in range(count)], pl.String)
    for name, most in facts.units.items():
        # Most units have one case; some have up to as many as are kept.
        sizes = np.minimum(draw.geometric(0.6, count), most)
        owners = np.repeat(np.arange(count), sizes)[:count]
        yield name, pl.Series(name, [f"unit {owner}" for owner in owners], pl.String)
    for attribute in facts.attributes:
        if attribute.name.startswith(CASE_PREFIX):
            yield attribute.name, attribute.of_cases(count, draw)
