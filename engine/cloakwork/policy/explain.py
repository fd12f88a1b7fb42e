"""A policy in plain words, for those who sign it."""

from collections.abc import Callable, Iterator
from typing import Final

from cloakwork.base.costs import odds_sentence
from cloakwork.base.facts import CASE, unit_name
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import is_glob
from cloakwork.base.lineage import METADATA, TIMESTAMPS
from cloakwork.base.notebook_html import html_of, listing, shown
from cloakwork.base.quantities import format_duration
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, KAnonymity
from cloakwork.policy.declared import SPELLINGS, Windows
from cloakwork.policy.model import AttributeRule, Budget, Limit, Policy, describe_version

MOST_VALUES: Final = 20
"""Values of a domain that are spelt out."""


@frozen
class Section:
    """One question about a policy, and its answers, one sentence or entry a line."""

    title: str
    lines: tuple[str, ...]


def explain(policy: Policy) -> tuple[Section, ...]:
    """The sections that say who is protected, how, against what, and what stays open."""
    sections = (Section(title, tuple(answer(policy))) for title, answer in SECTIONS)
    # A question without an answer is left out.
    return tuple(section for section in sections if section.lines)


@html_of.register
def policy_html(policy: Policy) -> str:
    """The same as notebooks show it."""
    sections = (listing(section.title, section.lines) for section in explain(policy))
    return shown(f"Policy {describe_version(policy)}", *sections)


def covered_columns(policy: Policy) -> frozenset[str]:
    """The columns that some guarantee speaks of."""
    return frozenset(policy.column(name) for goal in policy.spec.guarantees for name in goal.over)


def is_released(policy: Policy, attribute: str) -> bool:
    """Whether values of a declared attribute are released, as they are or in another form."""
    rule = policy.spec.attributes[attribute]
    # The policy's word decides; without one, what the guarantees cover.
    if rule.treatment is not None:
        return rule.treatment != "drop"
    return rule.role == "control-flow" or policy.column(attribute) in covered_columns(policy)


def what_it_is(policy: Policy) -> Iterator[str]:
    """Name, owner, purpose, legal basis, dataset."""
    meta = policy.metadata
    yield f"Policy {describe_version(policy)}, answered for by {meta.owner}."
    yield f"Purpose: {meta.purpose}."
    if meta.legal_basis:
        yield f"Legal basis: {meta.legal_basis}."
    yield f"Dataset: {meta.dataset}. All releases of it share one budget."
    if meta.description:
        yield meta.description


def who_is_protected(policy: Policy) -> Iterator[str]:
    """Cases, or persons with so many cases."""
    unit = policy.spec.unit
    if unit.attribute is None:
        yield (
            "Each case on its own. "
            "Whoever owns several cases is protected for each of them, not for all together."
        )
        return
    if unit.level == "event":
        yield (
            f"Every employee that '{unit.attribute}' of an event names, with all events of one. "
            "An event without a value is nobody's."
        )
        if any(isinstance(goal, KAnonymity) for goal in policy.goals()):
            yield "Whom cases are about is not protected by k-anonymity of employees."
        return
    used = (
        "one, drawn at random, is used"
        if unit.max_cases == 1
        else f"{unit.max_cases}, drawn at random, are used"
    )
    yield (
        f"Everybody with a value of '{unit.attribute}' of their own, "
        f"with all their cases, of which at most {used}."
    )
    yield "A case without that value is protected on its own."


def what_is_guaranteed(policy: Policy) -> Iterator[str]:
    """Each guarantee in its own words."""
    return (goal.sentence() for goal in policy.goals())


def what_stays_exposed(policy: Policy) -> Iterator[str]:
    """Columns that no guarantee covers, and what the form of the release shows."""
    for column, reason in policy.spec.expose.items():
        yield f"{column}: covered by no guarantee. Reason given: {reason}"
    # Unless presence is hidden, the form of the release shows as it is in the source.
    unbounded = any(goal.hides_presence() for goal in policy.spec.guarantees)
    if not unbounded and METADATA not in policy.spec.expose:
        yield "The number of cases and events, and which values are missing."
    if not policy.spec.expose and unbounded:
        yield "Nothing."


def what_happens_to_attributes(policy: Policy) -> Iterator[str]:
    """Each attribute or glob that the policy names, and all others."""
    for name, rule in policy.spec.attributes.items():
        subject = f"attributes that match '{name}'" if is_glob(name) else f"'{name}'"
        if name == "*":
            subject = "every other attribute"
        yield f"{subject}: {_treatment_text(policy, name, rule)}"
    if "*" not in policy.spec.attributes:
        yield "every other attribute: dropped"


def _treatment_text(policy: Policy, name: str, rule: AttributeRule) -> str:
    column = policy.column(name)
    if name == "case:concept:name":
        return "replaced by fresh random case ids"
    # What a guarantee covers is released through it, even where the policy says keep.
    if rule.treatment in (None, "keep") and column in covered_columns(policy):
        what = {TIMESTAMPS: "times"}.get(column, column)
        return f"released as the guarantee over {what} allows"
    match rule.treatment:
        case "keep":
            return "released as it is"
        case "pseudonymise":
            kept = "new ones in each release"
            if rule.link:
                kept = "the same in every release of the dataset"
            return f"replaced by pseudonyms, {kept}; how often each occurs still shows"
        case "generalise":
            groups = (
                f"groups at level {rule.level} of its hierarchy; "
                "values that stand in no group are dropped"
            )
            if rule.bins is not None:
                pairs = zip(rule.bins, rule.bins[1:], strict=False)
                intervals = ", ".join(f"[{low:g}, {high:g})" for low, high in pairs)
                groups = f"intervals {intervals}; values outside are dropped"
            return f"made coarser: {groups}"
        case _:
            return "released as it is" if is_released(policy, name) else "dropped"


def what_it_costs(policy: Policy) -> Iterator[str]:
    """What a release, all releases and the noisy figures may cost."""
    budget = policy.spec.budget
    presence = any(goal.hides_presence() for goal in policy.spec.guarantees)
    if budget.release is not None:
        yield f"One release: at most {in_words(budget.release, presence=presence)}."
    per_case = unit_name(policy.spec.unit) == CASE
    yield from _windows(budget.windows, per_case=per_case)
    yield from _total(budget, presence=presence, per_case=per_case)
    if budget.shares:
        weights = ", ".join(f"{name} {weight:g}" for name, weight in budget.shares.items())
        yield f"A guarantee over several parts of the log is shared out by weights: {weights}."
    if (share := policy.spec.profile) is not None:
        spent = f"epsilon {share.epsilon:g}" + (f", delta {share.delta:g}" if share.delta else "")
        yield (
            "Noisy figures of the log, for planning: "
            f"{spent}, which is part of what the guarantee allows."
        )


def _windows(windows: Windows | None, *, per_case: bool) -> Iterator[str]:
    if windows is None:
        return
    length = windows.every.removeprefix("1 ")
    example = SPELLINGS[windows.every]
    yield (
        f"A release is made of the cases whose first event lies in one {length} (by UTC), its "
        f"window; 'cloakwork apply' names it, for example: --window {example}."
    )
    if per_case:
        yield (
            "Each window has a budget of its own, as no case is released with two. "
            "Whoever has cases in several windows is in a release of each."
        )
    else:
        yield "All windows share one budget, as one person may have cases in each of them."


def _total(budget: Budget, *, presence: bool, per_case: bool) -> Iterator[str]:
    which = "All releases of the dataset together"
    if budget.windows is not None and per_case:
        which = "All releases of one window together"
    if budget.total is None:
        yield f"{which}: no limit is set."
        return
    yield f"{which}: at most {in_words(budget.total, presence=presence)}."
    if budget.total.metric is not None:
        yield (
            "Of metric privacy, separately: "
            f"at most {in_words(budget.total.metric, presence=False)}."
        )
    if budget.total.local is not None:
        yield (
            "Of local differential privacy, separately: "
            f"at most {in_words(budget.total.local, presence=False)}."
        )


def in_words(limit: Limit, *, presence: bool) -> str:
    """A budget as epsilon and delta; where it is about a unit's presence, also in odds."""
    cost = limit.cost()
    words = f"epsilon {cost.epsilon:.4g}" + (f", delta {cost.delta:g}" if cost.delta else "")
    # These odds are of presence, and say nothing of single values.
    if not presence:
        return words
    odds = odds_sentence(cost.epsilon, cost.delta, "that a protected unit is in the log")
    return f"{words} ({odds})"


def what_is_public(policy: Policy) -> Iterator[str]:
    """Facts under ``assume``, and declared values of attributes."""
    assume = policy.spec.assume
    if assume.alphabet is not None:
        yield f"Activities: {', '.join(assume.alphabet)}. Others are dropped."
    if assume.units_at_most is not None:
        what = "protected units" if policy.spec.unit.level == "case" else "cases"
        yield f"The log holds at most {assume.units_at_most:,} {what}."
    if assume.cases_per_employee is not None:
        yield (
            f"One employee takes part in at most {assume.cases_per_employee:,} cases; nothing "
            "enforces this, and whoever takes part in more is protected less."
        )
    if assume.longest_case is not None:
        yield f"A case has at most {assume.longest_case} events; longer cases are cut."
    if assume.rules is not None:
        for clause in assume.rules.in_words():
            yield f"{clause[0].upper()}{clause[1:]}; no drawn case breaks this."
    if assume.longest_gap is not None:
        yield (
            f"At most {format_duration(assume.longest_gap)} pass between two events of a case; "
            "more is counted as that."
        )
    if assume.window is not None:
        yield (
            f"Cases start between {assume.window.start.isoformat()} "
            f"and {assume.window.end.isoformat()}."
        )
    if assume.time_zone is not None:
        yield (
            f"The process lives by clocks in {assume.time_zone}: hours of the week are drawn by "
            "them, whatever zone spec.input reads times in."
        )
    for name, rule in policy.spec.attributes.items():
        if rule.domain is not None:
            shown = ", ".join(str(value) for value in rule.domain[:MOST_VALUES])
            more = f" and {len(rule.domain) - MOST_VALUES:,} more"
            values = shown + (more if len(rule.domain) > MOST_VALUES else "")
            yield f"'{name}' has one of the values {values}."
        if rule.range is not None:
            low, high = (end if isinstance(end, str) else f"{end:g}" for end in rule.range)
            kinds = {"integer": "a whole number", "date": "a day", "time": "a time"}
            yield f"'{name}' is {kinds.get(rule.value_type(), 'a number')} from {low} to {high}."


def what_is_found(policy: Policy) -> Iterator[str]:
    """What is not declared of attributes, and what declaring it would gain."""
    for name, rule in policy.spec.attributes.items():
        if rule.find_values:
            yield (
                f"'{name}' has no public values: those that many cases have are found in the log "
                "through noise. A declared domain would keep the others too, and leave the cost "
                "of finding them to the counts."
            )


def what_declaring_gains(policy: Policy) -> Iterator[str]:
    """Facts that are not declared, and what becomes of the release without them."""
    gains: dict[str, str] = {}
    for goal in policy.goals():
        gains |= gains_of_declaring(policy, goal)
    for name, why in gains.items():
        yield f"assume.{name}: without it {why}."


def gains_of_declaring(policy: Policy, goal: Guarantee) -> dict[str, str]:
    """Facts that are not declared, with what becomes of the release without them; none where the
    guarantee is not over the log as a whole.
    """
    if not isinstance(goal, DifferentialPrivacy) or not goal.covers_whole_log():
        return {}
    gains = {
        "alphabet": "activities are selected through noise, and rare ones left out",
    }
    # Of employees it counts the cases, and allows nothing.
    if policy.spec.unit.level == "case":
        gains["units_at_most"] = "no delta above 1e-6 is allowed"
    if TIMESTAMPS in goal.over:
        # Where the dataset has windows, they say when cases start.
        if policy.spec.budget.windows is None:
            gains["window"] = (
                "a twentieth of the share of times is spent to find in which years cases start"
            )
        gains["longest_gap"] = "a gap may be as long as the window, or a year"
    assume = policy.spec.assume
    return {name: why for name, why in gains.items() if getattr(assume, name) is None}


def how_it_is_done(policy: Policy) -> Iterator[str]:
    """Mechanisms, and how logs are read and written."""
    means = policy.spec.mechanisms
    if means.allow != ("*",):
        yield f"Allowed mechanisms: {', '.join(means.allow)}."
    if means.deny:
        yield f"Forbidden mechanisms: {', '.join(means.deny)}."
    if means.prefer:
        yield f"Tried first: {', '.join(means.prefer)}."
    if means.accept_unproven:
        yield (
            "Mechanisms whose privacy is only published, "
            "not proved here, may run; they never satisfy a guarantee."
        )
    if policy.spec.input is not None:
        stated = policy.spec.input.model_dump(mode="json")
        listed = (f"{name} {value!r}" for name, value in stated.items() if name != "columns")
        columns = (
            f"{name} from column {column!r}" for name, column in policy.spec.input.columns.items()
        )
        yield f"The log is read with {', '.join((*listed, *columns))}."
    written = policy.spec.output.format
    yield f"The log is written as {'it came' if written == 'auto' else written}."


SECTIONS: Final[tuple[tuple[str, Callable[[Policy], Iterator[str]]], ...]] = (
    ("What this is", what_it_is),
    ("Who is protected", who_is_protected),
    ("What every release guarantees", what_is_guaranteed),
    ("What stays exposed, and why", what_stays_exposed),
    ("What happens to each attribute", what_happens_to_attributes),
    ("What it may cost", what_it_costs),
    ("What is taken as publicly known", what_is_public),
    ("What is found in the log, through noise", what_is_found),
    ("What declaring more would gain", what_declaring_gains),
    ("How it is done", how_it_is_done),
)
