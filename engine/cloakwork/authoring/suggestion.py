"""A suggestion as a policy file, with a comment for every choice.

The text holds names of attributes, which a policy publishes anyway, and no value and no figure of
the log; where no noise is claimed, comments propose some, which say so.

What its author has to check first is which columns of a file were taken as case, activity and time
(``read_unknown``).
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
import polars as pl
from pydantic import ValidationError

from cloakwork.authoring.attributes import (
    LIKE_PEOPLE,
    Proposal,
    ValueType,
    classify,
    figures_of,
    waits_of,
)
from cloakwork.base.errors import LogError
from cloakwork.base.facts import CASE
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import is_glob
from cloakwork.base.naming import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    LIFECYCLE,
    START,
    TIMESTAMP,
)
from cloakwork.base.progress import Reporter
from cloakwork.base.quantities import parse_duration
from cloakwork.base.text import first_fault, first_names, shown, tried_on, words_of
from cloakwork.ledger.account import Balance
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog, read_alike, rows_left_out
from cloakwork.log.formats.detect import DetectedInput, examine_input
from cloakwork.log.formats.options import ROLES, InputOptions, mapped_columns
from cloakwork.log.formats.reading import read_log
from cloakwork.log.formats.source import TABLES, format_of
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.attribute_words import PERSON, names_one_of
from cloakwork.policy.document import did_you_mean, in_quotes
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import NO_OWNER, NO_PURPOSE, placeholder

LONGEST_EXAMPLE: Final = 60  # characters


def read_unknown(
    path: Path,
    columns: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
    options: InputOptions | None = None,
) -> tuple[EventLog, DetectedInput]:
    """The log at ``path``, and how it was read: as its file seems to need it; of a large one a
    random sample of its cases.

    ``columns`` and ``said``: which column holds what, and the other keys of ``spec.input``, where
    the author says it; or both as ``options``. A column of a table with one value on all rows of
    every case is read as an attribute of cases. Raises LogError, also where it is open which column
    or which part of the file is meant.
    """
    # What the author says goes before what the file seems to be.
    detected = examine_input(path, as_said(path, options or InputOptions(), columns, said))
    _refuse_open(path, detected)
    looked = detected.options
    if detected.time_formats:
        # For looking at the attributes either will do; the author says which it is.
        looked = looked.model_copy(update={"time_format": detected.time_formats[0]})
    with told_by_options():
        log = read_log(path, options=looked, sampled=True)
        if (looked.format or format_of(path)) not in TABLES or not (names := _same_in_cases(log)):
            return log, detected
        columns = {**looked.columns, **{CASE_PREFIX + name: name for name in names}}
        options = detected.options.model_copy(update={"columns": columns})
        looked = looked.model_copy(update={"columns": columns})
        log = read_log(path, options=looked, sampled=True)
        return log, replace(detected, options=options)


@contextmanager
def told_by_options() -> Iterator[None]:
    """A log that is read without a policy: the remedies of its faults are options of a command."""
    try:
        yield
    except LogError as error:
        problem = error.problem
        hint = error.problem.hint
        if hint is None or "spec.input" not in hint:
            raise
        valued = r"(encoding|delimiter|\w*format): ('.*?'|\S+) under spec\.input( in the policy)?"
        hint = re.sub(valued, r"--input \1=\2", hint)
        hint = re.sub(r" ?under spec\.input( in the policy)?", " as --input NAME=VALUE", hint)
        hint = hint.replace("spec.input.columns, or --column", "--column")
        hint = hint.replace("spec.input.", "--input ")
        raise LogError(problem.path, problem.message, line=problem.line, hint=hint) from None


def _same_in_cases(log: EventLog) -> list[str]:
    """The attributes of events that have one value in each case, and several in the log."""
    # A case's events stand together.
    is_inside = pl.Series(np.diff(log.case_of, prepend=-1) == 0)
    changes = log.events.select(pl.all().ne_missing(pl.all().shift()))
    return [
        changed.name
        for changed in changes.iter_columns()
        if is_inside.any()
        and changed.name not in (ACTIVITY, TIMESTAMP)
        and CASE_PREFIX + changed.name not in log.cases.columns
        # The first value of all changes from none.
        and changed.sum() > 1
        and not (changed & is_inside).any()
    ]


OPTIONS: Final = {
    name: field.description or ""
    for name, field in InputOptions.model_fields.items()
    if name != "columns"
}
"""What an author may say of reading beside the columns, and what it means."""


def as_said(
    path: Path,
    options: InputOptions,
    columns: Mapping[str, str] | None,
    said: Mapping[str, str] | None,
) -> InputOptions:
    """``options``, and what the author says beside them; LogError for what is none of reading."""
    try:
        own = mapped_columns(columns or {})
        kept = options.model_dump(exclude={"columns"})
        return InputOptions(**kept | dict(said or {}), columns=options.columns | own)
    except ValidationError as error:
        name, says = first_fault(error)
        raise LogError(path, f"cannot be read with {name}: {says}") from None
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None


def _refuse_open(path: Path, detected: DetectedInput) -> None:
    """Refuse a file that cannot be read before its author says more, and say how."""
    for answer in detected.unanswered:
        value = next(iter(answer.candidates), "COLUMN")
        # The name goes into a command: neither a long one, nor one that a terminal would obey.
        if not value.isprintable() or len(value) > LONGEST_EXAMPLE:
            value = "COLUMN" if answer.is_column else "VALUE"
        option = "--column" if answer.is_column else "--input"
        said = f"{answer.name}={value}"
        options = f"{answer.name}={value!r}"
        in_python = f"options=InputOptions({options})"
        if answer.is_column:
            in_python = f"columns={ {answer.name: value} }"
        hint = f"say it, as {option} {shlex.quote(said)} (in Python: {in_python})"
        raise LogError(path, answer.question, hint=hint)


def named_unit(path: Path, unit: str | None) -> tuple[str | None, dict[str, str]]:
    """The attribute of cases that the author names as the protected unit, and the column that is
    to be read as it, where the file is a table.
    """
    if unit is None:
        return None, {}
    full = unit if unit.startswith(CASE_PREFIX) else CASE_PREFIX + unit
    is_column = full != unit and format_of(path) in TABLES
    return full, {full: unit} if is_column else {}


def require_unit(path: Path, log: EventLog, attribute: str | None) -> None:
    """Refuse a log without the attribute of cases that is to be the unit."""
    if attribute is None or attribute in log.cases.columns:
        return
    own = [name for name in log.cases.columns if name != CASE_ID]
    listed = first_names(own) or "none"
    raise LogError(
        path,
        f"the cases have no attribute '{shown(attribute)}'; they have {listed}",
        hint="name one of these as --unit",
    )


_IN_WORDS: Final = {"case": "the case", "activity": "the activity", "timestamp": "the event time"}


def taken_columns(detected: DetectedInput, *, has_times: bool = True) -> dict[str, str]:
    """By the words case, activity and timestamp what each is read from: a column of a table, else
    the standard attribute, or the type of objects that become cases.
    """
    found = {role: detected.taken.get(full, full) for role, full in ROLES.items()}
    if detected.options.object_type is not None:
        found["case"] = detected.options.object_type
    if not has_times:
        del found["timestamp"]
    return found


def taken_in_words(detected: DetectedInput, *, has_times: bool = True) -> str:
    """The same as one line.

    >>> taken_in_words(DetectedInput(InputOptions(), taken={"case:concept:name": "Fall"}))
    "Taken as the case: 'Fall'; the activity: 'concept:name'; the event time: 'time:timestamp'"
    """
    found = taken_columns(detected, has_times=has_times)
    takings = [f"{_IN_WORDS[role]}: '{shown(name)}'" for role, name in found.items()]
    if detected.options.object_type is not None:
        # The case stands first.
        takings[0] = f"the case: each object of type '{shown(found['case'])}'"
    return f"Taken as {'; '.join(takings)}"


if TYPE_CHECKING:
    from jinja2 import Template

Goal = Literal["k-anonymity", "control-flow-dp", "whole-log-dp"]
Audience = Literal["internal", "share", "publish"]
Times = Literal["drawn", "noised", "none"]
"""``drawn``: anew, through noisy tables of all cases; ``noised``: each with noise on itself."""

GOALS: Final[tuple[Goal, ...]] = get_args(Goal)
AUDIENCES: Final[tuple[Audience, ...]] = get_args(Audience)
TIMES: Final[tuple[Times, ...]] = get_args(Times)

GOAL_OF: Final[dict[Audience, Goal]] = {
    "internal": "k-anonymity",
    "share": "k-anonymity",
    "publish": "whole-log-dp",
}
"""What is proposed where only the audience is known: it follows from that alone, and from nothing
in the log, so no choice has to be accounted for.
"""

K: Final[dict[Audience, int]] = {"internal": 5, "share": 12, "publish": 20}
"""For recipients outside 1/k lies below ``THRESHOLD``."""

THRESHOLD: Final[dict[Audience, float]] = {"internal": 0.2, "share": 0.09, "publish": 0.05}
"""The largest share of cases that may be found by what somebody knows. For recipients outside .09,
as the European Medicines Agency (guidance on Policy 0070, 2016) and Health Canada (guidance on
Public Release of Clinical Information, 2019) take it.
"""

Knowledge = Literal["nothing", "events", "records"]
Harm = Literal["little", "some", "grave"]
KNOWLEDGE: Final[tuple[Knowledge, ...]] = get_args(Knowledge)
HARMS: Final[tuple[Harm, ...]] = get_args(Harm)

STRICTEST: Final[Audience] = "publish"

SHIFTS: Final = ("1m", "5m", "15m", "30m", "1h", "2h", "4h", "8h", "1d", "2d")
WAITS_OF_A_SHIFT: Final = 6
"""A shift is at most so small a part of the median wait; noise at epsilon 1 then moves it by a
quarter.
"""


@frozen
class Circumstances:
    """What decides how strictly a release is protected, beside who receives it.

    ``recipients``: who, in words. ``contract``: whether one forbids them to look for people and to
    pass it on. ``knowledge``: what else they hold: nothing of these people, some events and times
    of single ones, or records of the same people. ``harm``: what being found would do to somebody.
    ``activities``: those that are publicly known, if all are.
    """

    recipients: str | None = None
    contract: bool = True
    knowledge: Knowledge = "events"
    harm: Harm = "some"
    activities: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why k and the threshold are those of a publication, whoever receives it."""
        said = {
            "no contract binds who receives it": not self.contract,
            "records of the same people are at hand": self.knowledge == "records",
            "whoever is found is gravely harmed": self.harm == "grave",
        }
        return tuple(reason for reason, holds in said.items() if holds)

    def strictness(self, audience: Audience) -> Audience:
        """The audience whose k and threshold hold."""
        return STRICTEST if self.reasons else audience

    def goal(self, audience: Audience, times: Times) -> Goal:
        """What is proposed; it follows from the answers alone, and from nothing in the log."""
        is_flow_alone = self.activities and times == "none"
        return "control-flow-dp" if is_flow_alone else GOAL_OF[audience]


LONGEST_NAME: Final = 200
"""Characters of an attribute's name that a policy may hold."""

NOTHING_DETECTED: Final = DetectedInput(InputOptions())
"""Of a log that names its attributes itself, or lies in memory."""


@frozen
class PolicyHeader:
    """Who answers for a policy, and what it is for."""

    name: str
    dataset: str
    owner: str
    purpose: str


@frozen
class Suggestion:
    """A proposal for a whole log.

    - ``proposals``: of each attribute that a policy can name, in the log's order.
    - ``unnamed``: attributes whose names a policy cannot hold; ``"*"`` drops them.
    - ``has_times``: whether any event has a time.
    - ``times``: how times are released; ``shift``: within which distance noise on single ones
      hides them.
    - ``persons``: case attributes that may name a person who has several cases.
    - ``unit``: the attribute of cases that is protected with all of its cases; None for the case.
    - ``detected``: how the log is read, for ``spec.input``, and what its file leaves open about
      that.
    - ``log``: what was looked at; ``sample``: as of the log.
    - ``values``: which values attributes can have, as answered: the fields of their rules;
      empty for one that is left out.
    - ``standing``: the budget of the dataset's units, where the ledger holds one.
    - ``instead_of``: the form that was proposed, where another one was taken after reading figures
      of the log. ``confirmed_by``: who says that what was read off the log is publicly known.
    """

    header: PolicyHeader
    audience: Audience
    goal: Goal
    proposals: tuple[Proposal, ...]
    unnamed: tuple[str, ...]
    has_times: bool
    times: Times
    persons: tuple[str, ...]
    unit: str | None = None
    detected: DetectedInput = NOTHING_DETECTED
    shift: str = "1h"
    instead_of: str | None = None
    confirmed_by: str | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)
    values: Mapping[str, str] = field(default_factory=dict)
    log: EventLog | None = field(default=None, repr=False, compare=False)
    sample: str = ""
    standing: Balance | None = None

    def known_to(self, ledger: Ledger) -> "Suggestion":
        """The suggestion with the budget that its dataset has already."""
        books = ledger.remaining(self.header.dataset)
        return replace(self, standing=books.get(self.unit or CASE))

    def taking(self, form: str) -> "Suggestion":
        """The suggestion with another form, taken after reading figures of the log."""
        goal = next(each for each in GOALS if each == form.removesuffix("-noised-times"))
        times: Times = "noised" if form.endswith("-noised-times") else "drawn"
        if goal == "control-flow-dp" or not self.has_times:
            times = "none"
        return replace(self, goal=goal, times=times, instead_of=self.form)

    @property
    def follows_from_answers(self) -> bool:
        """Whether the answers alone decided on the form: no other guarantee was asked for."""
        return self.goal == self.circumstances.goal(self.audience, self.times)

    @property
    def form(self) -> str:
        """What the form of release is called on the command line."""
        return f"{self.goal}-noised-times" if self.times == "noised" else self.goal

    @property
    def read_off(self) -> tuple[str, ...]:
        """What was found in the log, and stands in the policy, in words."""
        options = self.detected.options
        said = sorted(options.model_dump(exclude={"columns"}))
        found = [f"how its file is read ({', '.join(said)})"] if said else []
        if options.columns:
            found.append("which columns are case, activity and time, and which are of cases")
        if self.proposals:
            found.append("the roles and types of attributes")
        if self.goal == "k-anonymity" and self.times == "noised":
            found.append("how far noise moves a time")
        if self.is_large:
            found.append("that it has more than 50,000 cases")
        return tuple(found)

    @property
    def is_large(self) -> bool:
        """Whether the log has so many cases that tables err less, and the release shows that."""
        is_shown = (self.goal, self.times, self.unit) == ("k-anonymity", "drawn", None)
        return is_shown and self.log is not None and self.log.cases.height > 50_000

    @property
    def covered(self) -> tuple[Proposal, ...]:
        """The attributes that the guarantee covers, and so releases: truth values, as both are
        known, and those that were answered for.
        """
        return tuple(each for each in self._releasable if self._is_known(each))

    @property
    def asked(self) -> tuple[Proposal, ...]:
        """The attributes that could be released once somebody says which values there are."""
        return tuple(each for each in self._releasable if not self._is_known(each))

    def _is_known(self, proposal: Proposal) -> bool:
        return proposal.figures.type == "truth value" or proposal.name in self.values

    @property
    def k(self) -> int:
        """How many cases share every activity sequence, where k-anonymity is proposed."""
        return K[self.circumstances.strictness(self.audience)]

    @property
    def threshold(self) -> float:
        """The largest share of cases that may be found."""
        return THRESHOLD[self.circumstances.strictness(self.audience)]

    @property
    def epsilon(self) -> float:
        """The budget of a release under differential privacy."""
        halved = self.circumstances.harm == "grave"
        return EPSILON[self.audience] / (2 if halved else 1)

    @property
    def _releasable(self) -> tuple[Proposal, ...]:
        # Drawn beside drawn times, or with whole cases.
        draws = self.goal == "whole-log-dp" or (
            self.goal == "k-anonymity" and self.times == "drawn"
        )
        wanted = (each for each in self.proposals if self.values.get(each.name) != "")
        return tuple(each for each in wanted if draws and each.may_be_released)

    @property
    def persons_of_events(self) -> tuple[str, ...]:
        """Attributes of events, one value a case, that may name a person who has several cases."""
        return tuple(
            each.name
            for each in self.proposals
            if not each.figures.of_case
            and each.figures.constant_in_case == 1
            and _names_persons(each)
        )

    @property
    def questions(self) -> int:
        """How many places of the policy have to be filled in before it is valid."""
        return int(bool(self.detected.time_formats))

    @property
    def columns(self) -> dict[str, str]:
        """What the case, the activity and the time were read from."""
        return taken_columns(self.detected, has_times=self.has_times)

    @property
    def columns_in_words(self) -> str:
        """The same as one line."""
        return taken_in_words(self.detected, has_times=self.has_times)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the author has to know, or to do; names in it are the log's own."""
        return tuple(_notes_on(self))

    @property
    def text(self) -> str:
        """The policy file, with a comment for every choice."""
        return policy_text(self)


_FEW_CASES: Final = 100
"""Below so many, noise leaves little of durations and waits."""

_STATES: Final = frozenset({"start", "complete"})
"""What events of an interval log are, by their lifecycle."""


def _notes_on(found: Suggestion) -> Iterator[str]:
    if found.sample:
        yield tried_on(found.sample)
    if found.log is not None:
        yield from rows_left_out(found.log)
        yield from (note for note in found.log.notes if note.startswith("events without"))
        draws = found.has_times and (found.goal, found.times) == ("k-anonymity", "drawn")
        if draws and found.log.case_count < _FEW_CASES:
            yield f"of fewer than {_FEW_CASES} cases drawn times keep little: --times none"
        for name in (CASE_ID, *found.persons):
            yield from read_alike(found.log.cases, name)
        if START in found.log.events.columns:
            yield f"--input starts={START} keeps how long work took, in place of when it began"
        for name, values in found.log.events.to_dict().items():
            if values.dtype == pl.String and {*values.unique().str.to_lowercase()} >= _STATES:
                both = f"--input starts={LIFECYCLE} makes one event of both, "
                yield (
                    f"{both if name == LIFECYCLE else ''}--input activity_with={shown(name)} tells "
                    "the start of a step from its end: else both are events of one name (docs: "
                    "logs of intervals)"
                )
    if found.header.purpose == NO_PURPOSE:
        yield "metadata.purpose is not stated; --purpose says what the release is for"
    if found.header.owner == NO_OWNER:
        yield "metadata.owner is not stated; --owner says who answers for the policy"
    is_open = found.unit is None
    if found.persons and is_open:
        names = ", ".join(found.persons)
        yield f"one person may have several cases, by {names}: --unit protects it"
    if found.persons_of_events and is_open:
        names = ", ".join(found.persons_of_events)
        yield (
            f"one person may have several cases, by {names}: only an attribute of cases can be the "
            "unit, so each case is protected by itself"
        )
    yield from found.detected.questions
    if found.questions:
        yield "the file holds a question in <...> that you answer before it is valid"
    if found.unnamed:
        names = ", ".join(found.unnamed)
        yield f"a policy cannot name {names}: dropped with all that is not listed"


BESIDE: Final[dict[Audience, tuple[tuple[Goal, Times], ...]]] = {
    "internal": (("k-anonymity", "drawn"), ("whole-log-dp", "drawn")),
    "share": (("k-anonymity", "drawn"), ("k-anonymity", "noised"), ("whole-log-dp", "drawn")),
    "publish": (("whole-log-dp", "drawn"), ("control-flow-dp", "none")),
}
"""The forms that each audience may want."""


def forms_beside(proposed: Suggestion) -> dict[str, Policy]:
    """The proposed form, and the others that its audience may want, by name: each a policy."""
    found = {proposed.form: proposed}
    for goal, times in BESIDE[proposed.audience]:
        other = replace(proposed, goal=goal, times=times if proposed.has_times else "none")
        found.setdefault(other.form, other)
    # How dates are written may still be asked; the log at hand was read already.
    detected = replace(proposed.detected, time_formats=())
    # Whether the dataset's total pays is for the ledger to say, which tells what would fit.
    texts = {
        name: policy_text(replace(each, detected=detected, standing=None))
        for name, each in found.items()
    }
    return {name: parse_policy(text) for name, text in texts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRequest:
    """What an author says of a log for which a policy is to be proposed.

    ``out``: the policy's file. ``header``: dataset, owner and purpose, None for what is not said.
    ``columns``: which column holds what; ``said``: the other keys of ``spec.input``. ``unit``: the
    attribute of cases, or the column of a table, that is protected with all of its cases.
    """

    log: Path
    out: Path
    header: Mapping[str, str | None]
    audience: Audience = "share"
    goal: Goal | None = None
    times: Times = "drawn"
    columns: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)
    values: Mapping[str, str] = field(default_factory=dict)

    def suggestion(self, reporter: Reporter) -> Suggestion:
        """Read the log, and propose. Raises LogError for what cannot be read as it is said."""
        attribute, mapped = named_unit(self.log, self.unit)
        read, detected = read_unknown(self.log, {**self.columns, **mapped}, self.said)
        require_unit(self.log, read, attribute)
        reporter("looking at its attributes")
        found = suggest(
            read,
            header_of(self.log, self.out, **self.header),
            self.audience,
            self.goal or self.circumstances.goal(self.audience, self.times),
            times=self.times,
            detected=detected,
            unit=attribute,
        )
        names = [each.name for each in found.proposals]
        for name in self.values:
            if name not in names:
                guess = did_you_mean(name, names)
                raise LogError(self.log, f"has no attribute '{name}', which is answered for{guess}")
        return replace(found, circumstances=self.circumstances, values=self.values)


def suggest(
    log: EventLog,
    header: PolicyHeader,
    audience: Audience = "share",
    goal: Goal | None = None,
    *,
    times: Times = "drawn",
    detected: DetectedInput = NOTHING_DETECTED,
    unit: str | None = None,
    proposals: tuple[Proposal, ...] | None = None,
) -> Suggestion:
    """Propose a role and a treatment for every attribute of ``log``, and guarantees for
    ``audience``; ``times``: how they are to be released where there are some; ``detected``: how the
    log was read; ``unit``: the attribute of cases that is to be protected with all of its
    cases.

    ``proposals``: of all attributes, where they were looked at already. It reads the raw log: what
    it returns is internal, but for what an author keeps of it.
    """
    if proposals is None:
        proposals = tuple(classify(figures) for figures in figures_of(log))
    goal = goal or Circumstances().goal(audience, times)
    named = tuple(each for each in proposals if _can_be_named(each.name))
    has_times = has_time(log)
    if goal == "control-flow-dp" or not has_times:
        times = "none"
    elif goal == "whole-log-dp" and times == "noised":
        times = "drawn"
    return Suggestion(
        header=header,
        audience=audience,
        goal=goal,
        proposals=named,
        unnamed=tuple(each.name for each in proposals if not _can_be_named(each.name)),
        has_times=has_times,
        times=times,
        persons=tuple(each.name for each in named if each.figures.of_case and _names_persons(each)),
        unit=unit,
        detected=detected,
        shift=proposed_shift(log),
        log=log,
        sample=log.sample,
    )


def proposed_shift(log: EventLog) -> str:
    """Within which distance noise may hide the time of an event and leave most waits of ``log``
    (``SHIFTS``); an hour where it has none.
    """
    waits = waits_of(log)
    if not len(waits):
        return "1h"
    most = timedelta(hours=float(np.median(waits)) / WAITS_OF_A_SHIFT)
    fitting = [each for each in SHIFTS if parse_duration(each) <= most]
    return fitting[-1] if fitting else SHIFTS[0]


def has_time(log: EventLog) -> bool:
    """Whether any event has a time."""
    times = log.events.get_column(TIMESTAMP, default=None)
    return times is not None and times.null_count() < len(times)


def _can_be_named(name: str) -> bool:
    """A policy reads ``*`` and ``?`` as globs, and these names as columns."""
    is_column = name in ("control-flow", "timestamps", "metadata", "")
    return not is_glob(name) and not is_column and len(name) <= LONGEST_NAME


def _names_persons(proposal: Proposal) -> bool:
    figures = proposal.figures
    is_named = names_one_of(words_of(figures.bare_name), PERSON)
    is_person = is_named or (proposal.role == "identifier" and figures.like_people >= LIKE_PEOPLE)
    # Fewer values than cases: somebody has more than one.
    return is_person and 1 < figures.distinct < figures.cases


def header_of(
    log: Path, out: Path, *, dataset: str | None, owner: str | None, purpose: str | None
) -> PolicyHeader:
    """What is said about the policy, else what the names of the files say. A policy is published,
    and so never names the user of this machine.
    """
    return PolicyHeader(
        name=as_name(out.name.split(".")[0]),
        dataset=dataset or as_name(log.name.split(".")[0]),
        owner=owner or NO_OWNER,
        purpose=purpose or NO_PURPOSE,
    )


def as_name(text: str) -> str:
    """``text`` in the letters that the name of a policy may have."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:100] or "log"


EPSILON: Final[dict[Audience, float]] = {"internal": 4.0, "share": 2.0, "publish": 1.0}
READERS: Final[dict[Audience, str]] = {
    "internal": "colleagues inside the organisation",
    "share": "a partner under contract",
    "publish": "the public",
}

ASKED: Final[dict[ValueType, str]] = {
    "text": "which values are there?",
    "time": "between which days does it lie?",
    "number": "which two numbers can it not leave?",
    "whole number": "which two whole numbers can it not leave?",
    "truth value": "is it true or false?",
}
"""What has to be known of an attribute before it can be released."""


def policy_text(suggestion: Suggestion) -> str:
    """The policy file: valid as it stands but for questions in ``<...>``, which only its author can
    answer.
    """
    return _template().render(
        s=suggestion,
        readers=READERS[suggestion.audience],
        asked={each.name: ASKED[each.figures.type] for each in suggestion.asked},
        covered={
            each.name: suggestion.values.get(each.name, "domain: [true, false]")
            for each in suggestion.covered
        },
        roles={full: role for role, full in ROLES.items()},
        question=placeholder,
        today=datetime.now(UTC).date(),
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cloakwork.authoring"),
        autoescape=False,  # noqa: S701 - YAML, whose texts are quoted one by one
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"quoted": in_quotes, "shown": shown}
    return environment.get_template("policy.yaml")
