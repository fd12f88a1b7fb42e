"""A suggestion as a policy file, with a comment for every choice.

The text holds names of attributes, which a policy publishes anyway, and no value and no figure of
the log; where no noise is claimed, comments propose some, which say so.
"""

from collections.abc import Iterator
from typing import Final

from cloakwork.authoring.classify import Nature, Proposal
from cloakwork.authoring.read_off import ReadOff
from cloakwork.authoring.suggestion import Audience, K, Suggestion
from cloakwork.authoring.taken_columns import is_read_from
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import format_duration
from cloakwork.log.formats.options import ROLES
from cloakwork.policy.placeholders import placeholder
from cloakwork.policy.yaml_text import in_quotes

EPSILON: Final[dict[Audience, float]] = {"internal": 4.0, "share": 2.0, "publish": 1.0}
RELEASES: Final = 4
"""Releases that the budget of the dataset allows for."""

MAX_CASES: Final = 5
"""Cases of one unit that are kept, where the unit is no case."""

DELTA: Final = "1.0e-6"
TOTAL_DELTA: Final = "4.0e-6"
"""Of every dataset, also where nothing proposed costs delta: a later policy may ask for it."""

READERS: Final[dict[Audience, str]] = {
    "internal": "colleagues inside the organisation",
    "share": "a partner under contract",
    "publish": "the public",
}

_SECTIONS: Final[tuple[tuple[str, tuple[Nature, ...]], ...]] = (
    ("Identify a case, a person or a member of staff", ("identifier", "staff", "free text")),
    ("Repeat what the log says elsewhere", ("copy",)),
    ("Hold times", ("time",)),
    ("Others may know them of somebody", ("quasi-identifier",)),
    ("Sensitive, or not known to be harmless", ("sensitive",)),
    ("Common values only; nothing else is known of them", ("other",)),
    ("Say nothing of anybody, as far as can be seen", ("technical", "constant")),
)


def policy_text(suggestion: Suggestion) -> str:
    """The policy file: valid as it stands but for questions in ``<...>``, which only its author can
    answer.
    """
    return "\n".join(_lines(suggestion)) + "\n"


def _lines(suggestion: Suggestion) -> Iterator[str]:
    header = suggestion.header
    yield from _introduction(suggestion)
    yield from (
        "",
        "apiVersion: cloakwork/v1",
        "kind: PrivacyPolicy",
        "",
        "metadata:",
        f"  name: {in_quotes(header.name)}",
        "  version: 0.1.0",
        f"  owner: {in_quotes(header.owner)}   # who answers for this policy",
        f"  purpose: {in_quotes(header.purpose)}   # what the release is for",
        f"  dataset: {in_quotes(header.dataset)}   # every release of the same data names the same",
        "",
        "spec:",
    )
    yield from _input(suggestion)
    yield from _unit(suggestion)
    yield from ("", "  attributes:")
    yield from _attributes(suggestion)
    yield from ("", "  guarantees:")
    yield from _guarantees(suggestion)
    yield from _facts(suggestion)
    yield from ("", "  budget:")
    yield from _budget(suggestion)


def _introduction(suggestion: Suggestion) -> Iterator[str]:
    yield f"# Suggested for {READERS[suggestion.audience]}; read every line before it is used."
    yield "# Roles were found from the names of the attributes and from the log itself: they are"
    if suggestion.read_off is None:
        yield "# proposals. No value of the log stands here; the names of its attributes do, and a"
        yield "# release publishes them with the policy."
    else:
        yield "# proposals. A release publishes the policy, and with it the names of attributes and"
        yield "# each value that you take over from a comment 'read off the log': keep this file"
        yield "# inside until these comments are gone."
    if suggestion.goal == "whole-log-dp":
        yield "# Answer the questions in <...> from what is public or written down elsewhere, never"
        yield "# from the log: a value found there would be published."


_ROLE_OF: Final = {full: role for role, full in ROLES.items()}


def _input(suggestion: Suggestion) -> Iterator[str]:
    """How the log is read; nothing where its file says so itself."""
    options = suggestion.options.model_dump()
    columns = options.pop("columns", {})
    formats = suggestion.time_formats
    if not options and not columns and not formats:
        return
    yield "  input:   # how the log is read; found in its file, so check it"
    if columns:
        yield "    columns:"
    for full, column in columns.items():
        role = _ROLE_OF.get(full) or in_quotes(full)
        yield f"      {role}: {in_quotes(column)}"
    for name, value in options.items():
        yield f"    {name}: {in_quotes(str(value))}"
    if formats:
        question = f"which one is it: {' or '.join(formats)}?"
        yield f"    time_format: {in_quotes(placeholder(question))}   # %d: day, %m: month"
    for said in suggestion.open_input:
        if not (formats and "time_format" in said):
            yield f"    # {said}"
    yield ""


def _unit(suggestion: Suggestion) -> Iterator[str]:
    if suggestion.unit is not None:
        unit = f"{{attribute: {in_quotes(suggestion.unit)}, max_cases: {MAX_CASES}}}"
        yield f"  unit: {unit}   # whom the guarantees protect"
        return
    yield "  unit: case   # whom the guarantees protect"
    is_table = bool(suggestion.options.columns)
    columns = suggestion.persons_of_events if is_table and not suggestion.persons else ()
    if suggestion.persons or columns:
        yield "  # One person seems to have several cases. To protect the person with all of them,"
        yield "  # suggest again with --unit and the name, or write:"
    for name in suggestion.persons:
        yield f"  # unit: {{attribute: {in_quotes(name)}, max_cases: {MAX_CASES}}}"
    for name in columns:
        yield f"  # unit: {{attribute: {in_quotes(CASE_PREFIX + name)}, max_cases: {MAX_CASES}}}"
        yield f"  #   with {in_quotes(CASE_PREFIX + name)}: {in_quotes(name)} under input.columns,"
        yield f"  #   and under attributes {in_quotes(CASE_PREFIX + name)} for {in_quotes(name)}"


def _attributes(suggestion: Suggestion) -> Iterator[str]:
    case_id, activity, time = (is_read_from(suggestion.taken, full) for full in ROLES.values())
    yield f'    "case:concept:name": {{role: identifier}}   # cases get new numbers{case_id}'
    yield f'    "concept:name": {{role: control-flow}}   # the activity{activity}'
    if suggestion.has_times:
        yield f'    "time:timestamp": {{role: timestamp}}   # when an event happened{time}'
    asked = {each.name for each in suggestion.covered}
    for title, natures in _SECTIONS:
        found = [each for each in suggestion.proposals if each.nature in natures]
        if found:
            yield f"    # {title}:"
        for each in found:
            yield from _attribute(each, is_asked=each.name in asked)
            if suggestion.read_off is not None:
                yield from _proposed(each, suggestion.read_off)
    yield '    "*": {treatment: drop}   # whatever else a log may hold'


def _attribute(proposal: Proposal, *, is_asked: bool) -> Iterator[str]:
    name, role = in_quotes(proposal.name), proposal.role
    if not is_asked:
        yield f"    {name}: {{role: {role}, treatment: drop}}   # {proposal.reason}"
        return
    yield f"    {name}:   # {proposal.reason}"
    yield f"      role: {role}"
    match proposal.figures.type:
        case "truth value":
            yield "      domain: [true, false]"
        case "whole number" | "number":
            question = "which two numbers can it not leave? write [least, largest]"
            yield f"      range: {in_quotes(placeholder(question))}"
            if proposal.figures.type == "whole number":
                yield "      type: integer   # else numbers are released with decimals"
        case _:
            question = "which values are there? write [one, another, ...] from its code list"
            yield f"      domain: {in_quotes(placeholder(question))}"
            yield "      # or, in its place, what enough cases have: find_values: true"


def _proposed(proposal: Proposal, found: ReadOff) -> Iterator[str]:
    """A rule that releases the attribute, its values read off the log; as a comment."""
    name, role = proposal.name, proposal.role
    if name in found.bands:
        edges = ", ".join(f"{edge:.12g}" for edge in found.bands[name])
        yield f"    #   or released: {{role: {role}, treatment: generalise, bins: [{edges}]}}"
    elif name in found.domains:
        values = ", ".join(map(in_quotes, found.domains[name]))
        yield f"    #   or released: {{role: {role}, domain: [{values}]}}"
    else:
        return
    yield "    #   (read off the log; confirm it, and list the attribute under 'over' below)"


def _guarantees(suggestion: Suggestion) -> Iterator[str]:
    epsilon = EPSILON[suggestion.audience]
    if suggestion.goal == "k-anonymity":
        yield from _k_anonymity(suggestion)
        return
    over = [CONTROL_FLOW]
    if suggestion.goal == "whole-log-dp":
        over += [TIMESTAMPS] if suggestion.releases_times else []
        over += [in_quotes(each.name) for each in suggestion.covered]
    yield "    - kind: differential-privacy   # the release tells little about any one case"
    yield f"      epsilon: {epsilon}   # less protects more"
    yield f"      delta: {DELTA}   # at most a tenth of 1 / the number of cases"
    yield f"      over: [{', '.join(over)}]"


def _k_anonymity(suggestion: Suggestion) -> Iterator[str]:
    yield "    - kind: k-anonymity"
    k = K[suggestion.audience]
    yield f"      k: {k}   # at least {k} cases share every released activity sequence"
    yield "      over: [control-flow]"
    yield "      scope: variants"
    if suggestion.unit is not None:
        yield "      count: units   # k persons, not k cases of one"
    if suggestion.releases_times:
        yield "    - kind: metric-privacy   # noise hides when a single event was, not whose it was"
        yield "      epsilon: 1.0"
        yield "      shift: 1h"
        yield "      over: [timestamps]"
    elif suggestion.has_times and suggestion.audience == "publish":
        yield "    # No times: who knows some of a case's times can find it among noised ones."


def _facts(suggestion: Suggestion) -> Iterator[str]:
    if suggestion.read_off is not None:
        yield from _facts_read_off(suggestion.read_off)
    if suggestion.goal == "k-anonymity":
        return
    questions = [
        ("alphabet: [...]", "which activities does the system offer?"),
        ("units_at_most: ...", "how many cases are there at most? allows a larger delta"),
    ]
    if suggestion.goal == "whole-log-dp" and suggestion.releases_times:
        window = 'window: {start: "2024-01-01T00:00:00Z", end: "2025-01-01T00:00:00Z"}'
        questions.append((window, "when did cases start?"))
        questions.append(("longest_gap: 90d", "how long may a case wait at most?"))
    yield from (
        "",
        "  # What is public anyway; declaring it keeps more. Never look it up in the log.",
    )
    yield "  # assume:"
    for field, question in questions:
        yield f"  #   {field}   # {question}"


def _facts_read_off(found: ReadOff) -> Iterator[str]:
    if found.longest_case is None:
        return
    yield from ("", "  # Read off the log and rounded up; confirm them before you take them over:")
    yield "  # assume:"
    yield f"  #   longest_case: {found.longest_case}   # events; longer cases are cut"
    if found.longest_gap is not None:
        gap = format_duration(found.longest_gap)
        yield f"  #   longest_gap: {gap}   # between two events of a case"


def _budget(suggestion: Suggestion) -> Iterator[str]:
    if suggestion.goal == "k-anonymity" and not suggestion.releases_times:
        yield "    # k-anonymity draws on no budget; differential privacy of the same data would."
        yield f"    total: {{epsilon: 4.0, delta: {TOTAL_DELTA}}}"
        return
    epsilon = 1.0 if suggestion.goal == "k-anonymity" else EPSILON[suggestion.audience]
    total = f"{{epsilon: {RELEASES * epsilon}, delta: {TOTAL_DELTA}}}"
    yield "    # Once a release is made this binds: a later policy may lower it, never raise it."
    yield f"    total: {total}   # all releases of this dataset together: {RELEASES} like this one"
