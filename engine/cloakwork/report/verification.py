"""What ``verify`` says of a release: in sections of a screen, and as JSON values."""

from collections.abc import Iterator
from typing import Any, Final

from cloakwork.base.quantities import duration_text
from cloakwork.base.text import printable
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.publishing.verify import Verification
from cloakwork.report.ledger_text import CURRENCY_NAMES, fields_json
from cloakwork.report.screen import ScreenSection, block, columns, fitted
from cloakwork.report.texts import NOTHING_EXPOSED, and_employees

MOST_LINES: Final = 25
"""Lines of the screen without ``--all``."""

ALL: Final = "--all"

_MOST_EXPOSED: Final = 4
"""How many exposed columns the first screen names."""

_FROM_THE_LOG: Final = (
    *("read-off-log", "chosen-by-figures"),
    *("flattened-objects", "starts-from-service"),
)
"""Caveats that no claim accounts for: whoever gets the release has to read them first."""

_STATUS: Final = {
    "void": "VOID",
    "open": "may be void",
    "weakened": "weakened",
    "corrected": "wording only",
}
_CURRENCIES: Final = CURRENCY_NAMES | {"none": "no bound by differential privacy"}


def verdict_line(verified: Verification) -> str:
    """That a release was verified, in one line."""
    nothing = "" if verified.guarantees else "; it is what it says, and it guarantees nothing"
    return f"verified, {len(verified.checks)} checks{nothing}"


def refusal_line(found: Verification) -> str:
    """What is wrong with a release that is authentic."""
    # A finding without a number is about the whole release.
    if any(finding.number is None for finding in found.void):
        return "authentic, but VOID as a whole: see Advisories"
    if found.void:
        count = len({finding.number for finding in found.void})
        verb = "is" if count == 1 else "are"
        return f"authentic, but {count} of its guarantees {verb} VOID: see Advisories"
    return "authentic, but not the release that was expected"


def verification_screen(
    verified: Verification,
    verdict: str,
    *,
    show_all: bool,
) -> Iterator[str]:
    """What was verified, in plain words: what it is, what it gives, what it does not, and how each
    is known; at most ``MOST_LINES`` lines where the sentences that were signed leave room.
    """
    width = columns()
    # What is unproven never gives way: it stands apart from the sections that are shortened.
    unproven = list(block("UNPROVEN", verified.unproven, width))
    sections = tuple(verification_sections(verified, show_all=show_all))
    if not show_all:
        sections = fitted(sections, MOST_LINES - len(unproven) - 1, width)
    yield from unproven
    yield f"{printable(str(verified.path))}: {verdict}"
    for section in sections:
        yield from section.lines(width)
    if show_all:
        yield from (f"ok  {printable(line)}" for line in verified.checks)


def verification_sections(verified: Verification, *, show_all: bool) -> Iterator[ScreenSection]:
    """The sections; checks may be hidden, and never what is claimed, or found wrong."""
    said = verified.statement
    policy = said.policy
    made = f"{said.release}, made {said.issued:%Y-%m-%d %H:%M} UTC by Cloakwork {said.engine}"
    dataset = policy.dataset + (f", window {said.window.name}" if said.window else "")
    asked = f"{policy.name} {policy.version}; dataset {dataset}; protected: each {said.unit}"
    asked += and_employees(said.unit, (each.guarantee for each in said.guarantees))
    signer = f"key {verified.keyid[:16]}, {verified.trusted}"
    void = {finding.number for finding in verified.void}
    marked = tuple(
        ("VOID: " if number in void else "") + sentence
        for number, (_, sentence) in enumerate(verified.guarantees)
    )
    # What was measured or derived of the guarantees comes last; it is what must stay.
    measured, derived = (
        tuple(check.says.removeprefix("measured again: ") for check in reversed(checks))
        for checks in (verified.measured, verified.derived)
    )
    entry = said.ledger_entry or ""
    shown_entry = entry if show_all else entry[:16]
    in_ledger = f"that this release is in the ledger, as entry {shown_entry}"
    yield ScreenSection("Release", (made,))
    yield ScreenSection("Policy", (asked,))
    yield ScreenSection("Signed by", (signer, verified.keyid) if show_all else (signer,))
    yield ScreenSection("Guarantees", marked or ("none",))
    costs = []
    for spent in said.budget:
        epsilon = "no bound" if spent.cost.epsilon is None else f"epsilon {spent.cost.epsilon:g}"
        delta = f", delta {spent.cost.delta:g}" if spent.cost.delta else ""
        shift = f", per {duration_text(spent.shift)}" if spent.shift else ""
        name = _CURRENCIES.get(spent.currency, spent.currency)
        costs.append(f"{name}{shift}: {epsilon}{delta}")
    yield ScreenSection("Cost", tuple(costs))
    yield ScreenSection("Not protected", tuple(_exposed(verified, show_all=show_all)))
    open_ = [each for each in said.caveats if show_all or each.kind in _FROM_THE_LOG]
    yield ScreenSection("Left open", tuple(map(caveat_in_words, open_)))
    yield ScreenSection("Measured", measured, ALL)
    yield ScreenSection("Derived again", derived, ALL)
    yield ScreenSection("Signer's word", (*verified.unverifiable_claims, in_ledger))
    # What a finding says stands below it for all, and what is to be done where it matters.
    advisories = []
    for finding in verified.advisories:
        advisory = finding.advisory
        advisories.append(f"{_STATUS[finding.status]}  {finding}")
        if show_all:
            depends = f" It depends on {advisory.depends}." if advisory.depends else ""
            advisories.append(f"  {advisory.says}{depends}")
        if show_all or finding.status == "void":
            advisories.append(f"  {advisory.remedy}")
    yield ScreenSection("Advisories", tuple(advisories) or ("none concern this release",))
    if verified.internal:
        note = "it came with the internal folder: never pass it on (cloakwork pack leaves it out)"
        yield ScreenSection("Note", (note,))


def _exposed(verified: Verification, *, show_all: bool) -> list[str]:
    lines = [f"{column}: {says}" for column, says in verified.exposed]
    if not lines and verified.guarantees:
        return [NOTHING_EXPOSED]
    if show_all or len(lines) <= _MOST_EXPOSED:
        return lines
    return [*lines[:_MOST_EXPOSED], f"and {len(lines) - _MOST_EXPOSED} more columns (--all)"]


def verification_json(verified: Verification) -> dict[str, Any]:
    """What was verified, as JSON values."""
    said = verified.statement
    unproven = {"unproven": list(verified.unproven)} if verified.unproven else {}
    return unproven | {
        **fields_json(said, "release", "issued", "engine", "ledger_entry"),
        "policy": fields_json(said.policy, "name", "version", "dataset"),
        **({"window": said.window.model_dump(mode="json")} if said.window else {}),
        "unit": str(said.unit),
        "guarantees": [
            {"kind": kind, "sentence": sentence} for kind, sentence in verified.guarantees
        ],
        "budget": [each.model_dump(mode="json") for each in said.budget],
        "exposed": [{"column": column, "tells": says} for column, says in verified.exposed],
        "caveats": [caveat_in_words(caveat) for caveat in said.caveats],
        **fields_json(verified, "keyid", "trusted", "checks"),
        "measured": [check.says for check in verified.measured],
        "derived_again": [check.says for check in verified.derived],
        "signers_word": list(verified.unverifiable_claims),
        "advisories": [
            {
                **fields_json(finding.advisory, "id", "title"),
                "status": finding.status,
                "concerns": finding.kind,
                **fields_json(finding.advisory, "says", "depends", "remedy"),
            }
            for finding in verified.advisories
        ],
        "internal_folder": verified.internal,
    }
