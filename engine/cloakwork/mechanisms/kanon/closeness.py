"""t-closeness and l-diversity of an attribute: values move between classes so that every class may
show its own; the variants stay as they are.

The values of each activity are taken by themselves; what is done with them is in ``value_exchange``
and ``random_exchange``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import numpy as np
import polars as pl
from pydantic import ValidationError

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import Infeasible
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_ID
from cloakwork.base.progress import say
from cloakwork.guarantees import Guarantee, LDiversity, TCloseness
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    option_fault,
)
from cloakwork.mechanisms.kanon.attribute_values import (
    NAME,
    AttributeValues,
    ClosenessParams,
    ColumnOfCases,
    attribute_values_of,
    with_values,
)
from cloakwork.mechanisms.kanon.random_exchange import TrackDraws, exchange_at_random
from cloakwork.mechanisms.kanon.value_exchange import (
    ROUNDING,
    ClassGoal,
    Groups,
    LDiversityGoal,
    TClosenessGoal,
    exchange_values,
)
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

_OPTIONS: Final = ("infeasible",)
Move = Callable[[Ints, Ints, Sequence[Groups], ClassGoal], Ints]
"""Of codes, their cells, the groups to check and the goal: the codes in other cells."""


class Closeness(Mechanism[ClosenessParams]):
    """t-closeness (by the earth mover's distance, or stochastic) and l-diversity of one attribute.

    **emd, l-diversity.** Classes give a share of their values of each activity into a pool, which
    is redistributed evenly (``value_exchange``); every activity keeps exactly the values that it
    had.

    **stochastic.** Classes give values into a pool, chosen at random, which change places at
    random; how many follows from t and from what each class holds (``random_exchange``).

    Values of cases move between complete variants, and their prefixes, which lie inside one
    another, are judged; dealing evenly to variants deals evenly to what they begin with. For
    ``stochastic`` the variants are judged: what holds of each of these holds of what they begin
    with.

    **Inserted events** hold copies of kept events' values (``kanon/fill``) and take part in the
    exchange; for ``stochastic`` each gets a draw from the kept values of its activity. Each class
    must meet the aim with them, and without them, so that they dilute nothing.
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
    options: ClassVar[Mapping[str, str]] = {
        "infeasible": "refuse the log, or suppress what cannot be brought to the aim (refuse)",
    }
    action: ClassVar[str] = "exchange values between classes"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("t-closeness"), Gives("l-diversity"))
    summary: ClassVar[str] = (
        "Exchanges attribute values between classes of cases until no class stands out."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="In the release, the values of every class and activity are within t of all "
        "values of that activity, or as varied as l; "
        "or (stochastic) no value is more than t times as likely, or as unlikely, "
        "to be drawn given the class.",
        source="definitions: Li, Li and Venkatasubramanian, ICDE 2007; Machanavajjhala et al., "
        "ICDE 2006; stochastic: Domingo-Ferrer and Soria-Comas, "
        "Knowledge-Based Systems 2015, reached by the exchange proved in random_exchange",
    )
    Params = ClosenessParams

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
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
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            known = ", ".join(_OPTIONS)
            return Refusal(
                "misconfigured", f"unknown option {', '.join(unknown)}; it knows {known}"
            )
        given = {
            **options,
            "column": goal.attribute,
            "classes": goal.classes,
            "epoch": facts.epoch,
            "grid": facts.grid,
        }
        if isinstance(goal, TCloseness):
            given |= {"aim": goal.distance, "bound": goal.t, "scale": goal.scale}
        else:
            given |= {"aim": goal.variety, "bound": goal.l}
        try:
            params = ClosenessParams.model_validate(given)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))
        if params.is_of_cycle_times and params.infeasible == "suppress":
            return Refusal(
                "misconfigured",
                "infeasible: suppress would leave events without a time; cycle times need one",
            )
        if params.aim == "emd" and params.bound >= 1:
            return Refusal(
                "misconfigured",
                f"no class lies farther than 1 from the whole, so t = {params.bound:g} asks for "
                "nothing",
            )
        if params.aim == "stochastic" and params.bound < 1:
            return Refusal(
                "misconfigured",
                "stochastic t bounds a ratio of probabilities, so it must be at least 1 "
                "(1: no value tells anything of the class)",
            )
        if params.aim == "stochastic":
            return Offer(
                params,
                f"exchanges values of {params.column_in_words} between classes at random "
                f"until none is more than {params.bound:g} times as likely, or unlikely, "
                "given the class",
            )
        reached = f"holds {params.bound:g} ({params.aim}) of them"
        if params.aim == "emd":
            reached = f"lies within {params.bound:g} of all values"
        return Offer(
            params,
            f"exchanges values of {params.column_in_words} between classes "
            f"until each class {reached}",
        )

    def step(self, params: ClosenessParams, facts: Facts) -> RewriteStep:
        """Reads the control flow and the attribute; one case can change which values any number
        of others get.

        For t, which values are missing changes like the values themselves; for l, where values are
        left out.
        """
        stays = params.aim in ("distinct", "entropy") and params.infeasible == "refuse"
        presence = set() if stays or params.column == TIMESTAMPS else {METADATA}
        return RewriteStep(
            lineage=Lineage(
                reads=frozenset({CONTROL_FLOW, params.column}),
                writes=frozenset({params.column, *presence}),
                stability=None,
            ),
            summary=ColumnOfCases(params.source_column),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
        )

    def decide(
        self,
        params: ClosenessParams,
        summary: pl.DataFrame,
        noise: Noise,
    ) -> Decision:
        """The value of every event, or case, by the index of its case; no table where nobody can
        have any.

        Raises ``Infeasible`` where a class holds too few values, ``MechanismError`` when the log
        lacks the attribute.
        """
        column = ColumnOfCases(params.source_column)
        log = column.as_log(summary)
        values = attribute_values_of(log, params, noise)
        if values is None:
            return Decision(pl.DataFrame())
        if params.aim == "stochastic":
            remaining = values
            codes = _randomly_exchanged_codes(values, params.bound, noise)
        else:
            has_value, codes = _exchanged_codes(values, params, noise)
            remaining = values.restricted_to(has_value)
        moved = int((codes != remaining.codes).sum())
        say(f"{params.column}: {moved} of {len(codes)} values changed places")
        released = values.distinct.alias("").gather(codes)
        return Decision(
            column.decided(
                log,
                with_values(
                    log,
                    params,
                    remaining.source_rows,
                    released,
                ),
            )
        )

    def rewrite(
        self,
        params: ClosenessParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Give every event, or case, the value that was decided for it."""
        if decision.table.width == 0:
            return MapCases(lambda log: log, together="case")
        column = ColumnOfCases(params.source_column)
        decided = decision.table
        return MapCases(lambda log: column.with_decided_values(log, decided), together="case")


def _randomly_exchanged_codes(values: AttributeValues, t: float, noise: Noise) -> Ints:
    """The code that each row then has: of kept events exchanged at random, activity by activity; of
    inserted ones drawn from these.
    """
    codes = values.codes.copy()
    tracks = values.tracks
    drawn = TrackDraws.of(int(tracks.max(initial=-1)) + 1, noise)
    for rows in values.by_activity:
        is_kept = values.kept[rows]
        # Where an activity has inserted events alone, these are all that there is.
        kept = rows[is_kept] if is_kept.any() else rows
        codes[kept] = exchange_at_random(
            values.codes[kept], values.cells[kept], tracks[kept], t, drawn
        )
        inserted = rows[~is_kept] if is_kept.any() else rows[:0]
        copied = kept[noise.uniform(np.full(len(inserted), len(kept), np.int64))]
        codes[inserted] = values.codes[copied]
    return codes


def _exchanged_codes(
    values: AttributeValues, params: ClosenessParams, noise: Noise
) -> tuple[Bools, Ints]:
    """Which rows keep a value, and the code that each of these then has.

    Where classes miss the goal the log is refused, or they lose their values. Without these the
    values that classes are compared with are others, so the exchange starts again from what the
    rest had.
    """
    has_value = np.ones(len(values.codes), np.bool_)
    while True:
        remaining = values.restricted_to(has_value)
        goal: ClassGoal
        if params.aim == "emd":
            missing_code = len(remaining.distinct) - 1 if remaining.distinct.null_count() else -1
            by_rank = params.scale == "rank"
            goal = TClosenessGoal(
                params.bound,
                remaining.positions(),
                by_rank,
                missing_code,
            )
        else:
            goal = LDiversityGoal(
                params.bound, "distinct" if params.aim == "distinct" else "entropy"
            )
        codes = remaining.codes.copy()
        row_of_remaining = np.flatnonzero(has_value)
        missed = []
        for rows in remaining.by_activity:
            codes[rows], _, figures = _moved(
                remaining,
                rows,
                goal,
                partial(exchange_values, noise=noise),
            )
            if len(figures):
                missed.append(figures)
                lost = rows[_is_beyond_help(remaining, rows, goal)]
                has_value[row_of_remaining[lost]] = False
        if not missed:
            return has_value, codes
        if params.infeasible == "refuse":
            raise Infeasible(NAME, _explain_infeasible(params, np.concatenate(missed)))
        say(
            f"{params.column}: {int((~has_value).sum())} values are left out, "
            "of classes that cannot be protected otherwise"
        )


def _moved(
    values: AttributeValues, rows: Ints, goal: ClassGoal, move: Move
) -> tuple[Ints, Bools, Floats]:
    """The values at ``rows``, all of one activity, after ``move``: their codes; which of the rows
    stand in cells that miss the goal; and the figures of the groups that miss it.
    """
    distinct, codes, count = np.unique(values.codes[rows], return_inverse=True, return_counts=True)
    cells, groups_to_check = values.groups_to_check(rows)
    goal = goal.restricted_to(distinct, count)
    moved = move(codes.astype(np.int64), cells, groups_to_check, goal)
    misses = np.zeros(len(moved), np.bool_)
    missed_figures = [np.zeros(0)]
    for groups in groups_to_check:
        figures = goal.measure(moved, groups)
        is_short = goal.shortfall(figures) > 0
        misses[groups.member[is_short[groups.group]]] = True
        missed_figures.append(figures[is_short])
    # One that is short takes its whole cell along.
    cell_misses = np.isin(cells, cells[misses])
    return distinct[moved], cell_misses, np.concatenate(missed_figures)


def _is_beyond_help(values: AttributeValues, rows: Ints, goal: ClassGoal) -> Bools:
    """Which of ``rows`` stand in groups that miss the goal even where everything is redistributed,
    without those found before.

    For t it is all of them: a class without values would be as far from the others as can be.
    """
    if isinstance(goal, TClosenessGoal):
        return np.ones(len(rows), np.bool_)
    stays = np.ones(len(rows), np.bool_)
    while stays.any():
        _, misses, figures = _moved(
            values,
            rows[stays],
            goal,
            lambda codes, cells, groups, goal: goal.redistribute_all(codes, cells),
        )
        if not len(figures):
            break
        stays[np.flatnonzero(stays)[misses]] = False
    return ~stays


def _explain_infeasible(params: ClosenessParams, figures: Floats) -> str:
    """What cannot be had, and what can: the worst of the ``figures`` that redistributing everything
    came to, to four decimals on the safe side.
    """
    letter = "l"
    reached = "the largest l that the exchange reaches"
    feasible = float(figures.min())
    if params.aim == "entropy":
        feasible = math.floor((feasible + ROUNDING) * 1e4) / 1e4
    if params.aim == "emd":
        letter = "t"
        reached = "the least t that the exchange reaches"
        feasible = math.ceil((float(figures.max()) - ROUNDING) * 1e4) / 1e4
    remedies = ["a larger k"]
    if not params.is_of_cycle_times:
        remedies.append("infeasible: suppress under mechanisms.parameters")
    return (
        f"{letter} = {params.bound:g} is not reached over {params.classes}: "
        f"{reached} is {feasible:g}, since some classes hold too few "
        f"values; remedies are {', '.join(remedies)}"
    )
