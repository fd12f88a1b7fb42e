"""``cloakwork policy init``: a policy to begin with, from a shipped one, a template or a log."""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from cloakwork.base.errors import PolicyError
from cloakwork.cli.options import column_option
from cloakwork.cli.policy_files import write_new
from cloakwork.cli.policy_suggest import write_suggestion
from cloakwork.report.screen import block, columns

STARTER: Final = "kanon-dp-timestamps"
SCHEMA_FILE: Final = "privacy-policy-v1.json"


@click.command(short_help="Write a policy to begin with.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("policy.yaml"), help="Where to write it."
)
@click.option(
    "--from", "name", metavar="NAME", help=f"Shipped policy to begin with (else {STARTER})."
)
@click.option("--template", metavar="NAME", help="Template of a sector to begin with.")
@click.option("--log", type=click.Path(path_type=Path), help="Log to propose a policy for.")
@click.option("--list", "list_them", is_flag=True, help="List templates and shipped policies.")
@click.option("--dataset", help="Which dataset it is about.")
@click.option("--owner", help="Who answers for it.")
@click.option("--purpose", help="What the release is for.")
@column_option
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(
    out: Path,
    name: str | None,
    template: str | None,
    log: Path | None,
    list_them: bool,
    dataset: str | None,
    owner: str | None,
    purpose: str | None,
    columns: tuple[str, ...],
    force: bool,
) -> None:
    """Write a policy to begin with, which says line by line what it means.

    It begins with a shipped policy, with the template of a sector, or with what a log holds (as
    'cloakwork policy suggest' does, with its usual options). What only its author can say is a
    question in <...>, and 'cloakwork policy validate' refuses the file until it is answered.
    """
    from cloakwork.policy.library import list_policies, list_templates, shipped

    if list_them:
        _list()
        return
    begun_with = [option for option in (name, template, log) if option is not None]
    if len(begun_with) > 1:
        raise click.UsageError("--from, --template and --log: name one of them")
    header = {"dataset": dataset, "owner": owner, "purpose": purpose}
    if log is not None:
        write_suggestion(log, out, header=_asked(header), columns=columns, force=force)
        return
    if columns:
        raise click.UsageError("--column is about a log; name one with --log")
    if template is not None:
        _require_known(template, list_templates(), "--template")
        source, text = f"the template {template}", template_policy(template, out, header)
    else:
        source = name or STARTER
        _require_known(source, list_policies(), "--from")
        text = (shipped("policies") / f"{source}.yaml").read_text("utf-8")
        text = _with_header(_starter(text, out), header, keeps=False)
    questions = _questions_of(text, out)
    write_new(out, text, force=force)
    _say_next(out, source, questions)


def template_policy(template: str, out: Path, header: Mapping[str, str | None]) -> str:
    """The text of a policy for ``out``, from the template of a sector; what ``header`` leaves open
    stays the question that the template asks.
    """
    from cloakwork.policy.library import template_text

    return _with_header(_starter(template_text(template), out), header, keeps=True)


def sectors() -> tuple[tuple[str, str], ...]:
    """The templates, each with what it is for."""
    from cloakwork.policy.library import list_templates, template_text

    return tuple((name, _first_sentence(template_text(name))) for name in list_templates())


def _require_known(name: str, known: list[str], option: str) -> None:
    from cloakwork.policy.validation_messages import did_you_mean

    if name not in known:
        guess = did_you_mean(name, known)
        what = "template" if option == "--template" else "policy"
        raise click.BadParameter(
            f"no {what} '{name}' is shipped{guess}; 'cloakwork policy init --list' shows them",
            param_hint=option,
        )


def _starter(text: str, out: Path) -> str:
    """A shipped policy as a file of one's own: named after the file, with the schema expected
    beside it.
    """
    text = re.sub(
        r"(?m)^(# yaml-language-server: \$schema=).*$", rf"\g<1>{SCHEMA_FILE}", text, count=1
    )
    name = re.sub(r"[^a-z0-9._-]+", "-", out.name.split(".")[0].lower()).lstrip("._-")[:100]
    return re.sub(r"(?m)^(  name: )[a-z0-9._-]+", rf"\g<1>{name or 'policy'}", text, count=1)


def _with_header(text: str, header: Mapping[str, str | None], *, keeps: bool) -> str:
    """``text`` with what was said of it under metadata; what was not said becomes a question, or
    stays where the text asks itself (``keeps``). An example's legal basis is nobody else's.
    """
    from cloakwork.policy.placeholders import HEADER_QUESTIONS, placeholder

    for field, value in header.items():
        if value is None and keeps:
            continue
        text = _with_metadata(
            text, field, value if value is not None else placeholder(HEADER_QUESTIONS[field])
        )
    return text if keeps else re.sub(r"(?m)^  legalBasis: .*\n", "", text)


def _with_metadata(text: str, field: str, value: str) -> str:
    """``text`` with another value, and no comment, in one line of its metadata."""
    from cloakwork.policy.yaml_text import in_quotes

    line = f"  {field}: {in_quotes(value)}"
    return re.sub(rf"(?m)^  {field}: .*$", lambda _: line, text, count=1)


def _asked(header: Mapping[str, str | None]) -> dict[str, str]:
    from cloakwork.policy.placeholders import HEADER_QUESTIONS, placeholder

    return {
        field: placeholder(HEADER_QUESTIONS[field]) if value is None else value
        for field, value in header.items()
    }


def _questions_of(text: str, out: Path) -> int:
    """How many questions the policy holds; raises PolicyError for what is wrong beside them."""
    from cloakwork.plan.policies import parse_policy
    from cloakwork.policy.placeholders import STILL_OPEN

    try:
        parse_policy(text, str(out))
    except PolicyError as error:
        wrong = [problem for problem in error.problems if STILL_OPEN not in problem.message]
        if wrong:
            raise PolicyError(wrong) from None
        return len(error.problems)
    return 0


def _say_next(out: Path, source: str, questions: int) -> None:
    if questions:
        ask = "a question" if questions == 1 else f"{questions} questions"
        change = f"answer {ask} in <...>, then check it:"
    else:
        change = "check it:"
    said = f"{out}: written, from {source}. Next: {change}"
    click.echo("\n".join(block("", [said], columns(), indent=2)).lstrip())
    click.echo(f"  cloakwork policy validate {shlex.quote(str(out))}")
    click.echo("For completion in your editor:")
    click.echo(f"  cloakwork policy schema --out {shlex.quote(str(out.parent / SCHEMA_FILE))}")


def _list() -> None:
    from cloakwork.plan.policies import load_shipped
    from cloakwork.policy.library import list_policies

    policies = [(name, load_shipped(name).metadata.purpose) for name in list_policies()]
    for title, rows in (("--template NAME", sectors()), ("--from NAME", policies)):
        click.secho(title, bold=True)
        _print_rows(rows)


def _first_sentence(text: str) -> str:
    """What a template says of itself in its first comment."""
    lines = [line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#")]
    return next(line for line in lines if line and not line.startswith("yaml-language"))


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(first) for first, _ in rows), default=0)
    for first, second in rows:
        click.echo("\n".join(block(f"  {first}", [second], columns(), indent=width + 4)))
