"""Which column of an unknown table holds the case, which the activity, which the time: a guess from
what they are called and from what they hold, for the author of a policy to check.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP, values_of
from cloakwork.base.text import shown
from cloakwork.log.formats import column_words
from cloakwork.log.formats.column_names import common_column
from cloakwork.log.formats.column_words import names, words
from cloakwork.log.formats.judge_times import judge_times, time_columns

LEAST: Final = 3
"""Points from which on a column is taken."""

MOST_ACTIVITIES: Final = 500

_WORDS: Final = {CASE_ID: "case", ACTIVITY: "activity", TIMESTAMP: "timestamp"}


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """What a file's author has to say before it can be read.

    - ``name``: of the option, or of the role of a column (``is_column``).
    - ``question``: what is open, without a remedy; ``candidates``: what it could be.
    """

    name: str
    question: str
    candidates: tuple[str, ...] = ()
    is_column: bool = False


@dataclass(frozen=True, slots=True)
class GuessedColumns:
    """Columns by the full names of what they hold.

    - ``taken``: of the case, the activity and the timestamp, as far as found or said.
    - ``to_name``: those of ``taken`` that readers do not find by themselves.
    - ``questions``: what its author has to check or say, one sentence each.
    - ``unanswered``: the roles that no column was taken for.
    """

    taken: dict[str, str] = field(default_factory=dict)
    to_name: dict[str, str] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    unanswered: tuple[OpenAnswer, ...] = ()


class _Search:
    """Columns of one table that are still free, and what was found."""

    def __init__(self, header: Sequence[str], table: pl.DataFrame, said: Mapping[str, str]) -> None:
        self.header, self.table = header, table
        self.taken = {full: said[full] for full in _WORDS if full in said}
        self.others = {column for full, column in said.items() if full not in _WORDS}
        self.times = set(time_columns(header, table))
        self.unanswered: list[OpenAnswer] = []
        self.questions: list[str] = []

    def free(self) -> list[str]:
        gone = self.others | set(self.taken.values())
        return [name for name in self.header if name in self.table.columns and name not in gone]

    def find(self, full: str, points_of: Callable[[str], int]) -> None:
        """The column with most points, none of times."""
        known = common_column(full, self.free())
        if full in self.taken:
            return
        if known is not None:
            self.taken[full] = known
            return
        points = {name: points_of(name) for name in self.free() if name not in self.times}
        ranked = sorted(points, key=lambda name: -points[name])
        role = _WORDS[full]
        if not ranked or points[ranked[0]] < LEAST:
            possible = tuple(name for name in ranked[:3] if points[name] > 0)
            self.leave_open(role, f"no column seems to hold the {role}", possible)
            return
        self.taken[full] = ranked[0]
        if points[ranked[0]] < 2 * LEAST:
            self.questions.append(f"column '{shown(ranked[0])}' is taken for the {role}: check it")

    def find_time(self) -> None:
        if TIMESTAMP in self.taken:
            return
        if TIMESTAMP in self.header:
            self.taken[TIMESTAMP] = TIMESTAMP
            return
        found = [name for name in self.free() if name in self.times]
        case_id = self.taken.get(CASE_ID)
        judged = judge_times(self.table, found, case_id if case_id in self.table.columns else None)
        if judged.column is None:
            self.leave_open(_WORDS[TIMESTAMP], judged.question, judged.candidates)
            return
        self.taken[TIMESTAMP] = judged.column
        if judged.question:
            self.questions.append(judged.question)

    def leave_open(self, role: str, question: str, candidates: tuple[str, ...]) -> None:
        self.unanswered.append(OpenAnswer(role, question, candidates, is_column=True))
        self.questions.append(f"{question}: name it under columns")


def guess_columns(
    header: Sequence[str], table: pl.DataFrame, said: Mapping[str, str] | None = None
) -> GuessedColumns:
    """What the columns of ``table``, its first rows, seem to hold; ``said``: columns by full names,
    as the author says.
    """
    said = said or {}
    search = _Search(header, table, said)
    search.find(CASE_ID, lambda name: _points_as_case(name, values_of(table, name)))
    search.find_time()
    case_id = search.taken.get(CASE_ID)
    cases = values_of(table, case_id) if case_id in table.columns else None
    search.find(ACTIVITY, lambda name: _points_as_activity(name, values_of(table, name), cases))
    taken = {full: search.taken[full] for full in _WORDS if full in search.taken}
    to_name = {
        full: column
        for full, column in taken.items()
        if full not in said and common_column(full, header) != column
    }
    return GuessedColumns(taken, to_name, tuple(search.questions), tuple(search.unanswered))


def _points_as_case(name: str, values: pl.Series) -> int:
    distinct, rows = values.n_unique(), len(values)
    if values.null_count() or distinct in (0, rows):
        return 0
    named = words(name)
    is_numbered = any(word in column_words.NUMBERED for word in named)
    points = 4 * names(named, column_words.CASE) + 2 * is_numbered
    points -= 3 * names(named, column_words.PEOPLE)
    if distinct == 1:  # a log of one case, or a column that says nothing
        return points - 1
    with_digits = values.cast(pl.String).str.contains(r"\d").mean()
    points += with_digits is not None and float(with_digits) > 0.9  # type: ignore[arg-type]
    return points + (2 <= rows / distinct <= 100)


def _points_as_activity(name: str, values: pl.Series, cases: pl.Series | None) -> int:
    """Steps of a case mostly differ and follow each other; clerks and departments come again."""
    distinct = values.n_unique()
    if values.dtype != pl.String or not 2 <= distinct <= min(MOST_ACTIVITIES, len(values) // 2 + 1):
        return 0
    named = words(name)
    is_named = names(named, column_words.ACTIVITY)
    others = [word for word in named if not (is_named and word in column_words.NAME)]
    points = 5 * is_named - 6 * names(others, column_words.PEOPLE)
    points -= 3 * any(word in column_words.NUMBERED for word in named)
    if cases is None:
        return points
    pairs = pl.DataFrame({"case": cases, "value": values}).drop_nulls()
    in_case = pairs.group_by("case").agg(
        pl.col("value").n_unique().alias("found"), pl.len().alias("events")
    )
    several = in_case.filter(pl.col("events") > 1)
    varied = (several["found"] / several["events"]).mean()
    if varied is None or float(varied) <= 0.8:  # type: ignore[arg-type]
        return points
    return points + 2 + 2 * (_share_foretold(pairs) > 0.3)


def _share_foretold(pairs: pl.DataFrame) -> float:
    """How many wrong guesses at a value knowing the one before it in its case saves, as a share
    (Goodman and Kruskal's lambda, 1954); at most 1.
    """
    next_ones = pairs.with_columns(pl.col("value").shift(1).over("case").alias("before"))
    steps = next_ones.drop_nulls().group_by("before", "value").len()
    total = int(steps["len"].sum())
    if not total:
        return 0.0
    often = steps.group_by("before").agg(pl.col("len").max().alias("most"))
    by_last = float(often.filter(pl.col("most") > 1)["most"].sum()) / total
    alone = steps.group_by("value").agg(pl.col("len").sum())["len"].to_list()
    by_none = max(alone) / total
    return (by_last - by_none) / (1 - by_none) if by_none < 1 else 0.0
