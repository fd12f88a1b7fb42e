"""``cloakwork policy lint``: advice on a policy, on the screen or for other tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import LogError
from cloakwork.cli.annotations import (
    Annotation,
    chosen_format,
    format_option,
    leave,
    print_annotations,
    print_document,
)
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    require_log,
)
from cloakwork.report.screen import printable

if TYPE_CHECKING:
    from cloakwork.authoring.sources import PolicySource
    from cloakwork.policy.advice import Advice
    from cloakwork.policy.model import Policy
    from cloakwork.policy.waivers import JudgedAdvice

FAIL_ON: Final = ("warning", "note")


@click.command(short_help="Give advice on a valid policy.")
@click.argument("policy_", metavar="POLICY")
@click.argument("log", type=click.Path(path_type=Path), required=False)
@column_option
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="End with exit code 3 if there is advice of this level, or above it.",
)
@format_option
@ledger_option
@json_option
@click.pass_context
def lint(
    context: click.Context,
    policy_: str,
    log: Path | None,
    columns: tuple[str, ...],
    fail_on: str | None,
    output: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Give advice on a valid policy: what a careful reader would ask its author.

    With LOG, also where the two do not fit together: attributes that the log lacks, attributes that
    a glob releases, values that single people out. That advice comes from the raw log: keep it
    inside. With --ledger, also where the policy is otherwise than its dataset is declared there, or
    declares totals above those that bind.

    Each piece ends with the rule that gives it, in brackets. spec.waivers of the policy silences
    one, with a reason, a name and a last day.
    """
    from cloakwork.authoring.sources import policy_source
    from cloakwork.policy.advice import ADVICE_RULES

    form = chosen_format(output, as_json)
    source = policy_source(policy_, ledger)
    found = _judged_advice(source.policy(), log, columns, ledger)
    annotations = _annotations(source, found)
    said = [each for each in annotations if each.accepted is None]
    match form:
        case "text":
            _print_text(source.label, annotations)
        case "json":
            silenced = [each for each in annotations if each.accepted is not None]
            print_document(
                {
                    "path": source.label,
                    "advice": [_fields(each) for each in said],
                    "waived": [_fields(each) | {"waiver": each.accepted} for each in silenced],
                }
            )
        case _:
            print_annotations(form, annotations, ADVICE_RULES)
    failing = FAIL_ON[: FAIL_ON.index(fail_on) + 1] if fail_on else ()
    leave(context, any(each.level in failing for each in said))


def _judged_advice(
    read: "Policy", log: Path | None, columns: tuple[str, ...], ledger: str | None
) -> "tuple[JudgedAdvice, ...]":
    from cloakwork.policy.advice import ADVICE_RULES, LEDGER_RULES, LOG_RULES, WAIVER_RULES
    from cloakwork.policy.lint import lint as advice_on
    from cloakwork.policy.waivers import judged

    advice = advice_on(read)
    if log is not None:
        advice += _advice_on_log(read, log, columns)
    elif columns:
        raise click.UsageError("--column is about a log; name one")
    if ledger is not None:
        from cloakwork.authoring.dataset_advice import lint_dataset

        advice += lint_dataset(read, open_ledger(ledger, tell_missing=True))
    without_log = LOG_RULES.keys() if log is None else set[str]()
    return judged(
        advice,
        read.spec.waivers,
        known=ADVICE_RULES.keys() - WAIVER_RULES.keys(),
        unchecked=without_log | (LEDGER_RULES.keys() if ledger is None else set[str]()),
    )


def _advice_on_log(read: "Policy", log: Path, columns: tuple[str, ...]) -> "tuple[Advice, ...]":
    require_log(log)
    return advice_on_log(read, log, column_mapping(columns, log))


def advice_on_log(
    policy: "Policy", log: Path, columns: "Mapping[str, str] | None" = None
) -> "tuple[Advice, ...]":
    """Where a policy and the log at ``log`` do not fit together; internal.

    ``columns``: standard name to the log's own. Raises LogError where the log cannot be read, and
    the policy's ``spec.input`` is not why.
    """
    from cloakwork.authoring import lint_log
    from cloakwork.authoring.lint_input import lint_input
    from cloakwork.run.reading import read_under

    advice = lint_input(policy, log)
    try:
        found = read_under(policy, log, columns=columns or None)
    except LogError:
        if advice:
            return advice  # it says which line of the policy to correct
        raise
    return (*advice, *lint_log(policy, found))


def _annotations(
    source: "PolicySource", found: "tuple[JudgedAdvice, ...]"
) -> tuple[Annotation, ...]:
    """What was found, in the order of the file."""
    from cloakwork.policy.document import dotted_path
    from cloakwork.policy.syntax import read_document

    document = read_document(source.text, source.label)
    annotations = [
        Annotation(
            each.advice.rule,
            each.advice.level,
            each.advice.message,
            source.path,
            *document.place(each.advice.steps),
            dotted_path(each.advice.steps),
            None if each.waiver is None else str(each.waiver),
        )
        for each in found
    ]
    return tuple(sorted(annotations, key=lambda each: (each.line, each.column, each.message)))


def _fields(each: Annotation) -> dict[str, Any]:
    return {
        "line": each.line,
        "column": each.column,
        "field": each.field,
        "message": each.message,
        "rule": each.rule,
        "level": each.level,
    }


def _print_text(label: str, annotations: tuple[Annotation, ...]) -> None:
    for each in annotations:
        place = f"{label}:{each.line}:{each.column}: {each.field}"
        if each.accepted is None:
            click.echo(printable(f"{place}: {each.message} [{each.rule}]"))
        else:
            click.echo(printable(f"{place}: waived: {each.accepted}"))
    if all(each.accepted is not None for each in annotations):
        click.echo(f"{label}: nothing to advise")
