"""What advice on a policy consists of, which rules give it, and waivers: findings that are silenced
by name, by somebody who answers for it, with a reason, until a day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Described
from cloakwork.policy.document import Steps, did_you_mean, dotted_path

Level = Literal["warning", "note"]


@frozen
class Advice:
    """One piece of advice about the value at a path.

    ``rule``: the id of the rule that gives it, which does not change from version to version.
    ``level``: *warning* where people may be protected less than the author thinks, or planning will
    refuse; *note* for anything else.
    """

    steps: Steps
    message: str
    rule: str = ""
    level: Level = "warning"


@frozen
class AdviceRule:
    """What a rule is about, in one sentence, and how serious it is; ``check``: what it gives on a
    policy, where it looks at that alone.
    """

    level: Level
    says: str
    check: "Callable[[Any], Iterator[Advice]] | None" = None


LOG_RULES: Final[dict[str, AdviceRule]] = {
    "input-of-log": AdviceRule("warning", "The log seems to be written otherwise than stated."),
    "sampled-log": AdviceRule("note", "Of a large log a random sample was looked at."),
    "attribute-not-in-log": AdviceRule("warning", "The log lacks an attribute that is named."),
    "activity-not-in-log": AdviceRule("warning", "The log lacks an activity that rules name."),
    "employees-in-more-cases": AdviceRule(
        "warning", "An employee takes part in more cases than the policy declares."
    ),
    "rows-left-out": AdviceRule("warning", "Rows of the log have no case, and are not read."),
    "names-read-alike": AdviceRule("warning", "Ids of the log read alike, and count as different."),
    "noise-beside-waits": AdviceRule("note", "Noise on single times drowns most waits of the log."),
    "glob-releases-attribute": AdviceRule(
        "warning", "A glob releases an attribute that nobody named."
    ),
    "revealing-attribute": AdviceRule(
        "warning", "An attribute that singles out people or cases is released as it is."
    ),
}
"""The rules that look at a log, too."""

LEDGER_RULES: Final[dict[str, AdviceRule]] = {
    "dataset-unit": AdviceRule("warning", "The dataset is declared with another unit."),
    "dataset-windows": AdviceRule("warning", "The dataset has other windows."),
    "dataset-total": AdviceRule("note", "A smaller total than the policy's binds the dataset."),
}
"""The rules that look at the ledger, too."""

WAIVER_RULES: Final[dict[str, AdviceRule]] = {
    "waiver-expired": AdviceRule("warning", "A waiver has expired."),
    "waiver-unused": AdviceRule("note", "A waiver silences nothing."),
}
"""What is said of waivers; it cannot be waived."""


def named_advice(rule: str, found: Iterable[Advice]) -> Iterator[Advice]:
    """The advice that the rule with this id gives, which looks at a log or a ledger."""
    level = {**LOG_RULES, **LEDGER_RULES}[rule].level
    return (replace(advice, rule=rule, level=level) for advice in found)


# Neither line breaks nor control characters: a waiver is printed on one line.
_OneLine = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$")]


def _day(value: Any) -> Any:
    """A day as people write it; pydantic would take a number for seconds since 1970."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    # The long form alone, for fromisoformat reads 20270630 as well.
    try:
        return date.fromisoformat(value if len(value) == len("2027-06-30") else "")
    except (TypeError, ValueError):
        raise ValueError("must be a day such as 2027-06-30") from None


class Waiver(Described):
    """One finding of ``policy lint`` that somebody accepts; no guarantee changes by it."""

    rule: Annotated[str, Field(pattern=r"^[a-z0-9-]+$", max_length=100)]
    """Which rule, as 'cloakwork policy lint' prints it in brackets"""

    where: Annotated[str | None, Field(min_length=1, max_length=1000)] = None
    """At which place alone, as 'cloakwork policy lint' prints it, such as spec.guarantees[0].k;
    everywhere unless given
    """

    reason: Annotated[_OneLine, Field(min_length=3, max_length=1000)]
    """Why that is acceptable"""

    by: Annotated[_OneLine, Field(min_length=1, max_length=100)]
    """Who answers for it"""

    expires: Annotated[date, BeforeValidator(_day, json_schema_input_type=date)]
    """The last day (UTC) on which it counts, such as 2027-06-30"""

    def fits(self, advice: Advice) -> bool:
        """Whether it is about this piece of advice."""
        return advice.rule == self.rule and self.where in (None, dotted_path(advice.steps))

    def has_expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return today > self.expires

    def __str__(self) -> str:
        place = "" if self.where is None else f" at {self.where}"
        return f"{self.rule}{place}, until {self.expires}, by {self.by}: {self.reason}"


def waiver_lines(waivers: Iterable[Waiver], today: date | None = None) -> tuple[str, ...]:
    """The waivers in words, one line each; ``today`` as for ``judged``."""
    day = today or datetime.now(UTC).date()
    return tuple(
        f"{waiver} (expired)" if waiver.has_expired(day) else str(waiver) for waiver in waivers
    )


@frozen
class JudgedAdvice:
    """A piece of advice, and the waiver that silences it, if one does."""

    advice: Advice
    waiver: Waiver | None = None


def judged(
    found: Iterable[Advice],
    waivers: tuple[Waiver, ...],
    *,
    known: Collection[str],
    unchecked: Collection[str] = (),
    today: date | None = None,
) -> tuple[JudgedAdvice, ...]:
    """The advice, each with the waiver that silences it; then what is to be said of the waivers.

    ``known``: all ids of rules. ``unchecked``: rules that were not asked, whose waivers may
    match nothing. ``today``: by default the present day (UTC).
    """
    day = today or datetime.now(UTC).date()
    advice = tuple(found)
    # An expired waiver silences nothing; of those that stand, the first that fits is shown.
    standing = [waiver for waiver in waivers if not waiver.has_expired(day)]
    said = [
        JudgedAdvice(each, next((waiver for waiver in standing if waiver.fits(each)), None))
        for each in advice
    ]
    about = _about_waivers(advice, waivers, day, known, unchecked)
    return *said, *(JudgedAdvice(each) for each in about)


def _about_waivers(
    advice: tuple[Advice, ...],
    waivers: tuple[Waiver, ...],
    today: date,
    known: Collection[str],
    unchecked: Collection[str],
) -> Iterator[Advice]:
    for index, waiver in enumerate(waivers):
        steps = ("spec", "waivers", index)
        # One remark on a waiver at most: of its rule, else of its day, else of its use.
        if waiver.rule not in known:
            guess = did_you_mean(waiver.rule, known)
            message = f"there is no rule '{waiver.rule}'{guess}; it silences nothing"
            yield Advice((*steps, "rule"), message, "waiver-unused", "note")
        elif waiver.has_expired(today):
            message = (
                f"the waiver of {waiver.rule} by {waiver.by} expired on {waiver.expires} and "
                "silences nothing; decide again, or remove it"
            )
            yield Advice((*steps, "expires"), message, "waiver-expired", "warning")
        elif waiver.rule not in unchecked and not any(map(waiver.fits, advice)):
            message = f"the waiver of {waiver.rule} matches no finding; remove it"
            yield Advice(steps, message, "waiver-unused", "note")
