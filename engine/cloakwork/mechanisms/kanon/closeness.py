"""t-closeness and l-diversity of an attribute: values move between classes, the variants stay as
they are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import AwareDatetime, Field, JsonValue, ValidationError

from cloakwork.errors import Infeasible
from cloakwork.facts import UNIX_EPOCH, Facts
from cloakwork.guarantees import Guarantee, LDiversity, TCloseness
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import (
    Decision,
    Gives,
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
    WithoutCost,
)
from cloakwork.mechanisms.kanon.attribute_values import (
    AttributeValues,
    CycleTimeGrid,
    attribute_values_of,
    with_values,
)
from cloakwork.mechanisms.kanon.column_summary import ColumnOfCases
from cloakwork.mechanisms.kanon.randomise import Randomiser, epsilon_for, least_t, randomiser_of
from cloakwork.mechanisms.kanon.value_exchange import (
    ROUNDING,
    ClassGoal,
    Groups,
    LDiversityGoal,
    TClosenessGoal,
    exchange_values,
)
from cloakwork.noise import Noise, Stream
from cloakwork.progress import say
from cloakwork.quantities import Duration, Frozen

Ints = NDArray[np.int64]

NAME: Final = "kanon/closeness"
_OPTIONS: Final = ("infeasible", "step")


class ClosenessParams(Frozen):
    """What the guarantee asks for, and how.

    ``column``: the attribute (``timestamps``: cycle times); ``classes``: whole variants, or their
    prefixes; ``aim`` and ``bound``: within ``bound`` = t by ``emd`` (``scale``: how far numbers
    lie apart) or ``stochastic``, or at least ``bound`` = l values, ``distinct`` or by ``entropy``.
    ``infeasible``: what happens where that cannot be had: for l the values of such classes are left
    out, for t those of the whole activity. ``domain``, ``range``, ``step``: for ``stochastic``, all
    values that there may be, or the least and largest number and what they are rounded to.
    ``epoch``, ``grid``: for cycle times, when every case starts, and what they are rounded to.
    """

    column: str
    classes: Literal["variants", "prefixes"]
    aim: Literal["emd", "stochastic", "distinct", "entropy"]
    bound: Annotated[float, Field(gt=0)]
    scale: Literal["rank", "range"] = "rank"
    infeasible: Annotated[
        Literal["refuse", "suppress"],
        Field(
            description="refuse the log, or leave out values: of such classes for l, "
            "of such activities for t"
        ),
    ] = "refuse"
    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    step: Annotated[float, Field(gt=0)] = 1.0
    epoch: AwareDatetime = UNIX_EPOCH
    grid: Duration


class Closeness(WithoutCost):
    """t-closeness (by the earth mover's distance, or stochastic) and l-diversity of one attribute.

    **emd, l-diversity.** Classes give a share of their values of each activity into a pool, which
    is redistributed evenly (``value_exchange``); every activity keeps exactly the values that it
    had.

    **stochastic.** Each value passes a randomiser of the declared domain whose epsilon follows from
    t and the size of the smallest class (``randomise``).

    Values of cases move between complete variants, and their prefixes, which lie inside one
    another, are judged; dealing evenly to variants deals evenly to what they begin with. For
    ``stochastic``, the smallest class is then sought among complete variants: no prefix has fewer
    cases than each of the variants that begin so.

    **Inserted events** hold copies of kept events' values (``kanon/fill``) and take part in the
    exchange. Each class must meet the aim with them, and without them, so that they dilute nothing.
    **Missing values** count as values for t, and are exchanged as well; for l they are none, and
    stay. As values only change places, the ranks by which numbers are compared stay what they were.

    **Cycle times** are the times between neighbouring events. An event without a time (inserted by
    a k-anonymiser) is given one of its activity's; then times are added up again, every case
    starting at the declared epoch. So when cases took place is gone; the order of events stays.

    **Edge cases.** Empty log, no values, one class only, one value only: unchanged. A class that
    holds fewer values than it takes (one case, say): refused with the best that is reached, or its
    values are left out.
    """

    name: ClassVar[str] = NAME
    gives: ClassVar[tuple[Gives, ...]] = (Gives("t-closeness"), Gives("l-diversity"))
    summary: ClassVar[str] = (
        "Exchanges attribute values between classes of cases until no class stands out."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="In the release, the values of every class and activity are within t of all "
        "values of that activity, or as varied as l; "
        "or (stochastic) no outcome is more than t times as likely, or as unlikely, "
        "given the class.",
        source="definitions: Li, Li and Venkatasubramanian, ICDE 2007; Machanavajjhala et al., "
        "ICDE 2006; stochastic: after Domingo-Ferrer and Soria-Comas, "
        "Knowledge-Based Systems 2015, epsilon proved in randomise.epsilon_for",
    )
    Params = ClosenessParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[ClosenessParams] | Refusal:
        """Meet t-closeness or l-diversity of any attribute, cycle times included."""
        if not isinstance(goal, TCloseness | LDiversity):
            return Refusal(
                "never", "it bounds what a class of cases reveals about values, nothing else"
            )
        if goal.attribute in (CONTROL_FLOW, METADATA, CASE_ID):
            return Refusal(
                "never",
                "it protects values that events or cases have beside their activity sequence",
            )
        if own := sorted(set(options) - set(_OPTIONS)):
            return Refusal(
                "misconfigured", f"unknown option {', '.join(own)}; it knows {', '.join(_OPTIONS)}"
            )
        aim, bound = (
            (goal.distance, goal.t) if isinstance(goal, TCloseness) else (goal.variety, goal.l)
        )
        given = {
            **options,
            "column": goal.attribute,
            "classes": goal.classes,
            "aim": aim,
            "bound": bound,
        }
        if isinstance(goal, TCloseness):
            given["scale"] = goal.scale
        try:
            params = ClosenessParams.model_validate(
                {**given, "epoch": facts.epoch, "grid": facts.grid}
            )
        except ValidationError as error:
            first = error.errors()[0]
            return Refusal("misconfigured", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        if params.column == TIMESTAMPS and params.infeasible == "suppress":
            return Refusal(
                "misconfigured",
                "infeasible: suppress would leave events without a time; cycle times need one",
            )
        if aim == "emd" and bound >= 1:
            return Refusal(
                "misconfigured",
                f"no class lies farther than 1 from the whole, so t = {bound:g} asks for nothing",
            )
        if aim == "stochastic":
            return _offer_stochastic(params, facts)
        how = (
            f"lies within {bound:g} of all values"
            if aim == "emd"
            else f"holds {bound:g} ({aim}) of them"
        )
        return Offer(
            params,
            f"exchanges values of {_called(params.column)} between classes until each class {how}",
        )

    def lineage(self, params: ClosenessParams) -> Lineage:
        """Reads the control flow and the attribute; one case can change which values any number
        of others get.

        For t, which values are missing changes like the values themselves; for l, where values are
        left out.
        """
        stays = params.aim in ("distinct", "entropy") and params.infeasible == "refuse"
        presence = set() if stays or params.column == TIMESTAMPS else {METADATA}
        return Lineage(
            reads=frozenset({CONTROL_FLOW, params.column}),
            writes=frozenset({params.column, *presence}),
            stability=None,
        )

    def summarise(self, params: ClosenessParams) -> ColumnOfCases:
        """The values of the attribute, case by case."""
        return ColumnOfCases(_attribute(params))

    def decide(self, params: ClosenessParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """The value of every event, or case: rows as in the summary; none where nobody can have
        any.

        Raises ``Infeasible`` where a class holds too few values, ``MechanismError`` when the log
        lacks the attribute.
        """
        column = self.summarise(params)
        log = column.as_log(summary)
        after = _protected(log, params, noise)
        return Decision(pl.DataFrame() if after is log else column.of(after))

    def rewrite(self, params: ClosenessParams, decision: Decision, stream: Stream) -> Rewrite:
        """Give every event, or case, the value that was decided for it."""
        if decision.table.width == 0:
            return MapCases(lambda log: log, together="case")
        column = self.summarise(params)
        return MapCases(lambda log: column.placed(log, decision.table), together="case")


def _attribute(params: ClosenessParams) -> str:
    """The column of the log that holds the values."""
    return TIMESTAMP if params.column == TIMESTAMPS else params.column


def _called(column: str) -> str:
    return "cycle times" if column == TIMESTAMPS else f"'{column}'"


def _offer_stochastic(params: ClosenessParams, facts: Facts) -> Offer[ClosenessParams] | Refusal:
    """Values are randomised over what the policy declares, never over what the log holds."""
    if params.bound <= 1:
        reason = (
            "stochastic t bounds a ratio of probabilities, so it must be above 1; "
            "how close to 1 is up to you"
        )
        return Refusal("misconfigured", reason)
    if params.column == TIMESTAMPS:
        if facts.longest_gap is None:
            missing = ("assume.longest_gap",)
            return Refusal("needs", "noise on cycle times needs a public bound on them", missing)
        params = params.model_copy(
            update={"range": (0.0, float(max(1, -(-facts.longest_gap // params.grid))))}
        )
    else:
        domain, between = facts.domains.get(params.column), facts.ranges.get(params.column)
        if domain is None and between is None:
            missing = (f"domain or range of '{params.column}' under spec.attributes",)
            return Refusal(
                "needs",
                "values are randomised over all that there may be, which must be public",
                missing,
            )
        params = params.model_copy(update={"domain": domain, "range": between})
    if params.range is not None:
        low, high, step = (Fraction(str(figure)) for figure in (*params.range, params.step))
        if (high - low) % step:
            return Refusal(
                "misconfigured", f"the range must be a whole number of steps of {params.step:g}"
            )
        least = least_t(int((high - low) / step))
        if params.bound < least:
            return Refusal(
                "misconfigured",
                f"noise for so small a t cannot be drawn; the least feasible t is {least:.12g}",
            )
    return Offer(
        params,
        f"randomises each value of {_called(params.column)} so that no class makes an outcome "
        "likelier",
    )


def _protected(log: EventLog, params: ClosenessParams, noise: Noise) -> EventLog:
    """The log with the values of ``params.column`` that every class may show."""
    times = CycleTimeGrid(params.epoch, params.grid) if params.column == TIMESTAMPS else None
    close = params.aim in ("emd", "stochastic")
    held = attribute_values_of(
        log, params.column, params.classes, times, missing_is_value=close, noise=noise
    )
    if held is None:
        return log
    randomiser = _randomiser(params, held)
    if randomiser is not None:
        return with_values(
            log,
            params.column,
            held.source_rows,
            _randomised(held, params.bound, randomiser, noise),
            times,
        )
    kept, codes = _exchanged(held, params, noise)
    left = held.restricted_to(kept)
    say(
        f"{params.column}: {int((codes != left.codes).sum())} of {len(codes)} values changed places"
    )
    return with_values(
        log, params.column, left.source_rows, held.distinct.alias("").gather(codes), times
    )


def _randomiser(params: ClosenessParams, held: AttributeValues) -> Randomiser | None:
    if params.aim != "stochastic":
        return None
    return randomiser_of(held.distinct, params.domain, params.range, params.step)


def _randomised(held: AttributeValues, t: float, randomiser: Randomiser, noise: Noise) -> pl.Series:
    """Each value randomised, activity by activity, with the epsilon that its smallest class asks
    for, counted with inserted events and without.
    """
    none = np.zeros(0, np.int64)
    parts = [randomiser(none, math.inf, noise)]
    for rows in held.by_activity:
        cells, kept = held.cells[rows], held.kept[rows]
        sizes = [np.unique(part, return_counts=True)[1] for part in (cells, cells[kept])]
        parts.append(
            randomiser(held.codes[rows], min(epsilon_for(t, size) for size in sizes), noise)
        )
    order = np.argsort(np.concatenate([none, *held.by_activity]), kind="stable")
    return pl.concat(parts).gather(order)


def _exchanged(
    held: AttributeValues, params: ClosenessParams, noise: Noise
) -> tuple[NDArray[np.bool_], Ints]:
    """Which rows keep a value, and the code that each of these then has. Where classes miss the aim
    the log is refused, or they lose their values; without these the whole is another one, so the
    others are exchanged from what they had.
    """
    kept = np.ones(len(held.codes), np.bool_)
    while True:
        left = held.restricted_to(kept)
        aim = _aim(params, left)
        outcomes = [(rows, _exchanged_in(left, rows, aim, noise)) for rows in left.by_activity]
        figures = np.concatenate([np.zeros(0), *(outcome.figures for _, outcome in outcomes)])
        if not len(figures):
            codes = left.codes.copy()
            for rows, outcome in outcomes:
                codes[rows] = outcome.codes
            return kept, codes
        if params.infeasible == "refuse":
            raise Infeasible(NAME, _infeasible(params, figures))
        standing = np.flatnonzero(kept)
        for rows, outcome in outcomes:
            if len(outcome.figures):
                kept[standing[rows[_beyond_help(left, rows, aim)]]] = False
        say(
            f"{params.column}: {int((~kept).sum())} values are left out, "
            "of classes that cannot be protected otherwise"
        )


def _aim(params: ClosenessParams, held: AttributeValues) -> ClassGoal:
    if params.aim == "emd":
        return TClosenessGoal(
            params.bound, held.positions(), params.scale == "rank", held.missing_code
        )
    return LDiversityGoal(params.bound, "distinct" if params.aim == "distinct" else "entropy")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What moving one activity's values came to: their codes, which of them stand in groups that
    miss the aim, and the figures of these groups.
    """

    codes: Ints
    misses: NDArray[np.bool_]
    figures: NDArray[np.float64]


def _exchanged_in(held: AttributeValues, rows: Ints, aim: ClassGoal, noise: Noise) -> _Outcome:
    """The values of one activity exchanged."""
    return _moved(
        held,
        rows,
        aim,
        lambda codes, cells, judged, aim: exchange_values(codes, cells, judged, aim, noise),
    )


def _beyond_help(held: AttributeValues, rows: Ints, aim: ClassGoal) -> NDArray[np.bool_]:
    """Which of ``rows`` stand in groups that miss the aim even where everything is assigned anew,
    without those before.

    For t it is all of them: a class without values would be as far from the others as can be.
    """
    if isinstance(aim, TClosenessGoal):
        return np.ones(len(rows), np.bool_)
    left = np.ones(len(rows), np.bool_)
    while left.any():
        outcome = _moved(
            held,
            rows[left],
            aim,
            lambda codes, cells, judged, aim: aim.redistribute_all(codes, cells),
        )
        if not len(outcome.figures):
            break
        left[np.flatnonzero(left)[outcome.misses]] = False
    return ~left


Move = Callable[[Ints, Ints, Sequence[Groups], ClassGoal], Ints]


def _moved(held: AttributeValues, rows: Ints, aim: ClassGoal, move: Move) -> _Outcome:
    """The values at ``rows``, all of one activity, after ``move``; it sees codes and cells made
    dense for them.
    """
    distinct, codes, count = np.unique(held.codes[rows], return_inverse=True, return_counts=True)
    cells, judged = held.groups_to_check(rows)
    narrowed = aim.restricted_to(distinct, count)
    moved = move(codes.astype(np.int64), cells, judged, narrowed)
    misses, figures = np.zeros(len(rows), np.bool_), [np.zeros(0)]
    for groups in judged:
        reached = narrowed.measure(moved, groups)
        short = narrowed.shortfall(reached) > 0
        misses[groups.member[short[groups.group]]] = True
        figures.append(reached[short])
    whole_class = np.isin(held.cells[rows], held.cells[rows[misses]])
    return _Outcome(distinct[moved], whole_class, np.concatenate(figures))


def _infeasible(params: ClosenessParams, figures: NDArray[np.float64]) -> str:
    """What cannot be had, and what can: the worst of the ``figures`` that dealing everything anew
    came to.
    """
    if params.aim == "emd":
        figure, said = (
            math.ceil((figures.max() - ROUNDING) * 1e4) / 1e4,
            "the least t that the exchange reaches",
        )
    elif params.aim == "entropy":
        figure, said = (
            math.floor((figures.min() + ROUNDING) * 1e4) / 1e4,
            "the largest l that the exchange reaches",
        )
    else:
        figure, said = figures.min(), "the largest l that the exchange reaches"
    asked = (
        f"{'t' if params.aim == 'emd' else 'l'} = {params.bound:g} is not reached over "
        f"{params.classes}"
    )
    remedies = ["a larger k"]
    if params.column != TIMESTAMPS:
        remedies.append("infeasible: suppress under mechanisms.parameters")
    return (
        f"{asked}: {said} is {figure:g}, since some classes hold too few values; "
        f"remedies are {', '.join(remedies)}"
    )
