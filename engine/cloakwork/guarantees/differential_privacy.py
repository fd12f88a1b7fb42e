"""Differential privacy: one unit's data changes no probability by more than a factor.

And what the rules of guarantees that rest on noise share: what the noise costs, where it is not
proved, and the claim that takes other columns as known.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, model_validator

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import (
    RARE,
    Cost,
    Currency,
    cost_of_group,
    cost_of_member,
    epsilon_of_advantage,
    guessing_advantage,
    odds_sentence,
)
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.quantities import LEAST_EPSILON, MOST_EPSILON, as_number
from cloakwork.base.text import listed
from cloakwork.guarantees.base import (
    Columns,
    Delta,
    Direction,
    Epsilon,
    GuaranteePrice,
    NoiseGuarantee,
    ReleaseOutline,
    factor_text,
    listed_briefly,
    rounded_up,
)
from cloakwork.guarantees.claims import (
    Assumption,
    ConditionedOn,
    DomainsDeclared,
    GapsAtMost,
    GroupOfCases,
    GuaranteeCaveat,
    IndependentPresence,
    KnownRules,
    LocalTime,
    MayRevealTimes,
    NoiseCosts,
    NothingElseObservable,
    OthersReadNoTimes,
    ProfileIsCharged,
    ProtectsEachCase,
    ProtectsEachEmployee,
    ProtectsOneTime,
    Reason,
    StartsWithin,
    TimesOnlyThroughNoise,
    TimesRounded,
    UnitsAtMost,
    ValuesOnlyThroughNoise,
)
from cloakwork.guarantees.flow import (
    Derived,
    Flow,
    Underived,
    form_assumptions,
    unit_assumptions,
)


def derive_given_columns(goal: NoiseGuarantee, flow: Flow) -> Derived | Underived:
    """Raw times, and raw values of covered attributes, reach nothing but through charged noise;
    whatever else is released is taken as known (rule 4 of ``docs/guarantees.md``).
    """
    covered = frozenset(goal.over)
    lacking = [name for name in goal.over if name not in flow.columns or name not in flow.released]
    if lacking:
        return Underived((f"no {listed(lacking)} are released",))
    used = frozenset[int]().union(*(flow.columns[name].measured for name in covered))
    steps = [flow.steps[index] for index in sorted(used)]
    # Noise for a unit more or less: with other times it is one less and one more.
    measured_twice = [
        f"{step.mechanism} draws noise for one unit more or less: "
        "other values of a unit would change what it measures twice"
        for step in steps
        if step.lineage.generates or (step.lineage.enriches and not step.lineage.is_given_flow)
    ]
    # Metric privacy speaks of one time of one event, differential privacy of a unit's values: noise
    # for the one is not counted for the other, and would let through what it was drawn for.
    currency = goal.price().currency
    uncounted = [
        f"{step.mechanism} looks at {listed(sorted(covered & step.lineage.measures))} through "
        "noise that is not counted for this guarantee: ask for one of the two"
        for step in steps
        if step.currency != currency and covered & step.lineage.measures
    ]
    causes = (
        *_raw_values(covered, flow),
        *measured_twice,
        *uncounted,
        *unproved_causes(used, flow),
        *budget_causes(goal, flow),
    )
    if causes:
        return Underived(causes)
    are_drawn = any(step.lineage.enriches for step in steps)
    public = _public_values(covered, currency, flow.facts, are_drawn=are_drawn)
    protected: Iterable[Assumption] = unit_assumptions(flow.facts)
    if currency == "metric":
        protected = (ProtectsOneTime(), *form_assumptions(flow.facts))
    # In terms of times, or of all covered columns where there are others.
    columns = () if covered == {TIMESTAMPS} else tuple(sorted(covered))
    return derived_at_cost(
        goal,
        flow,
        (
            TimesOnlyThroughNoise(mechanisms=flow.names_of(used), columns=columns),
            OthersReadNoTimes(columns=columns),
        ),
        (*protected, *public),
        given=_conditioning_columns(covered, used, currency, flow),
    )


def _public_values(
    covered: frozenset[str],
    currency: Currency,
    facts: Facts,
    *,
    are_drawn: bool,
) -> Iterator[Assumption]:
    """What is taken as public of the covered columns; ``are_drawn``: and not noised one by one."""
    if TIMESTAMPS in covered:
        yield from time_assumptions(currency, facts, are_drawn=are_drawn)
    attributes = tuple(sorted(covered - {TIMESTAMPS}))
    if attributes:
        yield DomainsDeclared(attributes=attributes)


def _raw_values(covered: frozenset[str], flow: Flow) -> Iterator[str]:
    columns = flow.columns
    for name in sorted(covered):
        if covered & columns[name].raw or not columns[name].measured:
            yield f"raw {name} would reach the released ones without noise"
    # What else is released must not be made of raw values either.
    for column in sorted(flow.released - covered):
        read = sorted(covered & columns[column].raw) if column in columns else []
        if read:
            writer = flow.writer_of(column)
            by = "the source" if writer is None else writer.mechanism
            how = " otherwise than through the order of events" if TIMESTAMPS in read else ""
            yield f"{by} reads {listed(read)}{how}, and writes {column}"


def _conditioning_columns(
    covered: frozenset[str],
    noised: frozenset[int],
    currency: Currency,
    flow: Flow,
) -> ConditionedOn:
    """All that is released beside the covered columns, unless it is made of these, noised, alone.

    What a column looks like decides nothing: a counter, a day or a pseudonym of a clock may tell
    every time.
    """
    columns = flow.columns
    known = (
        column
        for column in flow.released - covered
        if column not in columns or columns[column].raw or not columns[column].measured <= noised
    )
    # Other times of a case may put it into another window, and it would be gone from this one.
    is_known = currency == "unit" or flow.facts.release_window is not None
    window = flow.facts.window if is_known else None
    return ConditionedOn(columns=tuple(sorted(known)), window=window)


def time_assumptions(
    currency: Currency,
    facts: Facts,
    *,
    are_drawn: bool,
) -> Iterator[Assumption]:
    """What noise on times is scaled to, and, where they ``are_drawn``, whose clocks they follow."""
    yield TimesRounded(grid=facts.grid, epoch=facts.epoch)
    if facts.time_zone is not None and are_drawn:
        yield LocalTime(zone=facts.time_zone)
    if facts.window is not None and currency == "unit":
        yield StartsWithin(window=facts.window)
    if facts.longest_gap is not None and currency == "unit":
        yield GapsAtMost(longest=facts.longest_gap)


def derived_at_cost(
    goal: NoiseGuarantee,
    flow: Flow,
    derivation: tuple[Reason, ...],
    assumptions: tuple[Assumption, ...],
    *,
    given: ConditionedOn | None = None,
) -> Derived:
    """That it follows, with what the accountant charges for all noise in its currency."""
    price = goal.price()
    events = flow.events(price.currency)
    spent = cost(events, price.cost.delta)
    # What adding up charges: Gaussian noise has no epsilon without some of ``delta``; a figure that
    # is not finite no file could hold.
    sums = (naive(events, delta) for delta in (0.0, price.cost.delta))
    plain_sum = next((each for each in sums if math.isfinite(each.epsilon)), None)
    return Derived(
        derivation=(*derivation, NoiseCosts(cost=spent)),
        assumptions=assumptions,
        cost=spent,
        naive=plain_sum,
        given=given,
    )


def unproved_causes(used: Iterable[int], flow: Flow) -> list[str]:
    """Which of the steps ``used`` prove nothing, and why."""
    used = frozenset(used)
    steps = [flow.steps[index] for index in sorted(used)]
    return [
        *(f"{step.mechanism} is only published, not proved" for step in steps if not step.proved),
        *(reason for index, reason in flow.unproven.items() if index in used),
    ]


def budget_causes(goal: NoiseGuarantee, flow: Flow) -> list[str]:
    """Whether the noise costs more than the goal allows."""
    price = goal.price()
    allowed = price.cost
    # At the delta of the goal, so that both can be compared.
    spent = cost(flow.events(price.currency), allowed.delta)
    if spent.is_within(allowed):
        return []
    return [
        f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: "
        f"more than {allowed.epsilon:g}, {allowed.delta:g}"
    ]


def _epsilon_or_advantage(schema: dict[str, Any]) -> None:
    """Let the published schema accept ``guessing_advantage`` in place of ``epsilon``."""
    schema["properties"]["guessing_advantage"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": (
            "Instead of epsilon: the largest rise of an attacker's probability "
            "that somebody is in the log"
        ),
    }
    schema["required"] = [name for name in schema["required"] if name != "epsilon"]
    schema["oneOf"] = [{"required": ["epsilon"]}, {"required": ["guessing_advantage"]}]


_STILL_TOLD: Final = (
    "What many cases have in common can still be learned from the release, about people in the log "
    "as about others; what only one protected unit's data would tell cannot, beyond this bound."
)


class DifferentialPrivacy(NoiseGuarantee):
    """The joint distribution of everything observable about ``over`` is (epsilon, delta)-DP.

    ``neighbours`` is *unbounded* (one unit's whole contribution added or removed) or *bounded* (one
    unit's timestamps or attribute values changed, control flow given). A policy may state
    ``guessing_advantage`` instead of epsilon; it is read as the epsilon that it comes to.
    """

    model_config = ConfigDict(json_schema_extra=_epsilon_or_advantage)

    currency: ClassVar[Currency | None] = "unit"
    stricter_if: ClassVar[Mapping[str, Direction]] = {
        "epsilon": "less",
        "delta": "less",
        "guessing_advantage": "less",
    }
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["differential-privacy"]
    epsilon: Epsilon
    delta: Delta = 0.0
    over: Columns
    neighbours: Literal["unbounded", "bounded"] = "unbounded"
    """unbounded hides whether a unit is in the log, bounded hides when its events happened, and
    which values they have
    """

    @model_validator(mode="before")
    @classmethod
    def _read_advantage(cls, values: Any) -> Any:
        # Before the fields are read, for epsilon is required.
        if not isinstance(values, dict) or "guessing_advantage" not in values:
            return values
        if "epsilon" in values:
            raise ValueError("guessing_advantage and epsilon say the same thing: state one of them")
        rest = {name: value for name, value in values.items() if name != "guessing_advantage"}
        advantage = as_number(values["guessing_advantage"])
        if not isinstance(advantage, int | float) or not 0 < advantage < 1:
            raise ValueError("guessing_advantage must be a number between 0 and 1")
        # A delta that is no number is refused by its own field.
        delta = as_number(values.get("delta", 0.0))
        epsilon = epsilon_of_advantage(advantage, delta if isinstance(delta, int | float) else 0.0)
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            raise ValueError(
                f"guessing_advantage comes to epsilon {epsilon:g}, "
                f"which must be between {LEAST_EPSILON:g} and {MOST_EPSILON:g}"
            )
        return {**rest, "epsilon": epsilon}

    @model_validator(mode="after")
    def _bounded_is_about_values(self) -> "DifferentialPrivacy":
        if self.neighbours == "bounded" and {CONTROL_FLOW, METADATA} & set(self.over):
            raise ValueError(
                "bounded neighbours have the same events in the same order: "
                "they are defined for over: timestamps and attributes"
            )
        return self

    def sentence(self) -> str:
        """Say it to a person."""
        factor = factor_text(self.epsilon)
        apart = f" (apart from probability {self.delta:g})" if self.delta else ""
        if self.neighbours == "bounded":
            return (
                f"Changing {self._what_changes('one protected unit')}, but not which events "
                f"they were, changes the probability of any release by at most {factor}{apart}: "
                f"differential privacy over {listed_briefly(self.over)}, "
                f"given the order of events and every other released column."
            )
        covered = listed(self.over)
        still_told = ""
        if self.covers_whole_log():
            covered = listed_briefly(self.over)
            still_told = f" {_STILL_TOLD}"
            covered = f"the log as a whole: {covered}"
        rarely = f", apart from outcomes of probability {RARE * self.delta:g}" if self.delta else ""
        gain = rounded_up(100 * guessing_advantage(self.epsilon, self.delta))
        return (
            f"Whether one protected unit is in the source log or not changes the probability of "
            f"any release by at most {factor}{apart}; whoever guesses whether that unit is in it "
            f"gains at most {gain:g} percentage points{rarely} "
            f"(differential privacy over {covered}).{still_told}"
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        strength = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        if self.neighbours == "bounded":
            guess = f"of one guess at {self._what_changes(f'one {who}')}"
            said = odds_sentence(self.epsilon, self.delta, guess, " of it")
            return f"{said} ({strength})"
        guess = f"that one {who} is in the log"
        said = odds_sentence(self.epsilon, self.delta, guess)
        whole = "for the log as a whole, " if self.covers_whole_log() else ""
        return f"{whole}{said} ({strength})"

    def _what_changes(self, who: str) -> str:
        """What differs between bounded neighbours."""
        attributes = tuple(name for name in self.over if name != TIMESTAMPS)
        values = f"the values of {listed_briefly(attributes)}"
        if TIMESTAMPS not in self.over:
            return f"{values} that the events of {who} have"
        happened = f"when the events of {who} happened"
        return f"{happened} and {values} that they have" if attributes else happened

    def derive(self, flow: Flow) -> Derived | Underived:
        """Between unbounded neighbours, no raw value reaches any released column except through
        charged noise (rules 1 to 3); between bounded ones, no covered one does (rule 4).
        """
        if flow.facts.employees is not None:
            return self._derive_for_employees(flow)
        if self.neighbours == "bounded":
            return derive_given_columns(self, flow)
        columns = flow.columns
        existing = [columns[column] for column in self.over if column in columns]
        used = frozenset().union(*(state.measured for state in existing))
        # What is released beside the covered columns is seen as well, through whatever noise.
        seen = used.union(*(columns[name].measured for name in flow.released & columns.keys()))
        steps = [flow.steps[index] for index in sorted(seen)]
        charged_otherwise = [
            f"{step.mechanism} is charged for {step.currency} privacy: its noise hides single "
            "values, not whether somebody is in the log"
            for step in steps
            if step.currency != "unit"
        ]
        causes = (
            *self._raw_values(flow),
            *charged_otherwise,
            *unproved_causes(seen, flow),
            *budget_causes(self, flow),
        )
        if causes:
            return Underived(causes)
        through_noise = ValuesOnlyThroughNoise(mechanisms=flow.names_of(used))
        derivation: tuple[Reason, ...] = (through_noise, NothingElseObservable())
        # The profile is published with the plan, so its noise is seen, too.
        if flow.profiled is not None:
            derivation = (ProfileIsCharged(), *derivation)
        # What no drawn case breaks, where cases are drawn.
        rules = flow.facts.rules
        assumptions = (
            *unit_assumptions(flow.facts),
            *self._public_values(flow.facts),
            *([KnownRules(rules=rules)] if rules is not None and self.hides_presence() else []),
            IndependentPresence(),
        )
        return derived_at_cost(self, flow, derivation, assumptions)

    def of_single_cases(self, facts: Facts) -> "DifferentialPrivacy | str":
        """What must hold of single cases for it to hold of whom the policy protects; or why nothing
        does, as the end of a sentence.

        The events of one employee lie in m cases at most. Taking them out changes each of these,
        which is one case removed and one added, and drawing other values for them is each replaced:
        so it holds where 2m, or m, cases together are protected as much (group privacy: Vadhan
        2017, lemma 2.2).
        """
        name = facts.employees
        size = self.cases_changed(facts)
        if name is None:
            return self
        if size is None:
            return (
                f"in how many cases one '{name}' takes part is not bounded, and each changes with "
                "them: declare assume.cases_per_employee, the most cases of one"
            )
        of_case = cost_of_member(Cost(epsilon=self.epsilon, delta=self.delta), size)
        if of_case.epsilon < LEAST_EPSILON:
            return (
                f"epsilon {self.epsilon:g} for one '{name}', who changes {size:,} cases, leaves "
                f"epsilon {of_case.epsilon:.3g} for one; the least is {LEAST_EPSILON:g}"
            )
        return self.model_copy(update={"epsilon": of_case.epsilon, "delta": of_case.delta})

    def cases_changed(self, facts: Facts) -> int | None:
        """How many single cases are added, removed or replaced with one employee; None where that
        is not bounded.
        """
        most = facts.cases_per_employee
        if facts.employees is None or most is None:
            return None
        return most if self.neighbours == "bounded" else 2 * most

    def _derive_for_employees(self, flow: Flow) -> Derived | Underived:
        name = flow.facts.employees
        most = flow.facts.cases_per_employee
        size = self.cases_changed(flow.facts)
        goal = self.of_single_cases(flow.facts)
        if isinstance(goal, str):
            return Underived((goal,))
        if flow.profiled is not None:
            return Underived(("a profile is measured for single cases, not for employees",))
        assert name is not None and size is not None  # noqa: S101 - else there is no goal of cases
        alone = flow.facts.model_copy(update={"employees": None})
        found = goal.derive(replace(flow, facts=alone))
        if isinstance(found, Underived) or found.cost is None:
            return found
        each: Literal["replaced", "removed-and-added"] = "removed-and-added"
        if self.neighbours == "bounded":
            each = "replaced"
        together = GroupOfCases(attribute=name, cases=size, each=each, cost=found.cost)
        protects = ProtectsEachEmployee(attribute=name, cases=most)
        others = (
            item.model_copy(update={"counted": "cases"}) if isinstance(item, UnitsAtMost) else item
            for item in found.assumptions
            if not isinstance(item, ProtectsEachCase)
        )
        return replace(
            found,
            derivation=(*found.derivation, together),
            assumptions=(protects, *others),
            cost=cost_of_group(found.cost, size),
            naive=None if found.naive is None else cost_of_group(found.naive, size),
        )

    def _raw_values(self, flow: Flow) -> Iterator[str]:
        """What would be seen without noise, in covered columns or in others that give them away."""
        columns = flow.columns
        for column in self.over:
            if column not in columns:
                yield f"{column} does not exist in the release: a step makes new cases without it"
            elif columns[column].raw:
                raw = " and ".join(sorted(columns[column].raw))
                yield f"raw {raw} would reach the released {column} without noise"
            elif not columns[column].measured:
                yield f"no step measures {column} through noise"
        # Not covered, and yet seen beside what is.
        for column in sorted(flow.released - set(self.over)):
            if column not in columns:
                yield (
                    f"{column} cannot be released beside it: a step makes new cases without it; "
                    "drop it"
                )
            elif columns[column].raw:
                yield (
                    f"{column} would be released raw beside it, and can give the protected columns "
                    "away"
                )

    def _public_values(self, facts: Facts) -> Iterator[Assumption]:
        """What is taken as public of times and attributes that come with the control flow."""
        if not self.covers_whole_log():
            return
        if TIMESTAMPS in self.over:
            yield from time_assumptions("unit", facts, are_drawn=True)
        known = facts.domains.keys() | facts.ranges.keys()
        attributes = tuple(name for name in dict.fromkeys(self.over) if name in known)
        if attributes:
            yield DomainsDeclared(attributes=attributes)

    def cited(self) -> str:
        """As every guarantee is; of many attributes, their number."""
        if self.covers_whole_log():
            return f"{self.kind} over {listed_briefly(self.over)}"
        return super().cited()

    def covers_whole_log(self) -> bool:
        """Whether it is over the order of events and other columns, of whole units: it is derived
        where nothing else of the log is released without noise that it counts.
        """
        return self.hides_presence() and CONTROL_FLOW in self.over and len(set(self.over)) > 1

    def compared_logs(self) -> str:
        """Two neighbours."""
        if self.neighbours == "unbounded":
            return (
                "two logs that differ by everything that one protected unit contributes (unbounded)"
            )
        attributes = tuple(name for name in self.over if name != TIMESTAMPS)
        differing = ["times"] if TIMESTAMPS in self.over else []
        differing += [f"values of {listed_briefly(attributes)}"] if attributes else []
        return (
            f"two logs with the same order of events that differ in the {' and '.join(differing)} "
            "of one protected unit only (bounded)"
        )

    def price(self) -> GuaranteePrice:
        """Epsilon and delta for one unit."""
        return GuaranteePrice("unit", Cost(epsilon=self.epsilon, delta=self.delta))

    def hides_presence(self) -> bool:
        """Between unbounded neighbours."""
        return self.neighbours == "unbounded"

    def takes_columns_as_known(self) -> bool:
        """Between bounded neighbours, which have all but covered values in common."""
        return self.neighbours == "bounded"

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """Between bounded neighbours, what other columns reveal of times."""
        known = tuple(name for name in release.beside_times if name not in self.over)
        if self.takes_columns_as_known() and TIMESTAMPS in self.over and known:
            yield MayRevealTimes(columns=known)
