"""``cloakwork policy init`` and ``suggest``: a policy to begin with, from a shipped one, a template
or a log.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import CloakworkError
from cloakwork.base.facts import CASE
from cloakwork.base.text import printable
from cloakwork.cli.options import (
    LOG,
    PATH,
    as_typed,
    column_mapping,
    column_option,
    input_option,
    json_option,
    ledger_option,
    open_ledger,
    print_block,
    print_json,
    print_names,
    print_questions,
    progress_of,
    quiet_option,
    said_of_input,
    write_new,
)
from cloakwork.log.formats.source import require_there
from cloakwork.report.screen import block, columns

if TYPE_CHECKING:
    from cloakwork.authoring.suggestion import (
        Audience,
        Goal,
        Suggestion,
        SuggestionRequest,
        Times,
    )
    from cloakwork.evaluation.compare import RehearsedForm

STARTER: Final = "kanon-dp-timestamps"

# Said here again, so that the help of a command loads no more than it needs; a test compares them.
GOALS: Final = ("k-anonymity", "control-flow-dp", "whole-log-dp")
AUDIENCES: Final = ("internal", "share", "publish")
AUDIENCE: Final = "share"
TIMES: Final = ("drawn", "noised", "none")
FORMS: Final = (*GOALS, "k-anonymity-noised-times")

_ROLES: Final = ("identifier", "quasi-identifier", "sensitive", "insensitive")


@click.command(short_help="Write a policy to begin with.")
@click.option("--out", type=PATH, default=Path("policy.yaml"), help="Where to write it.")
@click.option(
    "--from", "name", metavar="NAME", help=f"Shipped policy to begin with (else {STARTER})."
)
@click.option("--template", metavar="NAME", help="Template of a sector to begin with.")
@click.option("--list", "list_them", is_flag=True, help="List templates and shipped policies.")
@click.option("--dataset", help="Which dataset it is about.")
@click.option("--owner", help="Who answers for it.")
@click.option("--purpose", help="What the release is for.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(
    out: Path,
    name: str | None,
    template: str | None,
    list_them: bool,
    dataset: str | None,
    owner: str | None,
    purpose: str | None,
    force: bool,
) -> None:
    """Write a policy to begin with, which says line by line what it means.

    It begins with a shipped policy, or with the template of a sector; 'cloakwork policy suggest'
    begins with a log. What only its author can say is a question in <...>, and 'cloakwork policy
    validate' refuses the file until it is answered.
    """
    from cloakwork.authoring.registry import (
        questions_of,
        sectors,
        shipped_policy,
        template_policy,
    )
    from cloakwork.plan.policies import load_shipped
    from cloakwork.policy.load import SCHEMA_FILE, list_policies, list_templates

    if list_them:
        policies = [(each, load_shipped(each).metadata.purpose) for each in list_policies()]
        for title, rows in (("--template NAME", sectors()), ("--from NAME", policies)):
            click.secho(title, bold=True)
            print_names(rows, indent=2)
        return
    if name is not None and template is not None:
        raise click.UsageError("--from and --template: name one of them")
    header = {"dataset": dataset, "owner": owner, "purpose": purpose}
    if template is not None:
        _require_known(template, list_templates(), "--template")
        source = f"the template {template}"
        text = template_policy(template, out, header)
    else:
        source = name or STARTER
        _require_known(source, list_policies(), "--from")
        text = shipped_policy(source, out, header)
    questions = questions_of(text, out)
    write_new(out, text, force=force)
    change = "check it:"
    if questions:
        ask = "a question" if questions == 1 else f"{questions} questions"
        change = f"answer {ask} in <...>, then check it:"
    _print_paragraph(f"{out}: written, from {source}. Next: {change}")
    click.echo(f"  cloakwork policy validate {shlex.quote(str(out))}")
    click.echo("For completion in your editor:")
    click.echo(f"  cloakwork policy schema --out {shlex.quote(str(out.parent / SCHEMA_FILE))}")


def _require_known(name: str, known: list[str], option: str) -> None:
    from cloakwork.policy.document import did_you_mean

    if name not in known:
        guess = did_you_mean(name, known)
        what = "template" if option == "--template" else "policy"
        raise click.BadParameter(
            f"no {what} '{name}' is shipped{guess}; 'cloakwork policy init --list' shows them",
            param_hint=option,
        )


def _print_paragraph(text: str) -> None:
    """Print a text whose further lines are indented."""
    click.echo("\n".join(block("", [text], columns(), indent=2)).lstrip())


@click.command(short_help="Propose a policy for a log.")
@click.argument("log", type=LOG)
@click.option("--out", required=True, type=PATH, help="New policy file.")
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
@click.option("--owner", help="Who answers for the policy; the policy is published with it.")
@click.option("--purpose", help="What the release is for.")
@click.option(
    "--times",
    type=click.Choice(TIMES),
    default="drawn",
    show_default=True,
    help="How times are released: drawn anew through noise, each noised by itself, or not.",
)
@click.option(
    "--take",
    type=click.Choice(FORMS),
    help="Take this form in place of the proposed one, after reading the figures: the policy says "
    "so.",
)
@click.option(
    "--confirm",
    metavar="NAME",
    help="Who confirms that what was read off the log is publicly known, such as its columns.",
)
@click.option("--quick", is_flag=True, help="Do not try the forms on the log.")
@click.option("--yes", is_flag=True, help="Take the defaults; do not ask at a terminal.")
@click.option("--answers", type=PATH, help="YAML: the answers, in place of questions.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@column_option
@input_option
@click.option(
    "--unit",
    metavar="ATTRIBUTE",
    help="Protect whoever it names with all cases: an attribute of cases, or a table's column.",
)
@ledger_option
@quiet_option
@json_option
def suggest(
    log: Path,
    out: Path,
    audience: "Audience",
    goal: "Goal | None",
    dataset: str | None,
    owner: str | None,
    purpose: str | None,
    times: "Times",
    take: str | None,
    confirm: str | None,
    quick: bool,
    yes: bool,
    answers: Path | None,
    force: bool,
    columns: tuple[str, ...],
    input_: tuple[str, ...],
    unit: str | None,
    ledger: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read LOG inside and propose a policy for it: what each attribute is, what happens to it, and
    why.

    The form of the release follows from the answers alone: at a terminal six questions are asked,
    of who receives it, under what contract, what else they hold, what harm it could do, what it is
    needed for, and what is public. It is then tried on the log beside others: what each keeps, and
    how many cases somebody finds in it. Nothing is released or charged by that.

    Names of attributes get into the policy, values do not: attributes stay out until 'cloakwork
    policy answer' says which values there are. What is printed here comes from the raw log: keep it
    inside.
    """
    from cloakwork.authoring.answers import with_answers
    from cloakwork.authoring.suggestion import SuggestionRequest, as_name, forms_beside
    from cloakwork.evaluation.compare import rehearsed, release_fault

    require_there(log)
    typed = as_typed(log)
    # The files of a table have a name of their own each time.
    if typed != str(log):
        dataset = dataset or as_name(typed.removeprefix("spark:"))
    # What would be refused in the end is refused before minutes are spent.
    if out.exists() and not force:
        raise click.UsageError(f"{out} exists; --force overwrites it")
    request = SuggestionRequest(
        log=log,
        out=out,
        header={"dataset": dataset, "owner": owner, "purpose": purpose},
        audience=audience,
        goal=goal,
        times=times,
        columns=column_mapping(columns, log),
        said=said_of_input(input_),
        unit=unit,
    )
    asks = sys.stdin.isatty() and not (yes or as_json or answers)
    if answers is not None:
        request = with_answers(request, answers)
    elif asks:
        request = _answered_in_terminal(request)
    with progress_of(quiet=quiet or as_json) as reporter:
        reporter(f"reading {typed}")
        found = request.suggestion(reporter)
    book = open_ledger(ledger)
    found = found.known_to(book)
    proposed = found
    found = replace(found, confirmed_by=confirm)
    if take is not None and take != found.form:
        found = found.taking(take)
    forms: tuple[RehearsedForm, ...] = ()
    if not quick:
        with progress_of(quiet=quiet or as_json) as reporter:
            assert found.log is not None  # noqa: S101 - what was proposed was proposed for a log
            forms = rehearsed(found.log, forms_beside(proposed), book, reporter)
        if not as_json:
            _show_forms(found, forms)
        possible = [each.name for each in forms if each.fault is None]
        if asks and take is None and len(possible) > 1 and found.form in possible:
            chosen = click.prompt("Form", default=found.form, type=click.Choice(possible))
            found = found.taking(chosen) if chosen != found.form else found
    # A policy that can never be applied is not written.
    beside = forms_beside(found)
    if fault := release_fault(beside[found.form], found.log, book):
        ways = {f"--take {name}": policy for name, policy in beside.items()}
        if CASE in book.remaining(found.header.dataset):
            ways["leaving out --unit"] = forms_beside(replace(found, unit=None))[found.form]
        for way, policy in ways.items():
            if release_fault(policy, found.log, book) is None:
                fault += f"; {way} would fit"
        raise CloakworkError(f"{found.form} is not proposed: {fault}")
    write_new(out, found.text, force=force)
    if as_json:
        print_json(_as_document(found, out) | {"forms": [each.model_dump() for each in forms]})
    else:
        _show(found, typed, out)


def _answered_in_terminal(request: "SuggestionRequest") -> "SuggestionRequest":
    """The request with answers to six questions; return takes what is said already."""
    from cloakwork.authoring.answers import CHOICES, QUESTIONS, asked_request

    said = request.circumstances
    defaults: dict[str, Any] = {
        "recipients": request.audience,
        "contract": True,
        "knowledge": said.knowledge,
        "harm": said.harm,
        "purpose": request.header.get("purpose") or "",
        "public": "",
    }
    answers: dict[str, Any] = {}
    for name, question in QUESTIONS.items():
        if name == "contract":
            # Nobody can be held to one whom nobody knows.
            is_open = answers["recipients"] == "publish"
            answers[name] = is_open or click.confirm(question, default=True)
            continue
        choice = click.Choice(CHOICES[name]) if name in CHOICES else None
        shown = bool(defaults[name])
        answers[name] = click.prompt(
            question, default=defaults[name], type=choice, show_default=shown, show_choices=False
        )
    return asked_request(request, answers, base=Path(), label="public")


def _forms_table(found: "Suggestion", forms: "Sequence[RehearsedForm]") -> Iterator[str]:
    """The forms beside each other: what is kept, who is found, what it costs."""
    from cloakwork.evaluation.utility import ATTACKED
    from cloakwork.report.comparison import form_rows
    from cloakwork.report.outcome import FEW_LEFT

    proposed = found.instead_of or found.form
    names = [each.name + (" *" if each.name == proposed else "") for each in forms]
    rows = [("", names), *form_rows(forms, found.threshold)]
    width = max(len(cell) for _, cells in rows for cell in cells) + 2
    for label, cells in rows:
        yield f"  {label:<21}" + "".join(f"{cell:<{width}}" for cell in cells).rstrip()
    for each in forms:
        if each.fault is not None:
            yield f"  {each.name}: {each.fault}"
    most = 100 * found.threshold
    is_asked = found.instead_of is None and not found.follows_from_answers
    by = "as it was asked for" if is_asked else "from the answers alone"
    yield f"  *: proposed, {by}. !: above {most:g} %, the threshold;"
    yield f"  ?: below it, but its upper bound (95 %, by at most {ATTACKED} cases) is above."
    yield "  -: none to measure, or too many variants to compare."
    yield "  0.00: noise left nothing; declare assume.alphabet."
    chosen = next((each for each in forms if each.name == found.form), None)
    if chosen is not None and any(share.share > found.threshold for share in chosen.found.values()):
        yield (
            f"  {chosen.name} lies above the threshold in this trial: look at a release with "
            "'cloakwork risk' before it leaves; a smaller epsilon or a larger k is found less."
        )
    if chosen is not None and (chosen.durations or 0) > FEW_LEFT:
        yield f"  The durations of {chosen.name} are hardly kept: more cases, or assume.window"
        yield "  and longest_gap help; for few cases suggest again with --times none."


def _show_forms(found: "Suggestion", forms: "tuple[RehearsedForm, ...]") -> None:
    from cloakwork.evaluation.knowledge import SAMPLE

    click.secho("Tried on the log (internal: never publish these figures)", bold=True)
    for line in _forms_table(found, forms):
        click.echo(line)
    if found.log is not None and found.log.case_count > SAMPLE:
        _print_paragraph(f"  Made-up cases were compared with {SAMPLE:,} cases at random.")


def _show(found: "Suggestion", log: str, out: Path) -> None:
    from cloakwork.authoring.attributes import COMMON_ONLY
    from cloakwork.authoring.suggestion import ASKED

    click.echo(f"{out}: written, a proposal of {found.form} for the audience '{found.audience}'.")
    if found.instead_of is not None:
        _print_paragraph(
            f"Taken in place of {found.instead_of} after reading figures of the raw log: the "
            "policy, every plan and every statement made from it say so."
        )
    _print_paragraph(f"{found.columns_in_words}. Check these first.")
    click.secho("What each attribute seems to be (from the raw log: keep it inside)", bold=True)
    # Attributes of one role and reason share a line, however many there are.
    groups: dict[tuple[str, str], list[str]] = {}
    # Those that say most of somebody first.
    for each in sorted(found.proposals, key=lambda each: _ROLES.index(each.role)):
        groups.setdefault((each.role, each.reason), []).append(printable(each.name))
    for (role, reason), names in groups.items():
        said = f"{role}, as it {reason}:" if reason != COMMON_ONLY else f"{reason}:"
        print_block("  ", said, indent=4)
        # Names that differ in their number alone are shown as one: of 'Diagnosis_7', 'Diagnosis'.
        alike: dict[str, list[str]] = {}
        for name in names:
            alike.setdefault(re.sub(r"[_:. -]?\d+$", "", name), []).append(name)
        shown = [
            first + (f" and {len(others)} like it" if others else "")
            for first, *others in alike.values()
        ]
        print_block("      ", ", ".join(shown), indent=6)
    if not (found.proposals or found.unnamed):
        click.echo("  the log has no attributes but case, activity and time")
    for note in found.notes:
        print_block("note: ", note, indent=2)
    if found.asked:
        print_questions((each.name, ASKED[each.figures.type]) for each in found.asked)
        click.echo(f"  cloakwork policy answer {shlex.quote(str(out))}")
    click.echo("Next: read the file and change what is not so, then")
    said = shlex.join([str(out), log])
    click.echo(f"  cloakwork policy lint {said}")
    click.echo(f"  cloakwork plan {said}")


_AS_THEY_ARE: Final = (
    *("goal", "form", "instead_of", "audience", "read_off", "confirmed_by"),
    *("questions", "columns", "persons", "unnamed"),
)


def _as_document(found: "Suggestion", out: Path) -> dict[str, Any]:
    return {
        "path": str(out),
        **{name: getattr(found, name) for name in _AS_THEY_ARE},
        "asked": [each.name for each in found.asked],
        "input": found.detected.options.model_dump(),
        "open_input": found.detected.questions,
        "sample": found.sample or None,
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
