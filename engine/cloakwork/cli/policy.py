"""``cloakwork policy``: write, check, explain and compare privacy policies."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import MOST_LINES, PlanImpossible, PolicyError
from cloakwork.base.files import replace_file
from cloakwork.base.text import counted, printable
from cloakwork.cli.options import (
    LOG,
    PATH,
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    print_block,
    print_json,
    print_names,
    print_questions,
    require_order,
    write_new,
)
from cloakwork.cli.policy_init import init, suggest
from cloakwork.log.formats.source import require_there

if TYPE_CHECKING:
    from cloakwork.policy.advice import AdviceRule
    from cloakwork.policy.model import Policy
    from cloakwork.report.policy_findings import Annotation


LEVELS: Final = ("warning", "note")
CHANGES: Final = ("looser", "tighter", "other", "version", "any")

NOT_PASSED: Final = PlanImpossible.exit_code
"""The exit code where what ``--fail-on`` names was found."""

format_option = click.option(
    "--format",
    "output",
    type=click.Choice(("text", "json", "sarif", "github")),
    help="How to print it: text (default), json, sarif (2.1.0), or annotations for GitHub Actions.",
)


@click.command(short_help="Give advice on a valid policy.")
@click.argument("policy_", metavar="POLICY")
@click.argument("log", type=LOG, required=False)
@column_option
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
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
    from cloakwork import api
    from cloakwork.authoring.advice import lint_dataset
    from cloakwork.authoring.registry import policy_source
    from cloakwork.policy.lint import ADVICE_RULES
    from cloakwork.policy.lint import lint as advice_on
    from cloakwork.report.policy_findings import placed_advice

    form = _chosen_format(output, as_json)
    require_order([policy_], log or "")
    source = policy_source(policy_, ledger)
    read = source.policy()
    # Three kinds of advice: on the policy by itself, beside a log, beside a ledger.
    advice = advice_on(read)
    if log is not None:
        require_there(log)
        advice += api.advice_on_log(read, log, columns=column_mapping(columns, log))
    elif columns:
        raise click.UsageError("--column is about a log; name one")
    if ledger is not None:
        advice += lint_dataset(read, open_ledger(ledger, tell_missing=True))
    found = placed_advice(
        read,
        advice,
        source.text,
        source.label,
        path=source.path,
        with_log=log is not None,
        with_ledger=ledger is not None,
    )
    # What is waived is still shown, but fails nothing.
    said = [each for each in found if each.accepted is None]
    if form == "text":
        for each in found:
            place = f"{source.label}:{each.line}:{each.column}: "
            waived = f"{each.field}: waived: {each.accepted}"
            click.echo(printable(place + (str(each) if each.accepted is None else waived)))
        if not said:
            click.echo(f"{source.label}: nothing to advise")
    elif form == "json":
        silenced = [each for each in found if each.accepted is not None]
        print_json(
            {
                "path": source.label,
                "advice": [_fields(each) for each in said],
                "waived": [_fields(each) | {"waiver": each.accepted} for each in silenced],
            }
        )
    else:
        _print_annotations(form, found, ADVICE_RULES)
    # A note fails what a warning fails, not the other way round.
    failing = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on else ()
    context.exit(NOT_PASSED if any(each.level in failing for each in said) else 0)


def _fields(each: "Annotation") -> dict[str, Any]:
    shown = ("line", "column", "field", "message", "rule", "level")
    return {name: getattr(each, name) for name in shown}


@click.command(short_help="Compare two versions of a policy by meaning.")
@click.argument("old")
@click.argument("new")
@click.option(
    "--fail-on",
    type=click.Choice(CHANGES),
    multiple=True,
    help="End with exit code 3 if there is such a change (may be repeated); version: if "
    "metadata.version was not raised far enough.",
)
@format_option
@ledger_option
@json_option
@click.pass_context
def diff(
    context: click.Context,
    old: str,
    new: str,
    fail_on: tuple[str, ...],
    output: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Compare two versions of a policy: what protects better now (tighter), what worse (looser),
    what else changed (other), and how far the version must rise for it.

    OLD and NEW: files, shipped policies, NAME@VERSION of the registry, or saved plans.
    """
    from cloakwork.authoring.registry import policy_source
    from cloakwork.policy.diff import counted_changes, verdict, version_step
    from cloakwork.policy.diff import diff as differences
    from cloakwork.report.policy_findings import (
        CHANGE_RULES,
        VERDICTS,
        placed_changes,
        version_sentence,
    )

    form = _chosen_format(output, as_json)
    old_source = policy_source(old, ledger)
    source = policy_source(new, ledger)
    before = old_source.policy()
    after = source.policy()
    # By meaning: what only reads otherwise is no change.
    changes = differences(before, after)
    step = version_step(before, after, changes)
    if form == "text":
        for change in changes:
            click.echo(printable(str(change)))
        click.echo(VERDICTS[verdict(changes)])
        if step.bump is not None:
            click.echo(version_sentence(step))
    elif form == "json":
        said = [asdict(change) for change in changes]
        print_json({"verdict": verdict(changes), "changes": said, "version": asdict(step)})
    else:
        found = placed_changes(changes, step, source.text, source.label, source.path)
        _print_annotations(form, found, CHANGE_RULES)
    kinds: set[str] = {change.verdict for change in counted_changes(changes)}
    # 'any' stands for each change that counts; a version that is too low has its own name.
    if kinds:
        kinds.add("any")
    if not step.is_enough:
        kinds.add("version")
    context.exit(0 if kinds.isdisjoint(fail_on) else NOT_PASSED)


def _chosen_format(output: str | None, as_json: bool) -> str:
    """The format that ``--format`` and ``--json`` name together."""
    if as_json and output not in (None, "json"):
        raise click.UsageError(f"--json and --format {output} contradict each other")
    return "json" if as_json else output or "text"


def _print_annotations(
    form: str, found: "Sequence[Annotation]", rules: "Mapping[str, AdviceRule]"
) -> None:
    """Print what was found as ``sarif`` or ``github``; there, what is accepted is left out."""
    from cloakwork.report.policy_findings import github_command, sarif

    if form == "sarif":
        print_json(sarif(found, rules))
        return
    for each in found:
        if each.accepted is None:
            click.echo(github_command(each))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def policy() -> None:
    """Write, check, explain and compare privacy policies.

    Where a policy is asked for, give a file, the name of a shipped policy (see 'cloakwork policy
    list'), NAME@VERSION of the registry (see 'cloakwork registry list'), or a plan that 'cloakwork
    plan --out' saved: it stands for its policy.
    """


policy.add_command(init)
policy.add_command(suggest)


@policy.command(short_help="Check policies: a line a problem, with its place.")
@click.argument("policies", metavar="POLICY...", nargs=-1, required=True)
@ledger_option
@json_option
@click.pass_context
def validate(
    context: click.Context, policies: tuple[str, ...], ledger: str | None, as_json: bool
) -> None:
    """Check policies; every problem is one line with its file, line and column."""
    results = [_validated(source, ledger) for source in policies]
    if as_json:
        print_json({"policies": results})
    else:
        for result in results:
            if result["valid"]:
                click.echo(f"{result['path']}: ok ({result['name']} {result['version']})")
            for problem in result["problems"]:
                click.echo(problem["text"], err=True)
            if more := result.get("more"):
                click.echo(f"... and {more:,} more", err=True)
    context.exit(0 if all(result["valid"] for result in results) else PolicyError.exit_code)


def _validated(source: str, ledger: str | None) -> dict[str, Any]:
    """What there is to say about one policy, as JSON values."""
    from cloakwork.policy.load import digest

    try:
        read = _read(source, ledger)
    except PolicyError as error:
        # A hostile file can have problems without number: the first are shown, the others counted.
        shown = error.problems[:MOST_LINES]
        problems = [asdict(problem) | {"text": str(problem)} for problem in shown]
        found = {"path": source, "valid": False, "problems": problems}
        more = len(error.problems) - MOST_LINES
        return found | {"more": more} if more > 0 else found
    meta = read.metadata
    return {
        "path": source,
        "valid": True,
        "name": meta.name,
        "version": meta.version,
        "digest": digest(read),
        "problems": [],
    }


@policy.command(short_help="Say in plain words what a policy does.")
@click.argument("policy_", metavar="POLICY")
@ledger_option
@json_option
def explain(policy_: str, ledger: str | None, as_json: bool) -> None:
    """Say in plain words what a policy protects, what it guarantees, what it costs, and what stays
    exposed.
    """
    from cloakwork.policy.explain import explain as explained
    from cloakwork.policy.model import describe_version

    read = _read(policy_, ledger)
    sections = explained(read)
    if as_json:
        said = [asdict(section) for section in sections]
        print_json({"policy": describe_version(read), "sections": said})
        return
    for place, section in enumerate(sections):
        click.secho(("\n" if place else "") + section.title, bold=True)
        for line in section.lines:
            print_block("  - ", line, indent=4)


@policy.command(short_help="Answer what a suggested policy asks.")
@click.argument("file", metavar="POLICY", type=PATH)
@click.option(
    "--file", "answers", type=PATH, help="YAML: attribute to answer; else it is asked here."
)
@click.option("--rest", type=click.Choice(("drop",)), help="Leave out all that is not answered.")
@click.option(
    "--confirm", metavar="NAME", help="Who confirms that what was read off the log is public."
)
@json_option
def answer(
    file: Path, answers: Path | None, rest: str | None, confirm: str | None, as_json: bool
) -> None:
    """Say which values the attributes of POLICY can have, so that they are released; its comments
    stay.

    An answer is a list of values, a range of numbers (0..120), a column of a code list
    (codes.csv:code), 'found' (noise finds the values; whole logs only) or 'drop'. Say it from what
    is known without the log: a value found there would be published.
    """
    from cloakwork.authoring.answers import HOW, LEAVE_OUT, answered, asked_in, read_answers
    from cloakwork.policy.document import read_text
    from cloakwork.policy.model import describe_version

    text = read_text(file)
    asked = asked_in(text, str(file))
    said: dict[str, Any] = {} if answers is None else read_answers(answers)
    if answers is None and rest is None and sys.stdin.isatty() and not as_json:
        if asked:
            click.echo(f"{HOW}; nothing: left out.")
        for each in asked:
            question = f"{printable(each.name)} ({each.reason}): {each.question}"
            said[each.name] = click.prompt(question, default=LEAVE_OUT, show_default=False)
    elif rest is not None:
        said = {each.name: LEAVE_OUT for each in asked} | said
    if not said and confirm is None:
        if as_json:
            questions = [asdict(each) for each in asked]
            print_json({"path": str(file), "answered": [], "questions": questions})
            return
        if not asked:
            click.echo(f"{file} asks nothing.")
            return
        print_questions((each.name, f"{each.question} It {each.reason}") for each in asked)
        print_block("", f"Nothing was written. Answer at a terminal, or by --file: {HOW}", indent=0)
        return
    base = file.parent if answers is None else answers.parent
    made, read = answered(text, str(file), said, base=base, confirmed_by=confirm)
    replace_file(file, made.encode(), private=False)
    left = [each.name for each in asked_in(made)]
    if as_json:
        print_json({"path": str(file), "answered": sorted(said), "asked": left, "valid": True})
        return
    click.echo(f"{file}: {counted(len(said), 'answer')} written; {describe_version(read)} is valid")
    if left:
        click.echo(f"Still left out: {', '.join(map(printable, left))}")


policy.add_command(lint)
policy.add_command(diff)


@policy.command(short_help="Print the JSON Schema of the policy language.")
@click.option("--out", type=PATH, help="Write it to this file instead of standard output.")
@click.option("--editor", is_flag=True, help="Write it where policies of this folder name it.")
def schema(out: Path | None, editor: bool) -> None:
    """Print the JSON Schema of the policy language, for editors and for checks elsewhere.

    With --editor it is written into this folder, under the name that the first line of a policy
    tells editors: they complete, explain and check as you type, by the YAML language server.
    """
    from cloakwork.policy.load import SCHEMA_FILE, schema_text

    out = Path(SCHEMA_FILE) if editor else out
    if out is None:
        click.echo(schema_text(), nl=False)
        return
    write_new(out, schema_text(), force=True)
    click.echo(f"{out}: written")


@policy.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the policies that come with Cloakwork."""
    from cloakwork.plan.policies import load_shipped
    from cloakwork.policy.load import list_policies

    found = [(name, load_shipped(name).metadata.purpose) for name in list_policies()]
    if as_json:
        print_json({"policies": [{"name": name, "purpose": purpose} for name, purpose in found]})
    else:
        print_names(found)


def _read(source: str, ledger: str | None) -> "Policy":
    from cloakwork.authoring.registry import policy_source

    return policy_source(source, ledger).policy()
