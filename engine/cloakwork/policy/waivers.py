"""Advice that somebody answers for: a finding is silenced by name, with a reason, until a day."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cloakwork.base.quantities import Frozen
from cloakwork.policy.advice import Advice
from cloakwork.policy.document import dotted_path

_OneLine = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$")]


def _day(value: Any) -> Any:
    """A day as people write it; pydantic would take a number for seconds since 1970."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value if len(value) == len("2027-06-30") else "")
    except (TypeError, ValueError):
        raise ValueError("must be a day such as 2027-06-30") from None


class Waiver(Frozen):
    """One finding of ``policy lint`` that somebody accepts; no guarantee changes by it."""

    rule: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9-]+$",
            max_length=100,
            description="Which rule, as 'cloakwork policy lint' prints it in brackets",
        ),
    ]
    where: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=1000,
            description=(
                "At which place alone, as 'cloakwork policy lint' prints it, such as "
                "spec.guarantees[0].k; everywhere unless given"
            ),
        ),
    ] = None
    reason: Annotated[
        _OneLine, Field(min_length=3, max_length=1000, description="Why that is acceptable")
    ]
    by: Annotated[_OneLine, Field(min_length=1, max_length=100, description="Who answers for it")]
    expires: Annotated[
        date,
        BeforeValidator(_day, json_schema_input_type=date),
        Field(description="The last day (UTC) on which it counts, such as 2027-06-30"),
    ]

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


@dataclass(frozen=True, slots=True)
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
    from cloakwork.policy.validation_messages import did_you_mean

    for index, waiver in enumerate(waivers):
        steps = ("spec", "waivers", index)
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
