"""Advice on a valid policy: what a careful reader would ask its author."""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from cloakwork.base.costs import guessing_advantage
from cloakwork.base.facts import CASE, leaves_of_tree, unit_name
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_ID
from cloakwork.base.text import words_of
from cloakwork.guarantees import (
    VACUOUS_T,
    DifferentialPrivacy,
    KAnonymity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.policy.advice import LEDGER_RULES, LOG_RULES, WAIVER_RULES, Advice, AdviceRule
from cloakwork.policy.attribute_words import STAFF, names_one_of
from cloakwork.policy.document import Steps
from cloakwork.policy.explain import covered_columns, gains_of_declaring, is_released
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import NO_OWNER, PURPOSE_ASKED, is_unstated

LARGE_EPSILON: Final = 4.0
LARGE_DELTA: Final = 1e-6
SMALL_K: Final = 5
SHORT_REASON: Final = 4  # words
FEW_GROUPS: Final = 20
MANY_CASES: Final = 100
"""Cases that hold an activity, for it to be released: above, most logs lose many activities."""


def lint(policy: Policy) -> tuple[Advice, ...]:
    """All advice on a policy."""
    return tuple(
        replace(advice, rule=name, level=rule.level)
        for name, rule in RULES.items()
        if rule.check is not None
        for advice in rule.check(policy)
    )


def purpose_not_stated(policy: Policy) -> Iterator[Advice]:
    """A release for no specified purpose."""
    if is_unstated(policy.metadata.purpose):
        # The place is named before what is said of it.
        message = PURPOSE_ASKED.removeprefix("metadata.purpose ")
        yield Advice(("metadata", "purpose"), message)
    if policy.metadata.owner == NO_OWNER:
        message = "is not stated; name who answers for this policy"
        yield Advice(("metadata", "owner"), message)


def values_in_groups(policy: Policy) -> Iterator[Advice]:
    """k-anonymity alone says nothing about values."""
    on_values = [
        goal
        for goal in policy.spec.guarantees
        if goal.bounds_values or goal.takes_columns_as_known()
    ]
    bounded = {name for goal in on_values for name in goal.over}
    if not any(isinstance(goal, KAnonymity) for goal in policy.spec.guarantees):
        return
    for name, rule in policy.spec.attributes.items():
        if rule.role == "sensitive" and is_released(policy, name) and name not in bounded:
            message = (
                f"'{name}' is sensitive and released beside k-anonymity alone: "
                "a group of cases that look alike may share one value (homogeneity); "
                "add t-closeness or l-diversity, or drop it"
            )
            yield Advice(("spec", "attributes", name), message)


def small_groups(policy: Policy) -> Iterator[Advice]:
    """Small k protects little against those who know somebody; of employees it bounds shares."""
    for index, goal in enumerate(policy.goals()):
        if isinstance(goal, KAnonymity) and not goal.employees and goal.k < SMALL_K:
            yield Advice(
                ("spec", "guarantees", index, "k"),
                f"k = {goal.k} is small; 10 is usual for partners",
            )


def weak_closeness(policy: Policy) -> Iterator[Advice]:
    """t-closeness that one outlier, or a large t, makes vacuous for numbers."""
    for index, goal in enumerate(policy.spec.guarantees):
        if not isinstance(goal, TCloseness) or goal.distance != "emd":
            continue
        if goal.scale == "range":
            message = (
                "scale: range is vacuous once one outlier widens the range of the values; "
                "use scale: rank"
            )
            yield Advice(("spec", "guarantees", index, "scale"), message)
        elif goal.t >= VACUOUS_T:
            message = (
                f"t = {goal.t:g} asks nothing of numbers: "
                f"by rank, no class lies much farther than {VACUOUS_T:g}"
            )
            yield Advice(("spec", "guarantees", index, "t"), message)


def inserted_events(policy: Policy) -> Iterator[Advice]:
    """A column that identifies events shows which of them k-anonymisation inserted."""
    if not any(isinstance(goal, KAnonymity) for goal in policy.spec.guarantees):
        return
    for name, rule in policy.spec.attributes.items():
        if not name.startswith("case:") and rule.role == "identifier" and is_released(policy, name):
            message = (
                f"events that k-anonymisation inserts copy '{name}' from other events: if it "
                "numbers or identifies events, its repeated values show which those are; drop it"
            )
            yield Advice(("spec", "attributes", name), message)


def pseudonyms(policy: Policy) -> Iterator[Advice]:
    """Pseudonyms keep frequencies, and links between releases."""
    for name, rule in policy.spec.attributes.items():
        if rule.treatment != "pseudonymise":
            continue
        message = (
            f"pseudonyms of '{name}' keep their frequencies: "
            "a value known to be common can be recognised"
        )
        if rule.link:
            message += "; with link they also tie all releases of the dataset together"
        yield Advice(("spec", "attributes", name, "treatment"), message)


def quasi_identifiers(policy: Policy) -> Iterator[Advice]:
    """A released quasi-identifier outside every guarantee is a way to single people out."""
    covered = covered_columns(policy)
    for name, rule in policy.spec.attributes.items():
        if rule.role == "quasi-identifier" and is_released(policy, name) and name not in covered:
            message = (
                f"'{name}' is a quasi-identifier, released and covered by no guarantee: "
                "people may be singled out by it"
            )
            yield Advice(("spec", "attributes", name), message)


def persons_without_unit(policy: Policy) -> Iterator[Advice]:
    """Where persons can be identified, protecting single cases may be too little; who works on
    cases is not whom they are about.
    """
    if policy.spec.unit.attribute is not None:
        return
    for name, rule in policy.spec.attributes.items():
        # The case id and the variant tell cases apart, not persons; no case is about its staff.
        is_other = name == CASE_ID or names_one_of(words_of(name), STAFF | {"variant"})
        if rule.role == "identifier" and name.startswith("case:") and not is_other:
            message = (
                f"single cases are protected; if several cases may belong to one '{name}', "
                f"protect it: unit: {{attribute: '{name}'}}"
            )
            yield Advice(("spec", "unit"), message)


def cases_or_units(policy: Policy) -> Iterator[Advice]:
    """Counting cases says little where one unit owns several."""
    if policy.spec.unit.attribute is None or policy.spec.unit.level == "event":
        return
    for index, goal in enumerate(policy.spec.guarantees):
        if isinstance(goal, KAnonymity) and goal.count == "cases":
            message = "k counts cases, while one unit may own several of them; use count: units"
            yield Advice(("spec", "guarantees", index), message)


def large_epsilon(policy: Policy) -> Iterator[Advice]:
    """A large epsilon promises little."""
    for index, goal in enumerate(policy.spec.guarantees):
        price = goal.price()
        if price is None or price.cost.epsilon <= LARGE_EPSILON:
            continue
        message = f"epsilon {price.cost.epsilon:g} is large"
        if goal.hides_presence():
            gain = 100 * guessing_advantage(price.cost.epsilon, price.cost.delta)
            message += (
                ": whoever guesses whether a protected unit is in the log "
                f"may become surer by {gain:.0f} in 100"
            )
        yield Advice(("spec", "guarantees", index, "epsilon"), message)


def large_delta(policy: Policy) -> Iterator[Advice]:
    """Without a declared number of units a delta above one in a million is refused by planning."""
    units = policy.spec.assume.units_at_most
    what = "without assume.units_at_most" if units is None else f"for {units:,} units"
    if policy.spec.unit.level == "event":
        units = None
        what = "for employees, whom assume.units_at_most does not count"
    # The bound that planning applies (``calibrate.largest_delta``).
    most = LARGE_DELTA if units is None else 1 / (10 * units)
    for index, goal in enumerate(policy.spec.guarantees):
        price = goal.price()
        if price is not None and price.cost.delta > most:
            message = (
                f"delta {price.cost.delta:g} is more than {most:.3g}, "
                f"the most that planning accepts {what}"
            )
            yield Advice(("spec", "guarantees", index, "delta"), message)


def no_delta(policy: Policy) -> Iterator[Advice]:
    """Releasing the labels and variants that occur takes a delta."""
    for index, goal in enumerate(policy.spec.guarantees):
        if isinstance(goal, DifferentialPrivacy) and goal.delta == 0 and CONTROL_FLOW in goal.over:
            message = "differential privacy over the control flow needs a delta, for example 1.0e-6"
            yield Advice(("spec", "guarantees", index), message)


def no_total(policy: Policy) -> Iterator[Advice]:
    """Without a total, releases add up without end."""
    spends = any(goal.currency is not None for goal in policy.spec.guarantees)
    if spends and policy.spec.budget.total is None:
        message = (
            "no budget.total: "
            "nothing limits how much all releases of the dataset give away together"
        )
        yield Advice(("spec", "budget"), message)


def total_too_small(policy: Policy) -> Iterator[Advice]:
    """Each release costs at least what one of its guarantees asks for."""
    budget = policy.spec.budget
    for name, limit in (("release", budget.release), ("total", budget.total)):
        for goal in policy.spec.guarantees:
            if (
                limit
                and isinstance(goal, DifferentialPrivacy)
                and goal.epsilon > limit.cost().epsilon
            ):
                message = f"is less than a release costs: one guarantee asks for {goal.epsilon:g}"
                yield Advice(("spec", "budget", name), message)


def short_reasons(policy: Policy) -> Iterator[Advice]:
    """A reason should tell an auditor something."""
    for column, reason in policy.spec.expose.items():
        if len(reason.split()) < SHORT_REASON:
            message = (
                f"the reason for exposing '{column}' is short: "
                "say who gets it and why that is acceptable"
            )
            yield Advice(("spec", "expose", column), message)


def idle_exposures(policy: Policy) -> Iterator[Advice]:
    """An exposure of something that is dropped misleads the reader."""
    for column in policy.spec.expose:
        if column in policy.spec.attributes and not is_released(policy, column):
            yield Advice(
                ("spec", "expose", column), f"'{column}' is dropped, so there is nothing to expose"
            )


def unwritten_columns(policy: Policy) -> Iterator[Advice]:
    """A guarantee over times needs to know which attribute holds them."""
    roles = {CONTROL_FLOW: "control-flow", TIMESTAMPS: "timestamp"}
    held = {rule.role for rule in policy.spec.attributes.values()}
    # Every plan needs the activities, whether or not a guarantee covers them.
    for column in sorted(covered_columns(policy) | {CONTROL_FLOW}):
        if column in roles and roles[column] not in held:
            yield Advice(
                ("spec", "attributes"),
                f"no attribute has role: {roles[column]}; planning needs one",
            )


def undeclared_attributes(policy: Policy) -> Iterator[Advice]:
    """What the policy does not name is dropped; it is better to say so."""
    if "*" not in policy.spec.attributes:
        message = 'attributes that are not listed are dropped; say so: "*": {treatment: drop}'
        yield Advice(("spec", "attributes"), message)


def clocks_beside_noised_times(policy: Policy) -> Iterator[Advice]:
    """A claim over timestamps takes whatever else is released as known; only the author can tell
    what a column tells.
    """
    given = [goal for goal in policy.spec.guarantees if goal.takes_columns_as_known()]
    if not given:
        return
    noised = {name for goal in given for name in goal.over}
    for name, rule in policy.spec.attributes.items():
        if (
            is_released(policy, name)
            and name not in noised
            and rule.role not in ("control-flow", "timestamp")
            and name != CASE_ID
        ):
            message = (
                f"can anybody read times off '{name}' (a date, a day, a counter, "
                "a pseudonym of one)? The guarantee over timestamps takes it as known, "
                "so whoever can learns the times; drop it unless the answer is no"
            )
            yield Advice(("spec", "attributes", name), message)


def unproven(policy: Policy) -> Iterator[Advice]:
    """Unproven mechanisms have no place in a release."""
    if policy.spec.mechanisms.accept_unproven:
        message = "accept_unproven is for comparison; do not publish what such a run writes"
        yield Advice(("spec", "mechanisms", "accept_unproven"), message)


def shallow_branches(policy: Policy) -> Iterator[Advice]:
    """Values that have no group at the level asked for stand under a coarser one."""
    for name, rule in policy.spec.attributes.items():
        if rule.hierarchy is None or rule.treatment != "generalise" or rule.level == 0:
            continue
        # Names of groups are text; where a value stands in its list is a number.
        higher = [
            str(value)
            for place, value in leaves_of_tree(rule.hierarchy, ())
            if sum(isinstance(step, str) for step in place) < rule.level
        ]
        if higher:
            more = f" and {len(higher) - 1} more" if len(higher) > 1 else ""
            message = (
                f"in the hierarchy of '{name}' the value {higher[0]!r}{more} has "
                f"no group at depth {rule.level}, and is released as the lowest group above it; "
                "move it below a group of that depth, or lower the level"
            )
            yield Advice(("spec", "attributes", name, "hierarchy"), message)


def little_left(policy: Policy) -> Iterator[Advice]:
    """Parameters under which little of any log is left, judged by what is declared alone."""
    units = policy.spec.assume.units_at_most
    declared = policy.spec.assume.alphabet is not None
    for index, goal in enumerate(policy.spec.guarantees):
        if isinstance(goal, KAnonymity) and units is not None:
            # Each group holds at least k units, so no more groups than this can be made.
            groups = units // goal.k
            if groups < FEW_GROUPS:
                message = (
                    f"little may be left: of {units:,} units at most {groups:,} groups of "
                    f"{goal.k:,} can be made, so at most so many variants; a smaller k keeps more"
                )
                yield Advice(("spec", "guarantees", index, "k"), message)
        # Where activities are not public, those that few cases hold fall below a noisy threshold.
        if declared or not isinstance(goal, DifferentialPrivacy):
            continue
        if CONTROL_FLOW in goal.over and goal.delta > 0:
            needed = _cases_to_be_seen(goal, policy.spec.unit.max_cases)
            if needed >= MANY_CASES:
                message = (
                    f"little may be left: with epsilon {goal.epsilon:g} and delta {goal.delta:g} "
                    f"an activity that fewer than about {needed:,} cases hold is mostly left out; "
                    "a larger epsilon, or assume.alphabet, keeps more"
                )
                yield Advice(("spec", "guarantees", index, "epsilon"), message)


def noise_of_a_wait(goal: MetricPrivacy) -> timedelta:
    """How far the noise moves the time between two events, on average: two independent Laplace
    variables of scale shift / epsilon differ by one and a half times that.
    """
    return 1.5 * goal.shift / goal.epsilon


def undeclared_facts(policy: Policy) -> Iterator[Advice]:
    """What declaring would gain, where a guarantee covers the log as a whole."""
    for index, goal in enumerate(policy.goals()):
        lacking = gains_of_declaring(policy, goal)
        if lacking:
            said = "; ".join(f"without assume.{name} {why}" for name, why in lacking.items())
            yield Advice(
                ("spec", "guarantees", index, "over"), f"declaring more keeps more: {said}"
            )


def _cases_to_be_seen(goal: DifferentialPrivacy, max_cases: int) -> int:
    """How many cases an unknown label needs to be released with probability one half, at best.

    The most that any (epsilon, delta)-DP mechanism may do grows by ``p -> e**epsilon p + delta``
    a unit, until it reaches one half (Desfontaines, Voss, Gipson, Mandayam 2022, theorem 1), so
    ``units = ln(1 + (e**epsilon - 1) / (2 delta)) / epsilon``. A unit holds ``max_cases`` cases.
    """
    units = math.log1p(math.expm1(goal.epsilon) / (2 * goal.delta)) / goal.epsilon
    return math.ceil(units) * max_cases


FOUND_SHARE: Final = "a fifth"
"""What finding values takes, in words, unless an option says else."""


def missing_values(policy: Policy) -> Iterator[Advice]:
    """Where attributes are drawn anew, the values that they may have have to be declared."""
    for index, goal in enumerate(policy.spec.guarantees):
        if isinstance(goal, DifferentialPrivacy) and goal.covers_whole_log():
            for place, name in enumerate(goal.over):
                message = _lacking(policy, policy.column(name))
                if message is not None:
                    yield Advice(("spec", "guarantees", index, "over", place), message)


def _lacking(policy: Policy, column: str) -> str | None:
    """What is not declared of a column that is drawn anew; None where nothing is missing."""
    rule = policy.spec.attributes.get(column)
    if rule is None or column in (CONTROL_FLOW, TIMESTAMPS, METADATA):
        return None
    if column == policy.spec.unit.attribute:
        return f"'{column}' says who is protected, and no released case is anybody's: leave it out"
    if rule.role == "identifier":
        return f"'{column}' is an identifier, and has no values that are public: leave it out"
    if rule.find_values:
        return (
            f"the values of '{column}' are found through noise, which takes "
            f"{FOUND_SHARE} of what attributes are measured with, and loses values of few cases; "
            "declare its domain if it is known without the log"
        )
    if rule.domain is None and rule.range is None:
        return (
            f"which values '{column}' may have must be public: give it a domain: [low, high], "
            "or for numbers a range: [0, 100]; if they are not, find_values: true finds those "
            "that many cases have, at a price"
        )
    return None


def windows_and_facts(policy: Policy) -> Iterator[Advice]:
    """What windows of a growing log make of other keys."""
    spec = policy.spec
    if spec.budget.windows is None:
        return
    if spec.assume.window is not None:
        message = "it is not used: a case starts in the window that 'cloakwork apply' names"
        yield Advice(("spec", "assume", "window"), message)
    if unit_name(spec.unit) != CASE:
        message = (
            f"one '{spec.unit.attribute}' may have cases in every window, so all windows share "
            "one total: it has to last for as many releases as are planned"
        )
        yield Advice(("spec", "budget", "windows"), message)


def unused_values(policy: Policy) -> Iterator[Advice]:
    """Values are declared for a guarantee; without one the attribute is dropped, unnoticed."""
    for name, rule in policy.spec.attributes.items():
        is_declared = rule.find_values or rule.domain is not None or rule.range is not None
        if is_declared and rule.treatment is None and not is_released(policy, name):
            message = (
                f"the values of '{name}' are declared, but no guarantee covers it, so it is "
                "dropped: name it under over, or say treatment: drop"
            )
            yield Advice(("spec", "attributes", name), message)


# Control characters, formatting marks, and separators of lines and paragraphs.
_INVISIBLE: Final = ("Cc", "Cf", "Zl", "Zp")


def invisible_characters(policy: Policy) -> Iterator[Advice]:
    """Each key and value that holds control characters, or such of Unicode's category Cf."""
    # What the author wrote alone, not what is set by default.
    content = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for steps, text in _texts(content, ()):
        hidden = dict.fromkeys(
            letter
            for letter in text
            if unicodedata.category(letter) in _INVISIBLE and letter not in "\n\t"
        )
        if hidden:
            codes = ", ".join(ascii(letter)[1:-1] for letter in hidden)
            message = f"holds {codes}, which nobody sees; remove it unless the log has it there"
            yield Advice(steps, message)


def _texts(content: Any, steps: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(content, str):
        yield steps, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield (*steps, key), str(key)
            yield from _texts(value, (*steps, key))
    elif isinstance(content, list):
        for index, member in enumerate(content):
            yield from _texts(member, (*steps, index))


RULES: Final[Mapping[str, AdviceRule]] = {
    "homogeneous-groups": AdviceRule(
        "warning", "A sensitive attribute is released beside k-anonymity alone.", values_in_groups
    ),
    "small-k": AdviceRule("warning", "k is small.", small_groups),
    "weak-closeness": AdviceRule("warning", "t-closeness asks nothing of numbers.", weak_closeness),
    "identifier-of-events": AdviceRule(
        "warning", "An identifier of events shows which events were inserted.", inserted_events
    ),
    "pseudonyms": AdviceRule("warning", "Pseudonyms keep the frequencies of values.", pseudonyms),
    "uncovered-quasi-identifier": AdviceRule(
        "warning", "A quasi-identifier is released and covered by no guarantee.", quasi_identifiers
    ),
    "purpose-not-stated": AdviceRule(
        "warning", "What the release is for is not stated.", purpose_not_stated
    ),
    "person-without-unit": AdviceRule(
        "warning", "Cases are protected, where one person may own several.", persons_without_unit
    ),
    "cases-counted-for-units": AdviceRule(
        "warning", "k counts cases, where one unit may own several.", cases_or_units
    ),
    "large-epsilon": AdviceRule("warning", "epsilon is large.", large_epsilon),
    "large-delta": AdviceRule("warning", "delta is larger than planning accepts.", large_delta),
    "no-delta": AdviceRule(
        "warning", "Differential privacy over the control flow needs a delta.", no_delta
    ),
    "no-total": AdviceRule("warning", "Nothing limits what all releases cost together.", no_total),
    "total-too-small": AdviceRule(
        "warning", "A limit that is less than what one release costs.", total_too_small
    ),
    "short-reason": AdviceRule("note", "The reason for an exposure says little.", short_reasons),
    "idle-exposure": AdviceRule("note", "An exposed attribute is dropped.", idle_exposures),
    "shallow-branch": AdviceRule(
        "warning", "A value has no group at the level that is asked for.", shallow_branches
    ),
    "missing-role": AdviceRule(
        "warning", "No attribute has a role that planning needs.", unwritten_columns
    ),
    "undeclared-attributes": AdviceRule(
        "note", "What happens to attributes that are not listed is not said.", undeclared_attributes
    ),
    "values-not-declared": AdviceRule(
        "warning", "An attribute is drawn anew, and its values are not declared.", missing_values
    ),
    "values-not-used": AdviceRule(
        "note", "Declared values are used by no guarantee.", unused_values
    ),
    "windows-and-facts": AdviceRule(
        "note", "Windows of a growing log change what a key means.", windows_and_facts
    ),
    "clock-beside-noised-times": AdviceRule(
        "warning",
        "A column is released that may tell times, beside times under noise.",
        clocks_beside_noised_times,
    ),
    "little-left": AdviceRule(
        "note", "Under these parameters little of a log is left.", little_left
    ),
    "undeclared-facts": AdviceRule(
        "note", "Declaring public facts would keep more.", undeclared_facts
    ),
    "unproven-mechanisms": AdviceRule(
        "warning", "Mechanisms without a proof are accepted.", unproven
    ),
    "invisible-characters": AdviceRule(
        "warning", "A text holds characters that nobody sees.", invisible_characters
    ),
}
"""Each rule that looks at the policy alone, by its id."""

ADVICE_RULES: Final[Mapping[str, AdviceRule]] = {
    **RULES,
    **LOG_RULES,
    **LEDGER_RULES,
    **WAIVER_RULES,
}
