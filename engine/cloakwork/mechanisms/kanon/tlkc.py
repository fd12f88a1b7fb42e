"""TLKC: whoever knows a few events of a case finds many cases that match, and learns no sensitive
value for sure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.errors import Infeasible, MechanismError
from cloakwork.facts import UNIX_EPOCH, Facts
from cloakwork.guarantees import Background, ConfidenceBound, Guarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.naming import named, values_of
from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT
from cloakwork.mechanisms.base import (
    Costless,
    Decision,
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
)
from cloakwork.mechanisms.kanon.knowledge import (
    Courses,
    Floats,
    Ints,
    Level,
    Members,
    TooManyMatches,
    levels,
    tally,
    unmatch,
)
from cloakwork.noise import Noise
from cloakwork.progress import say
from cloakwork.quantities import Duration, Frozen, Number

STEPS: Final = "steps"
VALUES: Final = "values"
KEPT: Final = "kept"
NAME: Final = "kanon/tlkc"

OTHER_KINDS: Final = {
    "k-anonymity": "it bounds what a few known events tell; complete activity sequences may stay unique",
    "t-closeness": "it bounds the confidence in single values, not the distance between distributions",
    "l-diversity": "it bounds the confidence in single values, not how many there are",
    "differential-privacy": "it suppresses events and draws no noise; it cannot give differential privacy",
    "metric-privacy": "it suppresses events and draws no noise; kept values stay as they are",
    "local-dp": "it suppresses events; it randomises no value",
}


class TlkcParams(Frozen):
    """What the policy's guarantee says, and two declared facts; there are no options.

    ``L``, ``K``, ``C``, ``background``, ``precision``, ``attribute``, ``missing``: as in
    ``ConfidenceBound``. ``unit``: the case attribute whose distinct values K counts (None: cases).
    ``epoch``: when every released case begins, for background ``relative``.
    """

    L: Annotated[int, Field(ge=1)]
    K: Annotated[int, Field(ge=2)]
    C: Annotated[Number, Field(gt=0, le=1)]
    background: Background
    precision: Duration | None
    attribute: str | None
    missing: Literal["neutral", "sensitive"] = "neutral"
    unit: str | None
    epoch: AwareDatetime

    @property
    def keys(self) -> list[str]:
        """The columns of a summary that tell courses apart."""
        return [VARIANT] if self.precision is None else [VARIANT, STEPS]


@dataclass(frozen=True, slots=True)
class CourseCounts:
    """How many cases follow each course, by unit and sensitive values where these are needed.

    A summary has the columns ``variant`` (List[String], activities in order); with a precision
    ``steps`` (List[Int64], the time of each event since the first of its case, in whole precisions
    rounded down; null where it has none); with a unit ``unit`` (String, null where a case has
    none); with an attribute ``values`` (List[String], the distinct values that the case or any of
    its events holds, sorted); ``cases`` (Int64, at least 1). One row for each combination.
    """

    params: TlkcParams

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the courses of one batch; raises ``MechanismError`` where it lacks a column that is
        needed.
        """
        rows = courses_of_cases(batch, self.params)
        if (unit := self.params.unit) is not None:
            rows = rows.with_columns(_case_column(batch, unit).alias(UNIT))
        if (attribute := self.params.attribute) is not None:
            values = _values(batch, attribute)
            rows = rows.with_columns(
                (values if self.params.missing == "neutral" else _or_none(values)).alias(VALUES)
            )
        return self.merge(rows.with_columns(pl.lit(1, pl.Int64).alias(CASES)))

    def merge(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have for the same combination."""
        by = [name for name in parts.columns if name != CASES]
        return parts.group_by(named(*by), maintain_order=True).agg(pl.col(CASES).sum())


def courses_of_cases(log: EventLog, params: TlkcParams) -> pl.DataFrame:
    """The course of each case, one row a case: ``variant`` and, with a precision, ``steps``."""
    events = pl.DataFrame({"case": log.case_of, VARIANT: log.events[ACTIVITY].cast(pl.String)})
    if params.precision is not None:
        if TIMESTAMP not in log.events.columns:
            raise MechanismError(NAME, "the log has no timestamps, and the guarantee is about them")
        stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical().alias(STEPS)
        since = pl.col(STEPS) - pl.col(STEPS).min().over("case")
        events = events.with_columns(stamps).with_columns(since // _microseconds(params.precision))
    lists = events.group_by("case", maintain_order=True).agg(named(*params.keys))
    every = pl.DataFrame({"case": np.arange(log.cases.height)})
    joined = every.join(lists, on="case", how="left", maintain_order="left")
    return joined.select(named(*params.keys).as_expr().fill_null([]))


def _case_column(log: EventLog, name: str) -> pl.Series:
    """The values of a case attribute as text; all null where no case has it."""
    if name not in log.cases.columns:
        return pl.Series([None], dtype=pl.String).new_from_index(0, log.cases.height)
    return values_of(log.cases, name).cast(pl.String)


def _values(log: EventLog, attribute: str) -> pl.Series:
    """For each case the distinct values it holds, sorted: List[String]; a missing value is none."""
    table, case = (
        (log.cases, np.arange(log.cases.height))
        if _of_case(attribute)
        else (log.events, log.case_of)
    )
    if attribute not in table.columns:
        if log.cases.height:
            what = "case" if _of_case(attribute) else "event"
            raise MechanismError(
                NAME, f"no {what} has '{attribute}', of which the guarantee speaks"
            )
        return pl.Series([], dtype=pl.List(pl.String))
    values = values_of(table, attribute)
    if values.dtype.is_float():  # -0.0 and 0.0 are one value with two spellings
        values = values.zip_with(
            values.fill_null(1) != 0, pl.zeros(len(values), values.dtype, eager=True)
        )
    held = pl.DataFrame({"case": case, VALUES: values.cast(pl.String)})
    lists = held.group_by("case", maintain_order=True).agg(
        pl.col(VALUES).drop_nulls().unique().sort()
    )
    every = pl.DataFrame({"case": np.arange(log.cases.height)})
    return every.join(lists, on="case", how="left", maintain_order="left")[VALUES].fill_null([])


def _or_none(values: pl.Series) -> pl.Series:
    """``values`` where having none is one more value: told apart from every text by what stands
    before these.
    """
    told = values.list.eval(pl.lit("=") + pl.element())
    none = pl.Series([[""]], dtype=pl.List(pl.String)).new_from_index(0, len(values))
    return told.zip_with(values.list.len() > 0, none)


def _of_case(attribute: str) -> bool:
    return attribute.startswith(CASE_PREFIX)


class Tlkc(Costless):
    """Suppress events until every piece of background knowledge matches many cases, or none, and
    tells little.

    Knowledge is at most L events of a case, in the form that the guarantee names. It *violates* if
    some case matches it and fewer than K units do, or if more than the share C of those who match
    hold one sensitive value. In rounds, all knowledge is counted, the shortest first. At the first
    size at which some violates, all cases that match it are relieved of it: of each, the event with
    the best score goes first (violations gone for each event lost), until the case matches none of
    it. Then everything is counted again, until nothing violates.

    **Why the result holds the bound.** The last round counts all knowledge of size at most L on
    what is released, and finds no violation (``knowledge`` says why nothing is missed). **Why it
    ends.** Every round takes at least one event out of a course for good, and a log has finitely
    many. Suppressing an event can only take matches away, so it can make other knowledge rarer, and
    its confidence may rise: hence the recount. Knowledge of the shortest violating size is minimal,
    for everything shorter holds; a case that does not match it matches nothing longer that contains
    it.

    Cases with the same course lose the same events, whatever their units and values; cases left
    without events go. An event attribute's values count for the whole case even where their events
    went, which only overstates confidence.

    **Edge cases.** Empty log: empty release. Where nothing can be kept (fewer than K cases or
    units; one value that more than the share C of all cases hold; courses that share no event):
    refused with ``Infeasible``. One variant only, with K cases or more: unchanged.
    """

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = (
        "Suppresses events until a few known events match many cases and tell little."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="Any background knowledge of at most L events that matches a released case matches released cases of at "
        "least K units, of which at most the share C holds any one sensitive value. Variants may be released that "
        "nobody followed.",
        source="Rafiei, Wagner and van der Aalst, TLKC-Privacy Model for Process Mining, RCIS 2020, with complete generation "
        "of candidates and suppression by case; proved in this class's docstring",
    )
    Params = TlkcParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[TlkcParams] | Refusal:
        """Meet a confidence bound, counted in units where the policy names one."""
        if not isinstance(goal, ConfidenceBound):
            return Refusal("never", OTHER_KINDS.get(goal.kind, f"it gives no {goal.kind}"))
        if options:
            return Refusal("misconfigured", f"it has no option '{min(options)}'; it has none")
        if fault := _fault(goal):
            return Refusal("misconfigured", fault)
        stated = goal.model_dump(exclude={"kind"})
        params = TlkcParams(**stated, unit=facts.unit.attribute, epoch=facts.epoch)
        events = "one event" if goal.L == 1 else f"up to {goal.L} events"
        whom = "cases" if params.unit is None else f"different values of '{params.unit}'"
        tells = (
            f", of which at most {100 * goal.C:g}% hold the same '{goal.attribute}'"
            if goal.attribute
            else ""
        )
        why = f"leaves events out until what is known of {events} fits no case, or at least {goal.K} {whom}{tells}"
        return Offer(params, why)

    def lineage(self, params: TlkcParams) -> Lineage:
        """Which events stay depends on the control flow, on units and values, and for ``relative``
        on times.
        """
        owned = {name for name in (params.unit, params.attribute) if name is not None}
        times = {TIMESTAMPS} if params.precision is not None else set()
        return Lineage(
            reads=frozenset({CONTROL_FLOW, *owned, *times}),
            writes=frozenset({CONTROL_FLOW, METADATA, *times}),
            stability=None,
        )

    def summarise(self, params: TlkcParams) -> CourseCounts:
        """How many cases follow each course."""
        return CourseCounts(params)

    def decide(self, params: TlkcParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Say which events of each course stay: the columns of ``params.keys`` and ``kept``
        (List[Boolean]).

        Raises ``Infeasible`` when the log holds something and nothing of it can be kept,
        ``MechanismError`` when it is too large.
        """
        details = [name for name in summary.columns if name not in params.keys]
        grouped = summary.group_by(named(*params.keys), maintain_order=True).agg(named(*details))
        events = _events(grouped, params)
        courses, place = _known_of(events, params.background)
        members = _members(grouped, details)
        try:
            left, figures = _relieved(courses, members, params)
        except TooManyMatches:
            why = f"there is too much knowledge of up to L = {params.L} events to be counted; ask for a smaller L"
            raise MechanismError(self.name, why) from None
        stays = np.zeros(len(courses.symbol), np.bool_)
        stays[left] = True
        kept = events.select("course").with_columns(pl.Series(KEPT, stays[place]))
        lists = kept.group_by("course", maintain_order=True).agg(KEPT)
        table = (
            grouped.select(named(*params.keys))
            .with_row_index("course")
            .with_columns(pl.col("course").cast(pl.Int64))
        )
        table = table.join(lists, on="course", how="left", maintain_order="left")
        return Decision(table.select(named(*params.keys), pl.col(KEPT).fill_null([])), figures)

    def rewrite(self, params: TlkcParams, decision: Decision, noise: Noise) -> Rewrite:
        """Cut every case as its course is cut; batches are independent."""
        return MapCases(lambda log: _cut(log, decision.table, params))


def _fault(goal: ConfidenceBound) -> str | None:
    """What a guarantee asks for that means nothing."""
    if goal.attribute in (CONTROL_FLOW, TIMESTAMPS, METADATA, ACTIVITY, TIMESTAMP):
        return (
            f"'{goal.attribute}' is what background knowledge is about, not a sensitive attribute"
        )
    if goal.attribute is None and goal.C < 1:
        return f"C = {goal.C:g} says nothing without the sensitive attribute that it speaks of; name it, or leave C out"
    if goal.attribute is None and goal.missing == "sensitive":
        return "missing: sensitive says nothing without the attribute whose values may be missing; name it"
    if goal.attribute is not None and goal.missing == "sensitive" and not _of_case(goal.attribute):
        return f"missing: sensitive needs an attribute of cases: leaving events out takes values of '{goal.attribute}' away"
    if goal.attribute is not None and goal.C == 1:
        return f"C = 1 bounds no confidence in '{goal.attribute}'; choose C below 1"
    if goal.background == "relative" and goal.precision is None:
        return "background: relative needs a precision, such as 1d: how precisely the attacker knows times"
    if goal.background != "relative" and goal.precision is not None:
        return f"background: {goal.background} says nothing about times; precision belongs to background: relative"
    return None


def _events(grouped: pl.DataFrame, params: TlkcParams) -> pl.DataFrame:
    """The events of all courses end to end: ``course`` (Int64) and ``symbol`` (Int64), equal for
    what is known equally.

    Symbols are numbered by activity, then time, so that nothing depends on the order of courses.
    """
    listed = (
        grouped.select(named(*params.keys))
        .with_row_index("course")
        .filter(pl.col(VARIANT).list.len() > 0)
    )
    events = listed.explode(named(*params.keys))
    symbols = (
        events.select(named(*params.keys))
        .unique()
        .sort(named(*params.keys))
        .with_row_index("symbol")
    )
    joined = events.join(
        symbols, on=named(*params.keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(pl.col("course", "symbol").cast(pl.Int64))


def _known_of(events: pl.DataFrame, background: Background) -> tuple[Courses, Ints]:
    """The courses as an attacker knows them, and for each event the place that it stands at."""
    course, symbol = events["course"].to_numpy(), events["symbol"].to_numpy()
    each = np.arange(len(symbol))
    if background in ("sequence", "relative"):
        return Courses(symbol, course, np.ones(len(symbol), np.int64)), each
    if background == "multiset":
        order = np.lexsort((each, symbol, course))
        place = np.empty(len(symbol), np.int64)
        place[order] = each
        return Courses(symbol[order], course[order], np.ones(len(symbol), np.int64)), place
    symbols = int(symbol.max(initial=0)) + 1
    distinct, place, count = np.unique(
        course * symbols + symbol, return_inverse=True, return_counts=True
    )
    return Courses(distinct % symbols, distinct // symbols, count.astype(np.int64)), place


def _members(grouped: pl.DataFrame, details: list[str]) -> Members:
    """Who follows each course; cases without a unit have a row each."""
    width = grouped[CASES].list.len().to_numpy().astype(np.int64)
    rows = grouped.select(named(*details)).explode(named(*details))
    course = np.repeat(np.arange(len(width)), width)
    unit: Ints | None = None
    units = 0
    if UNIT in rows.columns:
        alone = rows[UNIT].is_null().to_numpy()
        each = np.repeat(np.arange(rows.height), np.where(alone, rows[CASES].to_numpy(), 1))
        rows, course = rows[each], course[each]
        known = rows[UNIT].rank("dense").fill_null(0).to_numpy().astype(np.int64) - 1
        units = int(known.max(initial=-1)) + 1
        unit = np.where(alone[each], units + np.arange(len(known)), known)
        rows = rows.with_columns(
            pl.when(pl.col(UNIT).is_null()).then(1).otherwise(pl.col(CASES)).alias(CASES)
        )
    held = (
        rows[VALUES]
        if VALUES in rows.columns
        else pl.Series([[]] * rows.height, dtype=pl.List(pl.String))
    )
    value = held.explode().drop_nulls().rank("dense").to_numpy().astype(np.int64)
    return Members(
        offsets=np.concatenate([[0], np.cumsum(np.bincount(course, minlength=len(width)))]).astype(
            np.int64
        ),
        cases=rows[CASES].to_numpy().astype(np.int64),
        unit=unit,
        value_offsets=np.concatenate([[0], np.cumsum(held.list.len().to_numpy())]).astype(np.int64),
        value=value,
        units=units,
    )


def _relieved(
    courses: Courses, members: Members, params: TlkcParams
) -> tuple[Ints, dict[str, JsonValue]]:
    """The places that stay (int64, ascending), and figures for the internal report."""
    left, rounds, told = np.arange(len(courses.symbol)), 0, monotonic()
    if len(members.cases) and not len(left):
        raise Infeasible(NAME, _nothing_left(params, rounds, 0, 0.0))
    while True:
        now = courses.at(left)
        found = _violation(now, members, params)
        if found is None:
            return left, {**_figures(courses, left, members), "rounds": rounds}
        level, size, confidence = found
        if level.known.shape[1] == 0:
            raise Infeasible(
                NAME, _nothing_left(params, rounds, int(size[0]), float(confidence[0]))
            )
        gone = unmatch(level, _violating(size, confidence, params), now)
        left, rounds = np.delete(left, gone), rounds + 1
        if not len(left):
            raise Infeasible(NAME, _nothing_left(params, rounds, params.K, 0.0))
        if monotonic() - told >= 1:
            told = monotonic()
            say(f"{NAME}: round {rounds}, {len(left):,} of {len(courses.symbol):,} places left")


def _violation(
    courses: Courses, members: Members, params: TlkcParams
) -> tuple[Level, Ints, Floats] | None:
    """The shortest knowledge of which some violates, with the units and the confidence of each
    group.
    """
    for level in levels(courses, params.L):
        size, confidence = tally(level, members)
        if _violating(size, confidence, params).any():
            return level, size, confidence
    return None


def _violating(
    size: Ints, confidence: Floats, params: TlkcParams
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return (size < params.K) | (confidence > params.C)


def _nothing_left(params: TlkcParams, rounds: int, size: int, confidence: float) -> str:
    """Why no event can be released."""
    if rounds == 0 and size < params.K:
        held = "cases" if params.unit is None else f"distinct values of '{params.unit}'"
        return f"the log holds fewer than K = {params.K} {held} with events, so that no event can be released"
    if confidence > params.C:
        which = "cases" if rounds == 0 else "cases that suppression leaves"
        return f"more than C = {params.C:g} of all {which} hold one value of '{params.attribute}'; choose a larger C"
    return f"suppression for L = {params.L}, K = {params.K}, C = {params.C:g} leaves no event; ask for less"


def _figures(courses: Courses, left: Ints, members: Members) -> dict[str, JsonValue]:
    """What the internal report may tell; measured on the raw log, never public."""
    cases = (
        np.add.reduceat(np.append(members.cases, 0), members.offsets[:-1])
        if len(members.cases)
        else members.cases
    )
    weight = courses.events * cases[courses.course]
    return {
        "events": int(weight.sum()),
        "events_kept": int(weight[left].sum()),
        "cases": int(cases.sum()),
        "cases_kept": int(cases[np.unique(courses.course[left])].sum()),
    }


def _cut(log: EventLog, table: pl.DataFrame, params: TlkcParams) -> EventLog:
    """Every case with the events that its course keeps; cases without any go."""
    if log.cases.height == 0:
        return log
    cases = courses_of_cases(log, params)
    decided = (
        table.select(named(*params.keys))
        .with_row_index("row")
        .with_columns(pl.lit(None, pl.UInt32).alias("case"))
    )
    asked = cases.with_row_index("case").with_columns(pl.lit(None, pl.UInt32).alias("row"))
    columns = [*params.keys, "row", "case"]
    met = (
        pl.concat([decided.select(named(*columns)), asked.select(named(*columns))])
        .group_by(named(*params.keys))
        .agg(pl.col("row").drop_nulls().first(), pl.col("case").drop_nulls())
    )
    row = met.select("row", "case").explode("case").drop_nulls("case").sort("case")["row"]
    if row.null_count():
        raise MechanismError(NAME, "the log holds a variant that was not decided on")
    kept = table[KEPT].gather(row).explode().drop_nulls().to_numpy()
    if params.precision is not None:
        steps = cases[STEPS].filter(cases[STEPS].list.len() > 0).explode()
        log = replace(
            log, events=log.events.with_columns(_times(steps, params.precision, params.epoch))
        )
    rest = log.keep_events(kept)
    return rest.keep_cases(np.flatnonzero(np.diff(rest.offsets) > 0))


def _times(steps: pl.Series, precision: timedelta, epoch: datetime) -> pl.Series:
    """Steps as times from the epoch on."""
    return (
        (steps * _microseconds(precision) + _microseconds(epoch - UNIX_EPOCH))
        .cast(TIME_TYPE)
        .alias(TIMESTAMP)
    )


def _microseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
