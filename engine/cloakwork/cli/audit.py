"""``cloakwork audit``: does a mechanism keep its claim, as far as runs can tell? And what does a
release keep of its source?
"""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.base.errors import OutputError
from cloakwork.base.quantities import LEAST_DELTA, LEAST_EPSILON, MOST_EPSILON
from cloakwork.cli.audit_utility import utility
from cloakwork.cli.options import device_option, json_option
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import columns

if TYPE_CHECKING:
    from cloakwork.evaluation.pairs import PairAudit
    from cloakwork.mechanisms.base import Proof

EXCEEDED = 5


@click.group()
def audit() -> None:
    """Test a mechanism's claim by running it many times, or compare a release with its source."""


audit.add_command(utility)


@audit.command(short_help="Audit the differential privacy of MECHANISM.")
@click.argument("mechanism")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to test.")
@click.option(
    "--delta",
    type=float,
    default=1e-3,
    show_default=True,
    help="The claim's delta; times have none. Small ones cannot be told from 0 by few runs.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=10),
    default=1000,
    show_default=True,
    help="Runs on each log of each pair.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the mechanism, as under a policy's parameters; VALUE is JSON or a word.",
)
@device_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Draw the bounds against the claim here (SVG)."
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
@click.pass_context
def dp(
    ctx: click.Context,
    mechanism: str,
    epsilon: float,
    delta: float,
    runs: int,
    options: tuple[str, ...],
    device: str,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Audit the differential privacy of MECHANISM on the worst neighbouring logs that we can name.

    Runs it on made-up logs, never on yours, and shows how large epsilon must be, given what it put
    out. Exit code 5: the claim is exceeded. An audit that passes proves nothing; how many runs see
    what, is in the documentation (audit).
    """
    from cloakwork.base.progress import heard_by
    from cloakwork.mechanisms.devices import computed_on
    from cloakwork.mechanisms.registry import catalogue
    from cloakwork.testing import audit_mechanism, auditable

    if mechanism not in catalogue():
        raise click.UsageError(
            f"there is no mechanism '{mechanism}'; to audit there are {', '.join(auditable())}"
        )
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and (delta == 0 or LEAST_DELTA <= delta < 1)):
        raise click.UsageError(
            f"epsilon must be between {LEAST_EPSILON:g} and {MOST_EPSILON:g}, "
            f"delta 0, or at least {LEAST_DELTA:g} and below 1"
        )
    chosen, training = _options(options), computed_on(device)
    with progress_of(quiet=quiet) as reporter, heard_by(reporter), training:
        found = audit_mechanism(mechanism, epsilon=epsilon, delta=delta, runs=runs, options=chosen)
    if out is not None:
        _draw(out, mechanism, epsilon, found)
    passed = all(item.result.passed for item in found)
    proof = catalogue()[mechanism].proof
    if as_json:
        claim = {"mechanism": mechanism, "options": chosen, "proof": proof, "epsilon": epsilon}
        results = {"runs": runs, "passed": passed, "pairs": [_pair_json(item) for item in found]}
        click.echo(json.dumps(claim | results, indent=2, ensure_ascii=False))
    else:
        _print_result(mechanism, proof, found)
    if not passed:
        known = "; only its paper claims so" if proof == "published" else ""
        click.echo(
            f"{mechanism}: audit failed: it does not keep epsilon {epsilon:g}{known}", err=True
        )
        ctx.exit(EXCEEDED)


def _options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; a value that is no JSON is a text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign and value) or name in found:
            raise click.BadParameter(
                f"'{pair}' is not NAME=VALUE, each name once", param_hint="--option"
            )
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def _pair_json(item: "PairAudit") -> dict[str, Any]:
    result = item.result
    return {
        "pair": item.pair,
        "figure": item.statistic,
        "event": result.event,
        "epsilon_at_least": max(0.0, result.epsilon_lower_bound),
        "delta": result.delta,
        "passed": result.passed,
        "hits": list(result.hits),
        "counted": result.counted,
        "direction": result.direction,
    }


def _print_result(mechanism: str, proof: "Proof", found: "tuple[PairAudit, ...]") -> None:
    from cloakwork.plan.sentences import proof_in_words

    click.echo(f"{mechanism} ({proof_in_words(proof)})")
    for item in found:
        result = item.result
        seen = (
            f"epsilon >= {result.epsilon_lower_bound:.3f}"
            if result.epsilon_lower_bound > 0
            else "nothing seen"
        )
        verdict = "within the claim" if result.passed else "EXCEEDS the claim"
        claim = f"{verdict} of {result.claim:g} (delta {result.delta:g})"
        line = f"{item.pair}: {seen}, {claim}"
        wrapped = textwrap.wrap(line, columns(), initial_indent="  ", subsequent_indent="    ")
        click.echo("\n".join(wrapped))
        if result.epsilon_lower_bound > 0:
            hits = f"{result.hits[0]} against {result.hits[1]} of {result.counted} runs"
            click.echo(f"    {item.statistic}, {result.event}: {hits}")
    click.echo("  wrong with probability at most 1e-6 over all pairs; passing is no proof")


def _draw(out: Path, mechanism: str, epsilon: float, found: "tuple[PairAudit, ...]") -> None:
    from cloakwork.report.audit_plot import audit_svg

    title = f"{mechanism}: what runs on neighbouring logs show"
    try:
        out.write_text(audit_svg(title, epsilon, found), "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error
