"""Advisories: claims of earlier versions that were found false, as data, and which releases they
concern.

``advisories.yaml`` beside this file holds them. An advisory names the versions concerned, a
condition on what a release says of itself, what the finding does to the claim, and the remedy.
Matching reads what it is given and nothing else: a statement with its plan, or an entry of the
ledger, which tells less. What the release cannot show is never decided against it or for it: the
finding is *open*.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue

from cloakwork.base.quantities import Frozen

Effect = Literal["voids", "weakens", "corrects"]
Status = Literal["void", "open", "weakened", "corrected", "cleared"]
"""``open``: void if something is so that the release does not show. ``cleared``: measured, and not
so here.
"""

Measure = Literal[
    "k without empty events", "closeness by ranks", "closeness with missing values", "columns"
]
Parameters = Mapping[str, JsonValue]

RELEASED: Final = ("keep", "pseudonymise", "generalise", "protect")
CASE_PREFIX: Final = "case:"
_FILE: Final = Path(__file__).with_name("advisories.yaml")


class Condition(Frozen):
    """Which releases an advisory concerns: everything that is given must hold."""

    guarantees: Annotated[
        tuple[str, ...], Field(description="Kinds of guarantee; empty: the release as a whole")
    ] = ()
    parameters: Annotated[
        dict[str, tuple[JsonValue, ...]],
        Field(description="Values that the guarantee's parameters have, any of each"),
    ] = {}
    over: Annotated[
        tuple[str, ...], Field(description="Columns, any of which the guarantee covers")
    ] = ()
    beyond: Annotated[
        tuple[str, ...], Field(description="The guarantee covers some column besides these")
    ] = ()
    delta_below: Annotated[
        float | None, Field(description="The guarantee's delta is above 0 and below this")
    ] = None
    mechanisms: Annotated[
        tuple[str, ...], Field(description="Mechanisms (globs), any of which is a step")
    ] = ()
    not_mechanisms: Annotated[
        tuple[str, ...], Field(description="Mechanisms that do not count as such")
    ] = ()
    released: Annotated[
        Literal["event attributes", "attributes", "by pattern"] | None,
        Field(
            description="What is released beside activities, under no DP claim; "
            "raw times are an event attribute"
        ),
    ] = None
    unit: Annotated[
        Literal["declared"] | None, Field(description="The unit is an attribute, not the case")
    ] = None
    hierarchy: Annotated[
        Literal["shallow"] | None, Field(description="A released hierarchy has a short branch")
    ] = None
    words: Annotated[str | None, Field(description="Text that the statement holds")] = None
    entry: Annotated[bool, Field(description="It concerns the ledger's entry, not the release")] = (
        False
    )


class Advisory(Frozen):
    """One finding: what was claimed, in which versions, what becomes of it and what to do."""

    id: Annotated[str, Field(pattern=r"^CW-[0-9]{4}-[0-9]{2}$")]
    title: str
    versions: Annotated[
        tuple[str, ...], Field(min_length=1, description="Versions of Cloakwork (globs)")
    ]
    applies: Condition
    effect: Effect
    depends: Annotated[
        str | None, Field(description="What it depends on that a release does not show")
    ] = None
    measure: Annotated[
        Measure | None, Field(description="What is measured for it on the released file")
    ] = None
    says: Annotated[str, Field(description="What is void, or how the claim must be read")]
    remedy: str


class _Advisories(Frozen):
    format: Literal["cloakwork/advisories/v1"]
    advisories: tuple[Advisory, ...]


@dataclass(frozen=True, slots=True)
class ReleaseProperties:
    """What a release, or a ledger's entry, says of itself; None where it does not tell.

    ``guarantees``: kind and parameters of each. ``rules``: attribute or glob to treatment, released
    ones and dropped ones, times as ``time:timestamp`` whatever the source calls them. ``unit``: the
    attribute, or "" for the case. ``words``: all texts together.
    """

    engine: str
    guarantees: tuple[Parameters, ...]
    mechanisms: tuple[str, ...] | None = None
    rules: Mapping[str, str] | None = None
    unit: str | None = None
    shallow: tuple[str, ...] | None = None
    words: str | None = None
    entry: bool = False


@dataclass(frozen=True, slots=True)
class AdvisoryMatch:
    """An advisory that concerns a release, which of its guarantees (None: the whole), and what that
    comes to.

    ``number``: the guarantee's place among those of the release, from 0.
    """

    advisory: Advisory
    guarantee: Parameters | None
    number: int | None
    status: Status
    seen: str = ""

    @property
    def kind(self) -> str:
        """What is concerned, in a word."""
        return "the release" if self.guarantee is None else str(self.guarantee["kind"])

    def __str__(self) -> str:
        seen = f" ({self.seen})" if self.seen else ""
        return f"{self.advisory.id}: {self.kind}: {self.advisory.title}{seen}"


MeasureOnFile = Callable[[Advisory, Parameters | None], tuple[bool | None, str] | None]
"""Measures on the file: whether the finding is so there (None: it cannot tell), and what was seen;
None for nothing.
"""


@cache
def shipped_advisories() -> tuple[Advisory, ...]:
    """The advisories that this version ships, checked against their model."""
    import yaml

    return _Advisories.model_validate(yaml.safe_load(_FILE.read_text("utf-8"))).advisories


def advisories_for(
    properties: ReleaseProperties,
    measure: MeasureOnFile | None = None,
    advisories: Iterable[Advisory] | None = None,
) -> tuple[AdvisoryMatch, ...]:
    """The findings that concern a release with ``properties``, the most severe first; ``measure``
    measures on its file.
    """
    known = shipped_advisories() if advisories is None else advisories
    found: list[AdvisoryMatch] = []
    for advisory in known:
        found += _matches_of_advisory(advisory, properties, measure)
    return tuple(sorted(found, key=lambda match: _ORDER.index(match.status)))


_ORDER: Final = ("void", "open", "weakened", "corrected", "cleared")


def _matches_of_advisory(
    advisory: Advisory, properties: ReleaseProperties, measure: MeasureOnFile | None
) -> Iterable[AdvisoryMatch]:
    condition = advisory.applies
    if properties.entry < condition.entry or not _matches_any(properties.engine, advisory.versions):
        return
    if properties.entry and not condition.entry and not condition.guarantees:
        return  # an entry tells nothing of what this is about
    certain = _concerns_release(condition, properties)
    if certain is False:
        return
    concerned: list[tuple[int | None, Parameters | None]] = [(None, None)]
    if condition.guarantees:
        concerned = []
        for place, each in enumerate(properties.guarantees):
            if _concerns_guarantee(condition, each):
                concerned.append((place, each))
    for number, guarantee in concerned:
        status = _status_unmeasured(advisory, certain is True)
        measured = None
        if measure is not None and advisory.measure is not None:
            measured = measure(advisory, guarantee)
        if measured is None:
            yield AdvisoryMatch(advisory, guarantee, number, status)
        else:
            is_so, seen = measured
            status = _measured_status(advisory, is_so)
            yield AdvisoryMatch(advisory, guarantee, number, status, seen)


def _status_unmeasured(advisory: Advisory, certain: bool) -> Status:
    if advisory.effect == "voids":
        is_decided = certain and advisory.depends is None and advisory.measure is None
        return "void" if is_decided else "open"
    return "weakened" if advisory.effect == "weakens" else "corrected"


def _measured_status(advisory: Advisory, is_so: bool | None) -> Status:
    if is_so is None:
        return _status_unmeasured(advisory, certain=False)
    if not is_so:
        return "cleared"
    return _MEASURED[advisory.effect]


_MEASURED: Final[dict[Effect, Status]] = {
    "voids": "void",
    "weakens": "weakened",
    "corrects": "corrected",
}
"""What a finding comes to where it was measured to be so."""


def _concerns_guarantee(condition: Condition, guarantee: Parameters) -> bool:
    """Whether one guarantee is of the kinds and parameters meant; a parameter that is not known
    counts as meant.
    """
    if guarantee["kind"] not in condition.guarantees:
        return False
    for name, values in condition.parameters.items():
        if guarantee.get(name, values[0]) not in values:
            return False
    over = guarantee.get("over")
    if isinstance(over, list | tuple):
        if condition.over and not set(condition.over) & set(over):
            return False
        if condition.beyond and not set(over) - set(condition.beyond):
            return False
    delta = guarantee.get("delta")
    if condition.delta_below is None or not isinstance(delta, int | float):
        return True
    return 0 < delta < condition.delta_below


def _concerns_release(condition: Condition, properties: ReleaseProperties) -> bool | None:
    """Whether the conditions on the whole release hold; None where the release does not tell."""
    answers: list[bool | None] = []
    if condition.mechanisms:
        answers.append(_has_mechanism(condition, properties.mechanisms))
    if condition.released is not None:
        released = _released_attributes(properties, condition.released)
        answers.append(None if properties.rules is None else bool(released))
    if condition.unit is not None:
        answers.append(None if properties.unit is None else properties.unit != "")
    if condition.hierarchy is not None:
        answers.append(None if properties.shallow is None else bool(properties.shallow))
    if condition.words is not None:
        answers.append(None if properties.words is None else condition.words in properties.words)
    # One condition that fails decides, whatever is not known of the others.
    if False in answers:
        return False
    return None if None in answers else True


def _has_mechanism(condition: Condition, steps: tuple[str, ...] | None) -> bool | None:
    if steps is None:
        return None
    counted = [step for step in steps if not _matches_any(step, condition.not_mechanisms)]
    return any(_matches_any(step, condition.mechanisms) for step in counted)


def _released_attributes(properties: ReleaseProperties, which: str) -> tuple[str, ...]:
    """The attributes of that sort that the rules release, beside activities; raw times are an event
    attribute.
    """
    rules = properties.rules or {}
    released = [name for name, treatment in rules.items() if treatment in RELEASED]
    names = [name for name in released if name not in _STANDARD]
    if which == "by pattern":
        return tuple(name for name in names if set(name) & set("*?[") or is_pattern(name))
    if which == "attributes":
        return tuple(names)
    of_events = [name for name in names if not name.startswith(CASE_PREFIX)]
    return (TIME, *of_events) if has_raw_times(properties) else tuple(of_events)


def has_raw_times(properties: ReleaseProperties) -> bool:
    """Whether times were released as they were: no guarantee covers them, and no step wrote them
    anew.
    """
    treatment = (properties.rules or {}).get(TIME)
    rewritten = "timestamps/laplace" in (properties.mechanisms or ())
    covered = any(_covers_times(guarantee) for guarantee in properties.guarantees)
    return treatment in RELEASED and treatment != "protect" and not rewritten and not covered


def _covers_times(guarantee: Parameters) -> bool:
    if guarantee.get("attribute") == "timestamps":
        return True
    over = guarantee.get("over")
    return isinstance(over, list | tuple) and "timestamps" in over


def is_pattern(name: str) -> bool:
    """Whether version 0.1.0 read the name of an attribute as a pattern: every column, or a regular
    expression.
    """
    return name == "*" or (name.startswith("^") and name.endswith("$"))


TIME: Final = "time:timestamp"
_STANDARD: Final = ("concept:name", TIME, "case:concept:name")


def _matches_any(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def guarantees_in(note: str) -> tuple[Parameters, ...]:
    """The guarantees that a ledger entry of version 0.1.0 notes: its sentences ended alike for each
    kind.
    """
    found: list[Parameters] = []
    apart = re.search(r"\(apart from probability ([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)\)", note)
    delta = {"delta": float(apart[1]) if apart else 0.0}
    for pattern, kind, extra in _SENTENCES_IN_NOTES:
        more = delta if kind == "differential-privacy" else {}
        found += [{"kind": kind, **extra, **more} for _ in re.finditer(pattern, note)]
    return tuple(found)


_SENTENCES_IN_NOTES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (r"\([0-9]+-anonymity over ", "k-anonymity", {}),
    (r"\(emd t-closeness over ", "t-closeness", {"distance": "emd"}),
    (r"\(stochastic t-closeness over ", "t-closeness", {"distance": "stochastic"}),
    (r" l-diversity over ", "l-diversity", {}),
    (r"\(TLKC confidence bound", "confidence-bound", {}),
    (r"\(differential privacy over ", "differential-privacy", {"neighbours": "unbounded"}),
    (
        r": differential privacy over timestamps, given",
        "differential-privacy",
        {"neighbours": "bounded", "over": ["timestamps"]},
    ),
    (r"\(metric privacy over ", "metric-privacy", {"over": ["timestamps"]}),
    (r"contribution to .* was randomised", "local-dp", {}),
)
