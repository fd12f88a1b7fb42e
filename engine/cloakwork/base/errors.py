"""Everything that can go wrong, as one tree.

    CloakworkError
     |- PolicyError           the policy cannot be read as a policy            exit 3
     |- PlanImpossible        no plan gives what the policy asks for           exit 3
     |- PlanMoved             policy, schema or ledger changed since planning  exit 3
     |- NotApproved           the registry does not approve the policy         exit 3
     |- BudgetExceeded        the dataset's budget does not cover the release  exit 4
     |- GuaranteeBroken       a measured guarantee does not hold               exit 5
     |- VerificationFailed    a published release is not what it says          exit 5
     |- LogError              the event log cannot be read as a log            exit 1
     |- MechanismError        a mechanism cannot do what it was asked          exit 1
         |- Infeasible        no release of this log gives what is asked for   exit 3
     |- OutputError           the release cannot be written                    exit 1
     |- MissingExtra          a package is not installed that this needs       exit 1
     |- MissingDevice         what a network is to be trained on is not there  exit 2
     |- LedgerError           the ledger cannot be read, written or trusted    exit 1
    PlanUnsound (AssertionError)   a bug in a mechanism or in us

Errors carry the objects they speak of; ``str(error)`` is what a person reads, one line a problem,
at most ``MOST_LINES`` of them and then a count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

from cloakwork.base.text import printable

MOST_LINES: Final = 50
"""Lines of one error that are printed; what more there is, is counted."""

MOST_CHARACTERS: Final = 300
"""Characters of an error that is quoted inside another line."""


def in_lines(problems: Sequence[object]) -> str:
    """The first ``MOST_LINES`` of ``problems``, one a line, and how many more there are."""
    lines = [str(problem) for problem in problems[:MOST_LINES]]
    more = len(problems) - MOST_LINES
    if more > 0:
        lines.append(f"... and {more:,} more")
    return "\n".join(lines)


def first_line(error: BaseException) -> str:
    """The first line of what ``error`` says, fit for one line of a message: without control
    characters, at most ``MOST_CHARACTERS`` of it.
    """
    said = " ".join(str(error).strip().partition("\n")[0].split())
    # Some errors say nothing but their kind.
    line = "".join(char for char in said if char.isprintable()) or type(error).__name__
    if len(line) <= MOST_CHARACTERS:
        return line
    return line[: MOST_CHARACTERS - 3] + "..."


class CloakworkError(Exception):
    """Anything a user can correct; ``exit_code`` is what the command line returns for it.

    ``beside``: what a command's JSON document says besides the error, where it has anything to say.
    """

    exit_code: ClassVar[int] = 1
    beside: Mapping[str, object] = MappingProxyType({})

    def __reduce__(self) -> tuple[object, ...]:
        # Not by the constructor: kinds take the objects that the text in ``args`` was made of.
        return type(self).__new__, (type(self), *self.args), dict(self.__dict__)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One fault in a file: where it is, what it is, what to do about it.

    ``line`` and ``column`` count from 1; None where the fault has no single place.
    """

    path: str
    message: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        position = (self.path, self.line, self.column)
        place = ":".join(str(each) for each in position if each is not None)
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}: {self.message}{hint}"


class PolicyError(CloakworkError):
    """The policy is not a valid policy; ``problems`` holds every fault found, in file order."""

    exit_code = 3

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(in_lines(self.problems))


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one goal of the policy cannot be met: the goal in plain words, who refused, and why.

    ``where``: the path of what the policy says about it, such as ``("spec", "guarantees", 0)``;
    ``path``, ``line`` and ``column``: where that stands in the policy's file, if it came from one.
    """

    goal: str
    reason: str
    mechanism: str | None = None
    where: tuple[str | int, ...] = ()
    path: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        by = f"{self.mechanism}: " if self.mechanism else ""
        return f"{self.goal}: {by}{self.reason}"


class PlanImpossible(CloakworkError):
    """No composition of the allowed mechanisms gives what the policy asks for."""

    exit_code = 3

    def __init__(self, causes: Sequence[Cause], *, policy: str = "policy") -> None:
        self.causes = tuple(causes)
        places = (
            policy if cause.path is None else f"{cause.path}:{cause.line}:{cause.column}"
            for cause in self.causes
        )
        lines = zip(places, self.causes, strict=True)
        super().__init__(in_lines([f"{place}: cannot be met: {cause}" for place, cause in lines]))


class PlanMoved(CloakworkError):
    """A plan no longer fits the policy, the log's schema or the engine it was made for."""

    exit_code = 3


class NotApproved(CloakworkError):
    """The registry of policies does not approve what was asked for; says whose step is missing."""

    exit_code = 3


CURRENCY_WORDS: Final = {
    "unit": "differential privacy",
    "metric": "metric privacy of a value",
    "local": "local privacy of a value",
}


class BudgetExceeded(CloakworkError):
    """The dataset's budget does not cover the release; carries what was asked, what is left, and
    the largest cost that ``fits`` (None: none does).
    """

    exit_code = 4

    def __init__(
        self,
        dataset: str,
        currency: str,
        requested: tuple[float, float],
        remaining: tuple[float, float],
        *,
        reason: str | None = None,
        unit: str | None = None,
        window: str | None = None,
        fits: tuple[float, float] | None = None,
    ) -> None:
        self.dataset = dataset
        self.fits = fits
        self.window = window
        self.currency = currency
        self.requested = requested
        self.remaining = remaining
        self.reason = reason
        self.unit = unit
        asked, left = _distinguishable(requested, remaining, with_delta=currency == "unit")
        # Whose budget, in words.
        what = CURRENCY_WORDS.get(currency, currency)
        book = what if unit is None else f"{what}, per '{unit}'"
        where = "" if window is None else f", window {window}"
        exhausted = f"budget of dataset '{dataset}'{where} ({book}) is exhausted"
        why = f"; {reason}" if reason else ""
        # What may help, most likely first.
        ways = ["a smaller one of this kind would not fit either"]
        if fits is not None:
            delta = f", delta {fits[1]:g}" if fits[1] else ""
            ways = [f"what would fit is epsilon {fits[0]:g}{delta}"]
        if window is not None:
            ways.append("another window has a budget of its own")
        ways.append(
            "nobody raises a total that was spent from, and the dataset's owner alone one that was "
            f"not: cloakwork dataset declare {dataset} --amend"
        )
        why += "; " + "; ".join(ways)
        rest = f"left are {left}" if remaining[0] else "no epsilon is left"
        super().__init__(f"{exhausted}: this release costs {asked}; {rest}{why}")


class SameCases(CloakworkError):
    """Cases were released as another dataset, whose budget already counts them. ``seen``: what
    tells, read off the raw log: for the owner alone.
    """

    exit_code = 4

    def __init__(
        self,
        dataset: str,
        other: str,
        seen: str,
        *,
        is_declared: bool,
    ) -> None:
        self.dataset = dataset
        self.other = other
        owner = "" if is_declared else " --owner NAME"
        super().__init__(
            f"{seen} (read off the raw log: internal), and nobody has a budget twice: write "
            f"metadata.dataset: {other}; if they are other people, numbered alike, their owner "
            "signs that: "
            f"cloakwork dataset declare {dataset} --distinct-from {other}{owner} --reason WHY"
        )


def _distinguishable(
    requested: tuple[float, float],
    remaining: tuple[float, float],
    *,
    with_delta: bool,
) -> tuple[str, str]:
    """Both costs as people read them; with every digit where six would make them look alike.

    ``with_delta``: whether the currency has one; else it is told where one is asked for.
    """
    two = with_delta or requested[1] > 0
    asked = left = ""
    for digits in ("g", ""):
        if asked == left:
            asked, left = (
                f"epsilon {epsilon:{digits}}" + (f", delta {delta:{digits}}" if two else "")
                for epsilon, delta in (requested, remaining)
            )
    return asked, left


class GuaranteeBroken(CloakworkError):
    """An independent check measured less than the guarantee promises, so no release came into
    being.
    """

    exit_code = 5

    def __init__(self, guarantee: str, observed: str) -> None:
        self.guarantee = guarantee
        self.observed = observed
        super().__init__(f"no release, since on the result {observed}; promised was: {guarantee}")


class VerificationFailed(CloakworkError):
    """A release does not match its own statement; ``mismatches`` lists every difference.

    ``found``: what was verified all the same, where the release is authentic but a guarantee of it
    is void, or it is not the release that was expected; None otherwise.
    """

    exit_code = 5

    def __init__(self, mismatches: Sequence[str], *, found: object | None = None) -> None:
        # What a message quotes may come from a hostile file.
        self.mismatches = tuple(map(printable, mismatches))
        self.found = found
        super().__init__(
            in_lines([f"verification failed: {mismatch}" for mismatch in self.mismatches])
        )


class LogError(CloakworkError):
    """The event log cannot be read as a log; names file, line (from 1) and remedy."""

    def __init__(
        self,
        path: str | Path,
        message: str,
        *,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = FileProblem(
            path=str(path),
            line=line,
            message=message,
            hint=hint,
        )
        super().__init__(str(self.problem))


class UnsaidInput(LogError):
    """A file holds several logs, and which one is meant was not said, or not rightly.

    ``option``: the key of ``spec.input`` that says it. ``choices``: what it can be.
    """

    def __init__(
        self,
        path: str | Path,
        message: str,
        *,
        hint: str,
        option: str,
        choices: Sequence[str],
    ) -> None:
        self.option, self.choices = option, tuple(choices)
        super().__init__(path, message, hint=hint)


class MechanismError(CloakworkError):
    """A mechanism cannot do what it was asked on this log."""

    def __init__(self, mechanism: str, message: str) -> None:
        self.mechanism = mechanism
        super().__init__(f"{mechanism}: {message}")


class Infeasible(MechanismError):
    """No release of this log can give what the policy asks for, such as groups of more cases than
    there are.
    """

    exit_code = 3


class OutputError(CloakworkError):
    """A release or file cannot be written where it was asked for."""


class MissingExtra(CloakworkError):
    """What was asked for needs a package that is not installed; says which extra brings it."""


class MissingDevice(CloakworkError):
    """This machine has no such device to train a network on."""

    exit_code = 2


class LedgerError(CloakworkError):
    """The ledger cannot be opened, read or written, or no longer is what it was; ``url`` without
    its password.
    """

    def __init__(self, url: str, message: str) -> None:
        self.url = url
        super().__init__(f"ledger {url}: {message}")


class PlanUnsound(AssertionError):
    """A plan states a cost or a claim that cannot be derived again: a bug in a mechanism or in
    Cloakwork.
    """
