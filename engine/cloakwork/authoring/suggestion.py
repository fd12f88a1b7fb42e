"""A policy for a log that nobody has described yet: proposals, with reasons, for its author to
check.
"""

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from cloakwork.authoring.classify import Proposal, classify
from cloakwork.authoring.figures import figures_of
from cloakwork.authoring.read_off import ReadOff, read_off
from cloakwork.base.globs import is_glob
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.log.formats.detect import DetectedInput
from cloakwork.log.formats.options import InputOptions
from cloakwork.policy.attribute_words import PERSON, names_one_of, words_of
from cloakwork.policy.placeholders import NO_PURPOSE

Goal = Literal["k-anonymity", "control-flow-dp", "whole-log-dp"]
Audience = Literal["internal", "share", "publish"]

GOALS: Final[tuple[Goal, ...]] = get_args(Goal)
AUDIENCES: Final[tuple[Audience, ...]] = get_args(Audience)

GOAL_OF: Final[dict[Audience, Goal]] = {
    "internal": "k-anonymity",
    "share": "k-anonymity",
    "publish": "control-flow-dp",
}
"""What is proposed where only the audience is known."""

K: Final[dict[Audience, int]] = {"internal": 5, "share": 10, "publish": 20}

LONGEST_NAME: Final = 200
"""Characters of an attribute's name that a policy may hold."""

NOTHING_DETECTED: Final = DetectedInput(InputOptions())
"""Of a log that names its attributes itself, or lies in memory."""


@dataclass(frozen=True, slots=True)
class PolicyHeader:
    """Who answers for a policy, and what it is for."""

    name: str
    dataset: str
    owner: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposal for a whole log.

    - ``proposals``: of each attribute that a policy can name, in the log's order.
    - ``unnamed``: attributes whose names a policy cannot hold; ``"*"`` drops them.
    - ``has_times``: whether any event has a time.
    - ``releases_times``: whether times are to be released.
    - ``persons``: case attributes that may name a person who has several cases.
    - ``read_off``: values of the log, to be confirmed; None where noise is claimed.
    - ``unit``: the attribute of cases that is protected with all of its cases; None for the case.
    - ``taken``: the columns of the case, the activity and the timestamp, by the attributes' full
      names; empty where the log names them itself.
    - ``options``: how the log is read, for ``spec.input``; ``open_input``: what its file leaves
      open about that, one sentence each; ``time_formats``: how its times may be written, where
      only the author can say.
    """

    header: PolicyHeader
    audience: Audience
    goal: Goal
    proposals: tuple[Proposal, ...]
    unnamed: tuple[str, ...]
    has_times: bool
    releases_times: bool
    persons: tuple[str, ...]
    read_off: ReadOff | None = field(default=None, repr=False)
    unit: str | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    options: InputOptions = field(default_factory=InputOptions)
    open_input: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()

    @property
    def covered(self) -> tuple[Proposal, ...]:
        """The attributes that the guarantee covers, and so releases."""
        if self.goal != "whole-log-dp":
            return ()
        return tuple(each for each in self.proposals if each.may_be_released)

    @property
    def persons_of_events(self) -> tuple[str, ...]:
        """Attributes of events, one value a case, that may name a person who has several cases."""
        return tuple(each.name for each in self.proposals if _is_person_of_events(each))

    @property
    def questions(self) -> int:
        """How many places of the policy only its author can fill in."""
        of_attributes = sum(each.figures.type != "truth value" for each in self.covered)
        return of_attributes + bool(self.time_formats)

    @property
    def text(self) -> str:
        """The policy file, with a comment for every choice."""
        from cloakwork.authoring.policy_file import policy_text

        return policy_text(self)


def suggest(
    log: EventLog,
    header: PolicyHeader,
    audience: Audience = "share",
    goal: Goal | None = None,
    *,
    times: bool = True,
    detected: DetectedInput = NOTHING_DETECTED,
    unit: str | None = None,
) -> Suggestion:
    """Propose a role and a treatment for every attribute of ``log``, and guarantees for
    ``audience``; ``times``: whether times are to be released where they can be; ``detected``: how
    the log was read; ``unit``: the attribute of cases that is to be protected with all of its
    cases.

    It reads the raw log: what it returns is internal, but for what an author keeps of it.
    """
    proposals = tuple(classify(figures) for figures in figures_of(log))
    return suggestion_of(
        log, proposals, header, audience, goal, times=times, detected=detected, unit=unit
    )


def suggestion_of(
    log: EventLog,
    proposals: tuple[Proposal, ...],
    header: PolicyHeader,
    audience: Audience,
    goal: Goal | None,
    *,
    times: bool,
    detected: DetectedInput = NOTHING_DETECTED,
    unit: str | None = None,
) -> Suggestion:
    """As ``suggest``, of attributes that were looked at already."""
    goal = goal or GOAL_OF[audience]
    named = tuple(each for each in proposals if _can_be_named(each.name))
    # Beside k-anonymity, whoever knows some of a case's times finds it among noised ones.
    shares_times = goal == "whole-log-dp" or (goal == "k-anonymity" and audience != "publish")
    has_times = has_time(log)
    releases_times = has_times and times and shares_times
    claims_noise = goal != "k-anonymity" or releases_times
    return Suggestion(
        header=header,
        audience=audience,
        goal=goal,
        proposals=named,
        unnamed=tuple(each.name for each in proposals if not _can_be_named(each.name)),
        has_times=has_times,
        releases_times=releases_times,
        persons=tuple(each.name for each in named if _may_be_a_person(each)),
        read_off=None if claims_noise else read_off(log, named, K[audience]),
        unit=unit,
        taken=detected.columns.taken,
        options=detected.options,
        open_input=detected.questions,
        time_formats=detected.time_formats,
    )


def has_time(log: EventLog) -> bool:
    """Whether any event has a time."""
    times = log.events.get_column(TIMESTAMP, default=None)
    return times is not None and times.null_count() < len(times)


def _can_be_named(name: str) -> bool:
    """A policy reads ``*`` and ``?`` as globs, and these names as columns."""
    is_column = name in ("control-flow", "timestamps", "metadata", "")
    return not is_glob(name) and not is_column and len(name) <= LONGEST_NAME


def _may_be_a_person(proposal: Proposal) -> bool:
    return proposal.figures.of_case and _names_persons(proposal)


def _is_person_of_events(proposal: Proposal) -> bool:
    figures = proposal.figures
    return not figures.of_case and figures.constant_in_case == 1 and _names_persons(proposal)


def _names_persons(proposal: Proposal) -> bool:
    figures = proposal.figures
    return (
        names_one_of(words_of(figures.bare_name), PERSON) and 1 < figures.distinct < figures.cases
    )


def header_of(
    log: Path, out: Path, *, dataset: str | None, owner: str | None, purpose: str | None
) -> PolicyHeader:
    """What is said about the policy, else what the names of the files and of the user say."""
    return PolicyHeader(
        name=as_name(out.name.split(".")[0]),
        dataset=dataset or as_name(log.name.split(".")[0]),
        owner=owner or _user(),
        purpose=purpose or NO_PURPOSE,
    )


def as_name(text: str) -> str:
    """``text`` in the letters that the name of a policy may have."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:100] or "log"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
