"""t-closeness and l-diversity of an attribute: values move between classes, the variants stay as
they are.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final

import polars as pl
from pydantic import JsonValue, ValidationError

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.guarantees import Guarantee, LDiversity, TCloseness
from cloakwork.log.eventlog import CASE_ID
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem, option_fault
from cloakwork.mechanisms.kanon.closeness_params import NAME, ClosenessParams
from cloakwork.mechanisms.kanon.closeness_values import with_close_values
from cloakwork.mechanisms.kanon.column_summary import ColumnOfCases
from cloakwork.mechanisms.kanon.randomise import least_t
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

_OPTIONS: Final = ("infeasible", "step")


class Closeness(Mechanism[ClosenessParams]):
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
    options: ClassVar[Mapping[str, str]] = {
        "infeasible": "refuse the log, or suppress what cannot be brought to the aim (refuse)",
        "step": "for distance: stochastic over a range, the step to which numbers are rounded (1)",
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
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            known = ", ".join(_OPTIONS)
            return Refusal(
                "misconfigured", f"unknown option {', '.join(unknown)}; it knows {known}"
            )
        try:
            params = _params_of_goal(goal, facts, options)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))
        contradiction = _find_contradiction(params)
        if contradiction is not None:
            return Refusal("misconfigured", contradiction)
        if params.aim == "stochastic":
            return _offer_stochastic(params, facts)
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

    def decide(self, params: ClosenessParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """The value of every event, or case: rows as in the summary; none where nobody can have
        any.

        Raises ``Infeasible`` where a class holds too few values, ``MechanismError`` when the log
        lacks the attribute.
        """
        column = ColumnOfCases(params.source_column)
        log = column.as_log(summary)
        after = with_close_values(log, params, noise)
        return Decision(pl.DataFrame() if after is log else column.of(after))

    def rewrite(self, params: ClosenessParams, decision: Decision, stream: Stream) -> Rewrite:
        """Give every event, or case, the value that was decided for it."""
        if decision.table.width == 0:
            return MapCases(lambda log: log, together="case")
        column, decided = ColumnOfCases(params.source_column), decision.table
        return MapCases(lambda log: column.with_decided_values(log, decided), together="case")


def _params_of_goal(
    goal: TCloseness | LDiversity, facts: Facts, options: Mapping[str, JsonValue]
) -> ClosenessParams:
    """The parameters; raises pydantic's ``ValidationError`` for options that do not fit."""
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
    return ClosenessParams.model_validate(given)


def _find_contradiction(params: ClosenessParams) -> str | None:
    """Why these parameters make no sense together; None where they do."""
    if params.column == TIMESTAMPS and params.infeasible == "suppress":
        return "infeasible: suppress would leave events without a time; cycle times need one"
    if params.aim == "emd" and params.bound >= 1:
        return (
            f"no class lies farther than 1 from the whole, so t = {params.bound:g} asks for nothing"
        )
    return None


def _offer_stochastic(params: ClosenessParams, facts: Facts) -> Offer[ClosenessParams] | Refusal:
    """Values are randomised over what the policy declares, never over what the log holds."""
    if params.bound <= 1:
        return Refusal(
            "misconfigured",
            "stochastic t bounds a ratio of probabilities, so it must be above 1; "
            "how close to 1 is up to you",
        )
    declared = _with_declared_values(params, facts)
    if isinstance(declared, Refusal):
        return declared
    reason = _why_noise_cannot_be_drawn(declared)
    if reason is not None:
        return Refusal("misconfigured", reason)
    return Offer(
        declared,
        f"randomises each value of {declared.column_in_words} so that no class makes an outcome "
        "likelier",
    )


def _with_declared_values(params: ClosenessParams, facts: Facts) -> ClosenessParams | Refusal:
    """``params`` with the public domain, or range, of the values."""
    if params.column == TIMESTAMPS:
        if facts.longest_gap is None:
            missing = ("assume.longest_gap",)
            return Refusal("needs", "noise on cycle times needs a public bound on them", missing)
        # In grid steps, rounded up, which -(-a // b) does in integers.
        most_steps = max(1, -(-facts.longest_gap // params.grid))
        return params.model_copy(update={"range": (0.0, float(most_steps))})
    domain = facts.domains.get(params.column)
    value_range = facts.numeric_range(params.column)
    if domain is None and value_range is None:
        missing = (f"domain or range of '{params.column}' under spec.attributes",)
        reason = "values are randomised over all that there may be, which must be public"
        return Refusal("needs", reason, missing)
    return params.model_copy(update={"domain": domain, "range": value_range})


def _why_noise_cannot_be_drawn(params: ClosenessParams) -> str | None:
    """What is wrong with a range and its step for this t; None where nothing is, or where there is
    no range.
    """
    if params.range is None:
        return None
    # As text, a declared 0.1 is the tenth that its author meant, not the nearest float.
    low, high, step = (Fraction(str(figure)) for figure in (*params.range, params.step))
    if (high - low) % step:
        return f"the range must be a whole number of steps of {params.step:g}"
    least = least_t(int((high - low) / step))
    if params.bound < least:
        return f"noise for so small a t cannot be drawn; the least feasible t is {least:.12g}"
    return None
