"""``cloakwork policy suggest``: a policy for a log that nobody has described yet."""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from cloakwork.base.errors import LogError, UnsaidInput
from cloakwork.cli.options import column_mapping, column_option, json_option, require_log
from cloakwork.cli.policy_files import write_new
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import block, columns, printable

if TYPE_CHECKING:
    from cloakwork.authoring.classify import Proposal
    from cloakwork.authoring.suggestion import Suggestion
    from cloakwork.policy.attribute_rules import Role

GOALS: Final = ("k-anonymity", "control-flow-dp", "whole-log-dp")
AUDIENCES: Final = ("internal", "share", "publish")
AUDIENCE: Final = "share"

_ROLES: Final = ("identifier", "quasi-identifier", "sensitive", "insensitive")


@click.command(short_help="Propose a policy for a log.")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New policy file.")
@click.option(
    "--audience",
    type=click.Choice(AUDIENCES),
    default=AUDIENCE,
    show_default=True,
    help="Who gets the release.",
)
@click.option(
    "--goal", type=click.Choice(GOALS), help="What it guarantees; by default by audience."
)
@click.option("--dataset", help="Which dataset the log belongs to; by default the file's name.")
@click.option("--owner", help="Who answers for the policy; by default your user name.")
@click.option("--purpose", help="What the release is for.")
@click.option("--no-times", is_flag=True, help="Release no times.")
@click.option("--ask", is_flag=True, help="Ask for each of these, and about each attribute.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@column_option
@click.option(
    "--input",
    "input_",
    multiple=True,
    metavar="NAME=VALUE",
    help="How the log is read, as under spec.input, e.g. object_type=order or sheet=2024.",
)
@click.option(
    "--unit",
    metavar="ATTRIBUTE",
    help="Protect whoever it names with all cases: an attribute of cases, or a table's column.",
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def suggest(
    log: Path,
    out: Path,
    audience: str,
    goal: str | None,
    dataset: str | None,
    owner: str | None,
    purpose: str | None,
    no_times: bool,
    ask: bool,
    force: bool,
    columns: tuple[str, ...],
    input_: tuple[str, ...],
    unit: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read LOG inside and propose a policy for it: what each attribute is, what happens to it, and
    why.

    Names of attributes get into the policy, values do not. What a guarantee of differential privacy
    needs to know is left as a question: an answer read off the log would be published. What is
    printed here comes from the raw log: keep it inside.
    """
    header = {"dataset": dataset, "owner": owner, "purpose": purpose}
    write_suggestion(
        log,
        out,
        header=header,
        audience=audience,
        goal=goal,
        times=not no_times,
        ask=ask,
        force=force,
        columns=columns,
        input_=input_,
        unit=unit,
        quiet=quiet,
        as_json=as_json,
    )


def write_suggestion(
    log: Path,
    out: Path,
    *,
    header: Mapping[str, str | None],
    audience: str = AUDIENCE,
    goal: str | None = None,
    times: bool = True,
    ask: bool = False,
    force: bool = False,
    columns: tuple[str, ...] = (),
    input_: tuple[str, ...] = (),
    unit: str | None = None,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """Read ``log``, write the policy that is proposed for it to ``out``, and say what it is.

    ``header``: dataset, owner and purpose, None for what was not said.
    """
    from cloakwork.authoring import header_of
    from cloakwork.authoring import suggest as suggested
    from cloakwork.authoring.unknown_log import named_unit, read_unknown, require_unit

    require_log(log)
    if ask:
        _require_terminal(as_json=as_json)
    with progress_of(quiet=quiet or as_json) as reporter:
        reporter(f"reading {log}")
        attribute, mapped = named_unit(log, unit)
        said = {**(column_mapping(columns, log) or {}), **mapped}
        try:
            read, detected = read_unknown(log, said, _said_of_input(input_))
        except UnsaidInput as error:
            flags = {"--no-times": not times, "--ask": ask, "--force": force}
            options = {"--column": columns, "--input": _others(input_, error.option)}
            for name, value in {"audience": audience, "goal": goal, **header}.items():
                is_question = value is None or value.startswith("<")
                if value and not is_question and (name, value) != ("audience", AUDIENCE):
                    options[f"--{name}"] = (value,)
            if unit:
                options["--unit"] = (unit,)
            raise _with_next_command(error, log, out, options, flags) from None
        require_unit(log, read, attribute)
        reporter("looking at its attributes")
        found = suggested(
            read,
            header_of(log, out, **header),
            audience,  # type: ignore[arg-type]
            goal,  # type: ignore[arg-type]
            times=times,
            detected=detected,
            unit=attribute,
        )
    if ask:
        found = _asked(found)
    write_new(out, found.text, force=force)
    if as_json:
        click.echo(json.dumps(_as_document(found, out), indent=2, ensure_ascii=False))
    else:
        _show(found, log, out)


def _others(input_: tuple[str, ...], option: str) -> tuple[str, ...]:
    return tuple(pair for pair in input_ if pair.partition("=")[0] != option)


def _with_next_command(
    error: UnsaidInput,
    log: Path,
    out: Path,
    options: Mapping[str, tuple[str, ...]],
    flags: Mapping[str, bool],
) -> LogError:
    """The error with the command that says what is missing, the first choice standing in it."""
    choice = next((name for name in error.choices if name.isprintable()), "NAME")
    words = ["cloakwork", "policy", "suggest", str(log), "--input", f"{error.option}={choice}"]
    for name, values in options.items():
        words += [word for value in values for word in (name, value)]
    words += [name for name, given in flags.items() if given]
    command = shlex.join([*words, "--out", str(out)])
    return LogError(log, error.problem.message, hint=f"say which: {command}")


def _said_of_input(pairs: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` pairs; columns have an option of their own."""
    from cloakwork.log.formats.options import InputOptions

    known = [name for name in InputOptions.model_fields if name != "columns"]
    said: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or name not in known:
            names = ", ".join(known)
            raise click.BadParameter(
                f"'{pair}' is not NAME=VALUE; the names are {names}", param_hint="--input"
            )
        said[name] = value
    return said


def _require_terminal(*, as_json: bool) -> None:
    if as_json:
        raise click.UsageError("--ask and --json do not go together")
    if not sys.stdin.isatty():
        raise click.UsageError("--ask needs a terminal to ask in")


def _asked(found: "Suggestion") -> "Suggestion":
    """The suggestion, after its author was asked."""
    header = found.header
    header = replace(
        header,
        dataset=click.prompt("Dataset", default=header.dataset),
        owner=click.prompt("Who answers for the policy", default=header.owner),
        purpose=click.prompt("What is the release for", default=header.purpose),
    )
    roles = click.Choice(_ROLES)
    proposals = []
    for proposal in found.proposals:
        question = f"{printable(proposal.name)} ({proposal.reason})"
        role = click.prompt(question, default=str(proposal.role), type=roles)
        proposals.append(
            proposal if role == proposal.role else proposal.with_role(cast("Role", role))
        )
    return replace(found, header=header, proposals=tuple(proposals))


def _show(found: "Suggestion", log: Path, out: Path) -> None:
    from cloakwork.authoring.classify import COMMON_ONLY

    click.echo(f"{out}: written, a proposal of {found.goal} for the audience '{found.audience}'.")
    said = f"{taken_line(found)}. Check these first."
    click.echo("\n".join(block("", [said], columns(), indent=2)).lstrip())
    click.secho("What each attribute seems to be (from the raw log: keep it inside)", bold=True)
    for (role, reason), names in _groups(found.proposals).items():
        said = f"{role}, as it {reason}:" if reason != COMMON_ONLY else f"{reason}:"
        click.echo("\n".join(block("  ", [said], columns(), indent=4)))
        said = ", ".join(_numbered_alike(names))
        click.echo("\n".join(block("      ", [said], columns(), indent=6)))
    if not found.proposals:
        click.echo("  the log has no attributes but case, activity and time")
    for line in notes_on(found):
        click.echo("\n".join(block("note: ", [line], columns(), indent=2)))
    click.echo("Next: read the file and change what is not so, then")
    said = shlex.join([str(out), str(log)])
    click.echo(f"  cloakwork policy lint {said}")
    click.echo(f"  cloakwork plan {said}")


def _groups(proposals: Iterable["Proposal"]) -> dict[tuple[str, str], list[str]]:
    """The names of attributes by role and reason, those that say most of somebody first."""
    found: dict[tuple[str, str], list[str]] = {}
    for proposal in sorted(proposals, key=lambda each: _ROLES.index(each.role)):
        found.setdefault((proposal.role, proposal.reason), []).append(printable(proposal.name))
    return found


def _numbered_alike(names: Iterable[str]) -> Iterable[str]:
    """The names, those that differ in their number alone as one."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(re.sub(r"[_:. -]?\d+$", "", name), []).append(name)
    for alike in found.values():
        more = f" and {len(alike) - 1} like it" if len(alike) > 1 else ""
        yield alike[0] + more


def taken_line(found: "Suggestion") -> str:
    """Which columns were taken as case, activity and time."""
    from cloakwork.authoring.taken_columns import taken_in_words

    return taken_in_words(found.taken, found.options, has_times=found.has_times)


def notes_on(found: "Suggestion") -> Iterable[str]:
    """What the author of a suggested policy has to know, or to do."""
    from cloakwork.policy.placeholders import NO_PURPOSE

    if found.header.purpose == NO_PURPOSE:
        yield "metadata.purpose is not stated; --purpose says what the release is for"
    is_open = found.unit is None
    if found.persons and is_open:
        names = ", ".join(map(printable, found.persons))
        yield f"one person may have several cases, by {names}: --unit protects it"
    if found.persons_of_events and is_open:
        names = ", ".join(map(printable, found.persons_of_events))
        how = "--unit protects it"
        if not found.options.columns:
            how = "only an attribute of cases can be the unit, so each case is protected by itself"
        yield f"one person may have several cases, by {names}: {how}"
    yield from found.open_input
    if found.questions:
        questions = "a question" if found.questions == 1 else f"{found.questions} questions"
        yield f"the file holds {questions} in <...> that you answer before it is valid"
    if found.unnamed:
        names = ", ".join(printable(name) for name in found.unnamed)
        yield f"a policy cannot name {names}: dropped with all that is not listed"


def _as_document(found: "Suggestion", out: Path) -> dict[str, object]:
    from cloakwork.authoring.taken_columns import taken_columns

    return {
        "path": str(out),
        "goal": found.goal,
        "audience": found.audience,
        "questions": found.questions,
        "columns": taken_columns(found.taken, found.options, has_times=found.has_times),
        "input": found.options.model_dump(),
        "open_input": list(found.open_input),
        "persons": list(found.persons),
        "unnamed": list(found.unnamed),
        "attributes": [
            {
                "name": each.name,
                "nature": each.nature,
                "role": each.role,
                "reason": each.reason,
                "figures": {k: v for k, v in asdict(each.figures).items() if k != "name"},
            }
            for each in found.proposals
        ],
    }
