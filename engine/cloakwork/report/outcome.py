"""What ``apply`` says when it is done: what was released, what holds, and, inside, what is left."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.costs import cost_text
from cloakwork.base.quantities import hours, rounded
from cloakwork.base.records import BY_CHANCE
from cloakwork.base.text import counted, share_in_words
from cloakwork.evaluation.utility import Utility
from cloakwork.evaluation.whole_log import WholeLogUtility
from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.ledger.books import METRIC, cost_in_book
from cloakwork.plan.model import Plan
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.publishing.from_plan import absent_attributes
from cloakwork.report.ledger_text import CURRENCY_NAMES, charge_text
from cloakwork.report.plan_screen import change_line, unproven_section
from cloakwork.report.screen import ScreenSection
from cloakwork.report.texts import (
    NOTHING_EXPOSED,
    exposure_line,
    findable_lines,
    guarantee_line,
    purpose_lines,
    unbounded_line,
    unit_text,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cloakwork.publishing.publish import Published
    from cloakwork.run.run import Internal, Release

FEW_LEFT: Final = 0.5
"""Share of the cases, or of the similarity, below which little is left."""

MANY_CHANGED: Final = 0.25
"""Share of the events above which much was changed."""

WAITS_OFF: Final = 0.7
"""Powers of ten by which waits are off, on average, above which little is left of them: five times
or a fifth of what they were.
"""


def outcome(published: "Published") -> tuple[ScreenSection, ...]:
    """The sections of the screen: what is unproven first, and what the raw log tells marked so."""
    release = published.release
    plan = release.plan
    log = release.log
    cases = counted(log.case_count, "case")
    events = counted(log.event_count, "event")
    held = tuple(guarantee_line(each.claim, plan.facts.protected) for each in release.verdicts)
    charged = [charge_text(charge) for charge in plan.charges]
    # The ledger counts noise on times in the book of single values as well.
    for charge in plan.charges:
        if charge.times and (cost := cost_in_book(charge, METRIC, {})):
            price = cost_text(cost.as_cost(), digits=6)
            charged.append(f"the same noise counts as {CURRENCY_NAMES['metric']}: {price}")
    if (unbounded := unbounded_line(plan)) is not None:
        charged.append(unbounded)
    exposed = tuple(exposure_line(item, item.names) for item in published.statement.exposed)
    in_parts = f" ({published.part_count:,} parts)" if published.part_count > 1 else ""
    beside = ", csv-metadata.json" if published.statement.stamp == "sidecar" else ""
    beside += ", measurements.parquet" if release.measurements else ""
    public = f"log{in_parts}, plan.json{beside}, statement.json (key {published.keyid[:16]})"
    # Much of a log may be left out by that.
    kept = (f"spec.unit: {unit_text(plan.facts.unit)}",) if plan.facts.unit.attribute else ()
    count = len(release.internal.notes)
    notes = f" ({counted(count, 'note')} on the log, under 'Notes')" if count else ""
    return (
        unproven_section(plan, why=True),
        ScreenSection(
            "Released",
            (f"{cases}, {events} to {published.folder}", *kept, *useless(published.release)),
        ),
        ScreenSection("Holds", held or ("nothing is guaranteed",)),
        ScreenSection("Not protected", exposed or (NOTHING_EXPOSED,)),
        ScreenSection("Charged", tuple(charged)),
        ScreenSection("Warning", purpose_lines(plan.policy.metadata.purpose)),
        ScreenSection(
            "Outcome", tuple(inside_lines(release.internal, plan.policy.spec.assume.risk_threshold))
        ),
        ScreenSection("Check", tuple(_absent(published))),
        ScreenSection("Public", (public,)),
        ScreenSection("Never publish", (f"internal/report.html, internal/report.json{notes}",)),
    )


def outcome_json(published: "Published") -> dict[str, Any]:
    """What was released, as JSON values; nothing here was counted on the raw log."""
    release = published.release
    plan = release.plan
    window = release.plan.facts.release_window
    unproven = [item.model_dump(mode="json") for item in plan.unproven]
    return ({"unproven": unproven} if unproven else {}) | {
        "release": str(published.folder),
        "release_id": release.release_id,
        **({} if window is None else {"window": window}),
        "log": {"cases": release.log.case_count, "events": release.log.event_count},
        "guarantees": [claim.model_dump(mode="json") for claim in plan.claims],
        "exposed": [item.model_dump(mode="json") for item in plan.exposed],
        "charges": [charge.model_dump(mode="json") for charge in plan.charges],
        "warnings": [
            *purpose_lines(plan.policy.metadata.purpose),
            *map(caveat_in_words, plan.warnings),
        ],
        "statement": published.statement_digest,
        "signed_by": published.keyid,
    }


def useless(release: "Release") -> Iterator[str]:
    """What may have left nothing; from the policy alone, as nothing may be told of the log."""
    if any(BY_CHANCE in record.figures for record in release.internal.steps):
        # Noisy answers alone tell this, so that it may be said.
        yield (
            "the release says NEXT TO NOTHING: no step from one activity to another stood out of "
            "the noise, so its cases follow chance; spend a larger epsilon"
        )
    if release.log.event_count:
        return
    why = (
        "the log is empty, or nothing occurs in enough cases for this guarantee; "
        f"{_what_keeps_more(release.plan)}; so does assume.alphabet, where activities are drawn"
    )
    if release.plan.facts.alphabet is not None:
        why = (
            "no declared activity occurs in enough cases; check assume.alphabet, "
            "or spend a larger epsilon"
        )
    if release.plan.facts.rules is not None:
        why = f"cases that break assume.rules were left out, so check its names; or {why}"
    if (window := release.plan.facts.release_window) is not None:
        why = f"no case may start in window {window}, or {why}"
    # Cases without events may be left where a log holds such cases.
    what = "cases" if not release.log.case_count else "events"
    yield f"the release is EMPTY: 0 {what} were released; {why}"


def _what_keeps_more(plan: Plan) -> str:
    """Which numbers of the policy to change, by the guarantees that it has."""
    goals = plan.policy.spec.guarantees
    numbers = []
    if any(hasattr(goal, "epsilon") for goal in goals):
        has_delta = any(getattr(goal, "delta", 0) for goal in goals)
        numbers.append("a larger epsilon or delta" if has_delta else "a larger epsilon")
    if any(isinstance(goal, KAnonymity) for goal in goals):
        numbers.append("a smaller k")
    if any(isinstance(goal, ConfidenceBound) for goal in goals):
        numbers.append("a smaller L or K")
    return f"{' or '.join(numbers) or 'a weaker guarantee'} keeps more"


def _absent(published: "Published") -> Iterator[str]:
    plan = published.release.plan
    log = published.release.log
    absent = ", ".join(absent_attributes(plan, published.statement.released))
    # Under noise a missing value may be chance; else it is the policy's spelling.
    is_drawn = any(step.lineage.generates for step in plan.steps)
    if absent and not is_drawn:
        yield f"not in the log, so not released: {absent}; check how the policy spells them"
    elif absent and log.event_count:
        yield (
            f"no value was released: {absent}; noise may have hidden them, or the log has none: "
            "check how the policy spells these names, and the values that it declares"
        )


def inside_lines(internal: "Internal", threshold: float | None = None) -> Iterator[str]:
    """What is left of the log, and who is found: figures of the raw log, for the operator.
    ``threshold``: the largest share of cases that may be found.
    """
    utility = Utility.model_validate(dict(internal.utility))
    lines = [
        *_steps(internal, beside_utility=bool(internal.utility)),
        *_kept(utility, _changed_events(internal.source, utility)),
        *(f"warning: {line}" for line in little_left(internal)),
        *findable_lines(utility.findable, threshold),
        # Where the log contradicts what the policy declares.
        *(f"note: {fact}" for fact in _whole(utility).contradicted),
        *(f"warning: {note}" for note in internal.notes if "without a case" in note),
    ]
    if lines:
        yield "internal, of the raw log; who chooses between runs by these figures voids the claims"
        yield from lines


def _steps(internal: "Internal", *, beside_utility: bool) -> Iterator[str]:
    """What single steps changed; only what the figures of utility do not say as well."""
    for record in internal.steps:
        edits = {"distance", "events_kept"} & record.figures.keys()
        if record.figures and (edits or not beside_utility):
            yield f"{record.mechanism}: {change_line(record.figures)}"


def _whole(utility: Utility) -> WholeLogUtility:
    """Figures of times and attributes, as far as there are any."""
    return utility.whole_log or WholeLogUtility()


def _kept(utility: Utility, changed: float | None) -> Iterator[str]:
    """Cases, variants, similarity and times, as far as they were measured.

    ``changed``: the share of the log's events that differ, where it is known.
    """
    whole = _whole(utility)
    if utility.source_cases is not None and utility.source_variants is not None:
        variants = (utility.true_variants or 0) + (utility.fake_variants or 0)
        # A release under noise may hold more than the log, so neither is a part of the other.
        yield (
            f"{counted(utility.released_cases or 0, 'case')} "
            f"(the log has {utility.source_cases:,}); "
            f"{counted(variants, 'variant')} (the log has {utility.source_variants:,}), "
            f"{utility.fake_variants or 0:,} of them not in the log"
        )
    if utility.relative_log_similarity is not None and utility.released_cases:
        edits = utility.absolute_log_difference
        share = "" if changed is None else f" ({share_in_words(changed)} of the log's)"
        differ = "" if edits is None else f"; {counted(edits, 'event')} differ{share}"
        yield f"similarity {utility.relative_log_similarity:.2f} (1 is best){differ}"
    times = utility.times
    if times is None:
        # Cases that were made anew have no times of their own to compare: distributions tell.
        said = []
        if whole.case_durations is not None:
            off = share_in_words(whole.case_durations)
            said.append(f"durations of cases are off by {off} of their mean")
        if whole.attributes_per_activity is not None:
            said.append(
                f"{share_in_words(whole.attributes_per_activity)} of the events' values differ"
            )
        if said:
            yield "; ".join(said)
        return
    if times.error_mean is not None and times.error_median is not None:
        yield (
            f"a released time is off by {hours(times.error_mean)} on average, "
            f"half of them by less than {hours(times.error_median)}"
        )
    before = times.duration_source_median
    after = times.duration_released_median
    if before is not None and after is not None:
        yield f"half of the cases take less than {hours(after)} (in the log: {hours(before)})"


def little_left(internal: "Internal") -> Iterator[str]:
    """A warning where little is left, in words; none where nothing is (``useless``)."""
    utility = Utility.model_validate(dict(internal.utility))
    whole = _whole(utility)
    changed = _changed_events(internal.source, utility)
    if not utility.source_cases or not utility.released_cases:
        return
    kept = utility.released_cases / utility.source_cases
    if kept < FEW_LEFT:
        yield f"{utility.released_cases:,} cases were released ({kept:.0%})"
    if changed is not None and changed > MANY_CHANGED:
        # There may be more edits than events: all of them is the most that is said.
        yield f"{min(changed, 1):.0%} of events were changed"
    durations = whole.case_durations
    waits = whole.waiting_times
    if waits is not None and waits > WAITS_OFF:
        # Errors of single times are there where noise moved each of them.
        helps = "more cases, a larger epsilon or a smaller k keep"
        if utility.times is not None:
            helps = "a smaller shift, or times drawn anew by differential-privacy, keeps"
        off = rounded(10**waits)
        yield f"waits between events are off by a factor of {off}; {helps} more of them"
    if utility.times is None and durations is not None and durations > FEW_LEFT:
        # Attributes that are drawn share the budget with times.
        draws = whole.attributes_per_activity is not None
        fewer = ", more cases, or fewer attributes help" if draws else ", or more cases, help"
        yield (
            "how long cases take is hardly kept; an assume.longest_gap as short as is "
            f"true{fewer} (docs: differential privacy)"
        )
    if (whole.months or 0) > FEW_LEFT:
        yield (
            "most events lie in other months than in the log; assume.window says in which "
            "years cases start"
        )
    similarity = utility.relative_log_similarity
    if similarity is not None and similarity < FEW_LEFT:
        yield f"little is left of the variants: similarity {similarity:.2f}"


def _changed_events(source: "Mapping[str, JsonValue]", utility: Utility) -> float | None:
    """The share of the source's events that would have to be edited; None where it is unknown."""
    before = source.get("events")
    edits = utility.absolute_log_difference
    if not isinstance(before, int) or before == 0 or edits is None:
        return None
    return edits / before
