"""``cloakwork verify``: is a release what it says?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import VerificationFailed
from cloakwork.base.progress import heard_by
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import ScreenSection, block, columns, fitted, printable
from cloakwork.report.texts import NOTHING_EXPOSED, duration

if TYPE_CHECKING:
    from cloakwork.ledger.advisories import AdvisoryMatch
    from cloakwork.publishing.verify import Verification

MOST_LINES: Final = 25
"""Lines of the screen without ``--all``."""

ALL: Final = "--all"

_SHOWN: Final = 4
"""How many exposed columns the first screen names."""
_STATUS: Final = {
    "void": "VOID",
    "open": "may be void",
    "weakened": "weakened",
    "corrected": "wording only",
}


def release_argument(context: click.Context, _: click.Parameter, path: Path) -> Path:
    """A folder, or a file that ``cloakwork pack`` made."""
    if path.is_file() and path.suffix.lower() != ".zip":
        raise click.BadParameter(
            f"'{path}' is neither a release folder nor a .zip file of 'cloakwork pack'", context
        )
    return path


def expectations(
    context: click.Context, _: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """``WHAT=VALUE`` as pairs."""
    from cloakwork.publishing.verify import EXPECTABLE

    pairs = [text.partition("=") for text in given]
    for name, sign, value in pairs:
        if name not in EXPECTABLE or not sign or not value:
            raise click.BadParameter(
                f"'{name}{sign}{value}' is not policy=NAME@VERSION, dataset=D or release=ID",
                context,
            )
        if name == "policy" and not all(value.rpartition("@")[::2]):
            raise click.BadParameter(
                f"'{value}' names no version; write policy=NAME@VERSION", context
            )
    return tuple((name, value) for name, _, value in pairs)


public_key_option = click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The signer's public key (PEM). Without it: your own, and those of 'cloakwork keys list'.",
)


@click.command()
@click.argument(
    "path",
    metavar="DIR_OR_ZIP",
    type=click.Path(exists=True, path_type=Path),
    callback=release_argument,
)
@public_key_option
@click.option(
    "--expect",
    multiple=True,
    metavar="WHAT=VALUE",
    callback=expectations,
    help="policy=NAME@VERSION, dataset=D or release=ID: exit 5 unless the release is that one. "
    "May be repeated.",
)
@click.option(
    "--all",
    "--why",
    "show_all",
    is_flag=True,
    help="Every check, every column, every advisory in full.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def verify(
    path: Path,
    public_key: Path | None,
    expect: tuple[tuple[str, str], ...],
    show_all: bool,
    as_json: bool,
) -> None:
    """Check signature, digests and stamp of a release, and measure again what can be measured.

    DIR_OR_ZIP is a release folder or a file that 'cloakwork pack' made. Exit code 5: it is not what
    it says, it is not the one expected, or a guarantee of it was found void since (an advisory).
    """
    from cloakwork.publishing.verify import Demands, Verification
    from cloakwork.publishing.verify import verify as verify_release

    try:
        with progress_of(quiet=as_json) as reporter, heard_by(reporter):
            verified = verify_release(path, public_key=public_key, demands=Demands(expect))
    except VerificationFailed as failure:
        found = failure.found if isinstance(failure.found, Verification) else None
        more = {} if found is None else _as_json(found)
        failure.beside = {"verified": False, "mismatches": failure.mismatches} | more
        if found is not None and not as_json:
            click.echo("\n".join(_screen(found, show_all, refusal_line(found))))
        raise
    if as_json:
        click.echo(json.dumps({"verified": True} | _as_json(verified), indent=2))
    else:
        click.echo("\n".join(_screen(verified, show_all, verdict_line(verified))))


def verdict_line(verified: "Verification") -> str:
    """That a release was verified, in one line."""
    nothing = "" if verified.guarantees else "; it is what it says, and it guarantees nothing"
    return f"verified, {len(verified.checks)} checks{nothing}"


def refusal_line(found: "Verification") -> str:
    """What is wrong with a release that is authentic."""
    if any(finding.number is None for finding in found.void):
        return "authentic, but VOID as a whole: see Advisories"
    if found.void:
        count = len({finding.number for finding in found.void})
        verb = "is" if count == 1 else "are"
        return f"authentic, but {count} of its guarantees {verb} VOID: see Advisories"
    return "authentic, but not the release that was expected"


def _screen(verified: "Verification", show_all: bool, verdict: str) -> Iterator[str]:
    """What was verified, in plain words: what it is, what it gives, what it does not, and how each
    is known; at most ``MOST_LINES`` lines where the sentences that were signed leave room.
    """
    width = columns()
    unproven = list(block("UNPROVEN", verified.unproven, width))
    sections = tuple(verification_sections(verified, show_all))
    if not show_all:
        sections = fitted(sections, MOST_LINES - len(unproven) - 1, width)
    yield from unproven
    yield f"{printable(str(verified.path))}: {verdict}"
    for section in sections:
        yield from section.lines(width)
    if show_all:
        yield from (f"ok  {printable(line)}" for line in verified.checks)


def verification_sections(verified: "Verification", show_all: bool) -> Iterator[ScreenSection]:
    """The sections; checks may be hidden, and never what is claimed, or found wrong."""
    said = verified.statement
    policy = said.policy
    made = f"{said.release}, made {said.issued:%Y-%m-%d %H:%M} UTC by Cloakwork {said.engine}"
    dataset = policy.dataset + (f", window {said.window.name}" if said.window else "")
    asked = f"{policy.name} {policy.version}; dataset {dataset}; protected: each {said.unit}"
    signer = f"key {verified.keyid[:16]}, {verified.trusted}"
    void = {finding.number for finding in verified.void}
    marked = tuple(
        ("VOID: " if number in void else "") + sentence
        for number, (_, sentence) in enumerate(verified.guarantees)
    )
    # What was measured or derived of the guarantees comes last; it is what must stay.
    measured = tuple(_short(check.says) for check in reversed(verified.measured))
    derived = tuple(_short(check.says) for check in reversed(verified.derived))
    words = (*verified.unverifiable_claims, _entry(verified, show_all))
    yield ScreenSection("Release", (made,))
    yield ScreenSection("Policy", (asked,))
    yield ScreenSection("Signed by", (signer, verified.keyid) if show_all else (signer,))
    yield ScreenSection("Guarantees", marked or ("none",))
    yield ScreenSection("Cost", tuple(_costs(verified)))
    yield ScreenSection("Not protected", tuple(_exposed(verified, show_all)))
    yield ScreenSection("Measured", measured, ALL)
    yield ScreenSection("Derived again", derived, ALL)
    yield ScreenSection("Signer's word", words)
    yield ScreenSection("Advisories", tuple(_advisories(verified.advisories, show_all)))
    if verified.internal:
        note = "it came with the internal folder: never pass it on (cloakwork pack leaves it out)"
        yield ScreenSection("Note", (note,))


def _entry(verified: "Verification", show_all: bool) -> str:
    entry = verified.statement.ledger_entry or ""
    return f"that this release is in the ledger, as entry {entry if show_all else entry[:16]}"


def _costs(verified: "Verification") -> list[str]:
    lines = []
    for spent in verified.statement.budget:
        epsilon = "no bound" if spent.cost.epsilon is None else f"epsilon {spent.cost.epsilon:g}"
        delta = f", delta {spent.cost.delta:g}" if spent.cost.delta else ""
        shift = f", per {duration(spent.shift)}" if spent.shift else ""
        name = _CURRENCIES.get(spent.currency, spent.currency)
        lines.append(f"{name}{shift}: {epsilon}{delta}")
    return lines


_CURRENCIES: Final = {
    "unit": "differential privacy of a unit",
    "metric": "metric privacy of a value",
    "local": "local privacy of a value",
    "none": "no bound by differential privacy",
}


def _exposed(verified: "Verification", show_all: bool) -> list[str]:
    lines = [f"{column}: {says}" for column, says in verified.exposed]
    if not lines and verified.guarantees:
        return [NOTHING_EXPOSED]
    if show_all or len(lines) <= _SHOWN:
        return lines
    return [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more columns (--all)"]


def _advisories(findings: "tuple[AdvisoryMatch, ...]", show_all: bool) -> list[str]:
    """The findings; what they say and what to do for each that matters, or for all."""
    lines = []
    for finding in findings:
        advisory = finding.advisory
        lines.append(f"{_STATUS[finding.status]}  {finding}")
        if show_all:
            depends = f" It depends on {advisory.depends}." if advisory.depends else ""
            lines.append(f"  {advisory.says}{depends}")
        if show_all or finding.status == "void":
            lines.append(f"  {advisory.remedy}")
    return lines or ["none concern this release"]


def _short(line: str) -> str:
    return line.removeprefix("measured again: ")


def _as_json(verified: "Verification") -> dict[str, Any]:
    said = verified.statement
    unproven = {"unproven": list(verified.unproven)} if verified.unproven else {}
    return unproven | {
        "release": said.release,
        "issued": said.issued.isoformat(),
        "engine": said.engine,
        "ledger_entry": said.ledger_entry,
        "policy": {
            "name": said.policy.name,
            "version": said.policy.version,
            "dataset": said.policy.dataset,
        },
        **({"window": said.window.model_dump(mode="json")} if said.window else {}),
        "unit": str(said.unit),
        "guarantees": [
            {"kind": kind, "sentence": sentence} for kind, sentence in verified.guarantees
        ],
        "budget": [each.model_dump(mode="json") for each in said.budget],
        "exposed": [{"column": column, "tells": says} for column, says in verified.exposed],
        "keyid": verified.keyid,
        "trusted": verified.trusted,
        "checks": list(verified.checks),
        "measured": [check.says for check in verified.measured],
        "derived_again": [check.says for check in verified.derived],
        "signers_word": list(verified.unverifiable_claims),
        "advisories": [_finding_json(finding) for finding in verified.advisories],
        "internal_folder": verified.internal,
    }


def _finding_json(finding: "AdvisoryMatch") -> dict[str, Any]:
    advisory = finding.advisory
    return {
        "id": advisory.id,
        "title": advisory.title,
        "status": finding.status,
        "concerns": finding.kind,
        "says": advisory.says,
        "depends": advisory.depends,
        "remedy": advisory.remedy,
    }
