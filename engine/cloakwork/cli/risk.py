"""``cloakwork risk``: what somebody who knows a little about a case can find."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    require_log,
)
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import block, printable
from cloakwork.report.screen import columns as screen_width

if TYPE_CHECKING:
    from cloakwork.evaluation.risk_figures import RiskReport, Share

_LINES: Final = 25
_SHARE: Final = 12
_PATH: Final = click.Path(path_type=Path)


@click.command(short_help="Attack a log, and a release of it.")
@click.argument("original", type=_PATH)
@click.argument("release", type=_PATH, required=False)
@click.option("--other", type=_PATH, help="A second release of ORIGINAL: link RELEASE with it.")
@click.option(
    "--control",
    type=_PATH,
    help="Cases of the same process that are not in ORIGINAL: the control group of singling out, "
    "linkability and inference.",
)
@click.option(
    "--policy",
    metavar="POLICY",
    help="How ORIGINAL is read: a file, a shipped policy or NAME@VERSION; by default the policy of "
    "RELEASE.",
)
@column_option
@click.option(
    "--targets",
    type=click.IntRange(min=10),
    default=1000,
    show_default=True,
    help="Cases that are looked for; of more cases, so many at random.",
)
@click.option(
    "--membership",
    type=click.IntRange(min=20),
    metavar="RUNS",
    help="Attack who is in ORIGINAL, too: by RUNS releases of random halves of it, made by the "
    "plan of RELEASE, else of --policy.",
)
@click.option("--plot", type=_PATH, help="Draw that attack beside the claim here (SVG).")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--html", type=_PATH, help="Write all attacks, with drawings, to this file.")
@click.option("--all", "show_all", is_flag=True, help="Show every attack.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@ledger_option
@json_option
def risk(
    original: Path,
    release: Path | None,
    other: Path | None,
    control: Path | None,
    policy: str | None,
    columns: tuple[str, ...],
    targets: int,
    membership: int | None,
    plot: Path | None,
    seed: int,
    html: Path | None,
    show_all: bool,
    quiet: bool,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Attack the log ORIGINAL, and RELEASE of it: a release folder, a packed release, or a log.

    How often is a case found, or more learned about it, by somebody who knows some of its events,
    when it started, or some attributes? Before and after, with bounds at 95 %. ORIGINAL is read as
    the policy of RELEASE says, or --policy; --column goes before it. The figures read the raw log:
    never publish them.
    """
    if other is not None and release is None:
        raise click.UsageError("--other names a second release: name the first, RELEASE, too")
    if plot is not None and membership is None:
        raise click.UsageError("--plot draws an attack on membership: add --membership RUNS")
    require_log(original)
    mapping = column_mapping(columns, original)
    from cloakwork.evaluation.assess import risk as assess
    from cloakwork.report.membership_plot import membership_svg
    from cloakwork.report.out import check_file, write_file
    from cloakwork.report.risk_page import risk_page

    for file in (html, plot):
        if file is not None:
            check_file(file)
    with progress_of(quiet=quiet) as reporter:
        found = assess(
            original,
            release,
            other=other,
            control=control,
            columns=mapping,
            policy=policy,
            ledger=ledger,
            targets=targets,
            seed=seed,
            membership=membership or 0,
            reporter=reporter,
        )
    if html is not None:
        write_file(html, risk_page(found).encode(), private=True)
    if plot is not None and found.membership is not None:
        write_file(plot, membership_svg(found.membership).encode(), private=True)
    lines = found.model_dump_json(indent=2) if as_json else "\n".join(_lines(found, show_all))
    click.echo(lines)


def _lines(found: "RiskReport", show_all: bool) -> list[str]:
    """The table, then remarks: on the first screen as many as there is room for."""
    width = screen_width()
    wide = width - 2 * _SHARE
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
        shares = f"{_range(attack.before):>{_SHARE}}{_range(attack.after):>{_SHARE}}"
        lines.append(f"{words:<{wide}}{shares}")
    lines.append("")
    remarks = list(_remarks(found))
    if show_all:
        return [*lines, *block("", remarks, width, indent=0)]
    last = "All attacks and notes: --all, --json or --html FILE."
    while True:
        below = list(block("", [*remarks, last], width, indent=0))
        if len(lines) + len(below) <= _LINES or len(remarks) == 1:
            return [*lines, *below]
        remarks.pop()


def _range(share: "Share | None") -> str:
    """The bounds in percent; one figure where they are the same.

    >>> from cloakwork.evaluation.risk_figures import Share
    >>> _range(Share(share=0.5, low=0.45, high=0.55)), _range(None)
    ('45-55 %', '-')
    """
    if share is None:
        return "-"
    low, high = f"{100 * share.low:.0f}", f"{100 * share.high:.0f}"
    return f"{low} %" if low == high else f"{low}-{high} %"


def _remarks(found: "RiskReport") -> Iterator[str]:
    """What the figures rest on, the most important first."""
    if found.membership is not None:
        yield from found.membership.in_words
    targets = "every case" if found.targets == found.cases else f"{found.targets:,} at random"
    yield (
        f"{found.cases:,} cases, {targets} looked for; bounds at 95 % confidence. "
        "Whose case is whose in a release is estimated (docs: risk)."
    )
    yield from (f"{note[:1].upper()}{note[1:]}." for note in found.notes)
    by_sequence = found.attack("uniqueness/sequence").groups_before
    if by_sequence is not None:
        yield (
            f"Groups with one sequence: {by_sequence.alone:.0%} of the cases are alone, "
            f"{by_sequence.two_to_four:.0%} in groups of 2 to 4, "
            f"{by_sequence.five_to_nine:.0%} of 5 to 9."
        )
