"""What attacks and audits found: as screens, as a page, and as the document that a report takes
in.
"""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cloakwork.base.errors import OutputError
from cloakwork.base.notebook_html import html_of, listing, shown, table
from cloakwork.base.text import first_fault, printable
from cloakwork.evaluation.dp_audit import CanaryAudit
from cloakwork.evaluation.pairs import PairAudit
from cloakwork.evaluation.risk_figures import Attack, RiskReport
from cloakwork.report.html import page
from cloakwork.report.ledger_text import fields_json
from cloakwork.report.model import Audience, Format
from cloakwork.report.screen import block
from cloakwork.report.texts import membership_lines, range_text, threshold_lines


def audit_lines(found: Sequence[PairAudit], width: int) -> Iterator[str]:
    """For each pair of neighbours the bound that its runs show, and what showed it."""
    for item in found:
        result = item.result
        bound = result.epsilon_lower_bound
        seen = f"epsilon >= {bound:.3f}" if bound > 0 else "nothing seen"
        verdict = "within the claim" if result.passed else "EXCEEDS the claim"
        claim = f"{verdict} of {result.claim:g} (delta {result.delta:g})"
        line = f"{item.pair}: {seen}, {claim}"
        yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
        if bound > 0:
            hits = f"{result.hits[0]} against {result.hits[1]} of {result.counted} runs"
            yield f"    {item.statistic}, {result.event}: {hits}"
    if found:
        yield "  wrong with probability at most 1e-6 over all pairs; passing is no proof"


def canary_lines(found: Sequence[CanaryAudit], unseen: str | None, width: int) -> Iterator[str]:
    """How well each step's noisy answers told a canary; ``unseen``: why none could be told."""
    for each in found:
        claim = f"claim of the plan: epsilon {each.whole:.3g} at delta {each.delta:.3g}"
        if each.claim < each.whole:
            claim += f"; its steps share it: this one is charged epsilon {each.claim:.3g}"
        seen = f"epsilon >= {each.epsilon:.3f}" if each.epsilon > 0 else "nothing seen"
        verdict = f"NOT EXCEEDED: within the {each.claim:.3g} charged"
        if each.epsilon > each.claim:
            # At 95 % one audit in twenty of a sound claim says so.
            verdict = "not beyond doubt above" if each.passed else "EXCEEDS"
            verdict += f" the {each.claim:.3g} charged"
        many = f"{each.copies} times " if each.copies > 1 else ""
        how = (
            f"{each.runs:,} answers with {each.canary} {many}and {each.runs:,} without: "
            f"{each.caught:.1%} score high with it, {each.mistaken:.1%} without"
        )
        sure = (
            "wrong with probability .05 at most, EXCEEDS with 1e-6; passing is no proof, and what "
            "is made of the answers is not looked at"
        )
        for line in (claim, f"found: {seen}, {verdict}", how, sure):
            yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
    if unseen is not None:
        line = f"no canaries: {unseen}"
        yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")


def audit_json(item: PairAudit) -> dict[str, Any]:
    """What the runs on one pair of neighbours showed."""
    result = item.result
    return {
        "pair": item.pair,
        "figure": item.statistic,
        "event": result.event,
        "epsilon_at_least": max(0.0, result.epsilon_lower_bound),
        **fields_json(result, "delta", "passed", "hits", "counted", "direction"),
    }


# --- the screen


_MOST_LINES: Final = 25
_SHARE: Final = 12
"""Columns of a share."""


def risk_screen(
    found: RiskReport,
    width: int,
    *,
    show_all: bool,
) -> list[str]:
    """The table, then remarks: on the first screen as many as there is room for."""
    # What is above the threshold ends in a mark.
    wide = width - 2 * _SHARE - 1
    heading = "Share of cases found by who knows"
    lines = [
        *block("", [f"{found.internal[:1].upper()}{found.internal[1:]}."], width, indent=0),
        "",
        f"{heading:<{wide}}{'before':>{_SHARE}}{'after':>{_SHARE}}",
    ]
    for attack in found.attacks if show_all else found.chosen:
        words = printable(attack.in_words)
        if len(words) > wide - 2:
            words = words[: wide - 5] + "..."
        shares = f"{range_text(attack.before):>{_SHARE}}{range_text(attack.after):>{_SHARE}}"
        mark = "!" if attack in found.above else ""
        lines.append(f"{words:<{wide}}{shares}{mark}")
    lines.append("")
    remarks = list(_remarks(found))
    if show_all:
        return [*lines, *block("", remarks, width, indent=0)]
    last = "All attacks and notes: --all, --json or --html FILE."
    # The figures' basis stays, and what was asked for: the bounds of employees.
    kept = 1 if found.threshold is None else 2
    if found.employees is not None:
        asked = remarks.pop(remarks.index(_as_sentence(found.employees.in_words())))
        remarks.insert(kept, asked)
        kept += 1
    # The least important remark goes first, until the screen is short enough.
    while True:
        below = list(block("", [*remarks, last], width, indent=0))
        if len(lines) + len(below) <= _MOST_LINES or len(remarks) == kept:
            return [*lines, *below]
        remarks.pop()


def _as_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def _remarks(found: RiskReport) -> Iterator[str]:
    """What the figures rest on, the most important first."""
    if found.membership is not None:
        yield from membership_lines(found.membership)
    yield from threshold_lines(found.attacks, found.threshold)
    targets = "every case" if found.targets == found.cases else f"{found.targets:,} at random"
    yield (
        f"{found.cases:,} cases, {targets} looked for; bounds at 95 % confidence. "
        "It is not checked that the release was made from this log. Whose case is whose in it is "
        "estimated; -: no figure (docs: risk)."
    )
    inferred = [each for each in found.attacks if each.name.startswith("inference/")]
    beyond = [each for each in inferred if each.after is not None and each.after.low > 0]
    if beyond:
        said = ", ".join(
            f"{printable(each.name.partition('/')[2])} {range_text(each.after)}" for each in beyond
        )
        yield (
            f"Inferred beyond what the control tells ({beyond[0].control}): {said}; "
            f"{len(inferred) - len(beyond)} attributes are not."
        )
    yield from map(_as_sentence, found.notes)
    by_sequence = found.attack("uniqueness/sequence").groups_before
    if by_sequence is not None:
        yield (
            f"Groups with one sequence: {by_sequence.alone:.0%} of the cases are alone, "
            f"{by_sequence.two_to_four:.0%} in groups of 2 to 4, "
            f"{by_sequence.five_to_nine:.0%} of 5 to 9."
        )


@html_of.register
def risk_html(found: RiskReport) -> str:
    """What one screen shows, for notebooks."""
    rows = [
        (each.in_words, range_text(each.before), range_text(each.after)) for each in found.chosen
    ]
    heads = ("Share of cases found by who knows", "before", "after")
    return shown(_as_sentence(found.internal), table(heads, rows), listing("", _remarks(found)))


# --- the page


_HEADINGS: Final = {
    "linking": "Is the case found? The best guess of somebody who knows",
    "unusual": "The same of the 5 % most unusual cases, whose sequences are the least likely",
    "linking-releases": "Two releases",
    "uniqueness": "Is the case alone? Cases that nobody else is like, by what is known",
    "singling-out": "Singling out",
    "linkability": "Linkability",
    "inference": "Attribute inference",
}


def risk_page(report: RiskReport) -> str:
    """The page as HTML; what comes from the logs is escaped by the template."""
    kinds: dict[str, list[Attack]] = {}
    for attack in report.attacks:
        # The first part of an attack's name is its kind.
        kinds.setdefault(attack.name.partition("/")[0], []).append(attack)
    return page(
        "risk.html",
        report=report,
        # In the order of the headings; an attack without one comes last, by its own name.
        tables=[
            (_HEADINGS.get(kind, kind), kinds[kind])
            for kind in dict.fromkeys([*_HEADINGS, *kinds])
            if kind in kinds
        ],
        groups=[each for each in report.attacks if each.groups_before is not None],
    )


# --- the document


WITH_RISK: Final[tuple[Format, ...]] = ("html", "pdf", "json", "dpia")
"""The formats that hold the figures of an attack."""

_LARGEST: Final = 64 * 2**20
"""Bytes: an attack is a few hundred of them."""
_AGAIN: Final = "write it with: cloakwork risk LOG DIR --json > FILE"


def read_risk(path: Path) -> RiskReport:
    """The document in ``path``, as ``cloakwork risk --json`` printed it; raises OutputError where
    it is none.
    """
    try:
        with path.open("rb") as file:
            # One byte more than allowed tells that there is more.
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > _LARGEST:
        raise OutputError(f"{path}: is too large for what cloakwork risk prints")
    try:
        return RiskReport.model_validate_json(content)
    except ValidationError as error:
        where, says = first_fault(error)
        place = " ".join(where.split())
        # A fault of the document as a whole has no place.
        fault = f"{place}: {says}" if place else says
        raise OutputError(
            f"{path}: is not what cloakwork risk --json prints ({fault}); {_AGAIN}"
        ) from error


def require_internal(audience: Audience, format_: Format) -> None:
    """Raise OutputError where a report for this audience, or of this format, holds no figures of
    an attack.
    """
    if audience != "internal":
        raise OutputError(
            "figures of an attack are read off the raw log: use --risk with --audience internal"
        )
    if format_ not in WITH_RISK:
        raise OutputError(
            f"{format_} holds no figures of an attack: use --risk with --format "
            f"{', '.join(WITH_RISK[:-1])} or {WITH_RISK[-1]}"
        )


def require_of_release(risk: RiskReport, release: str) -> None:
    """Raise OutputError unless the attacked release states the id ``release``."""
    if risk.release == release:
        return
    if risk.release is None:
        what = "does not say which release was attacked: name the release's folder, no log file"
    else:
        what = f"is of the release {risk.release}, and this one is {release}"
    raise OutputError(f"the risk document {what}; {_AGAIN}")
