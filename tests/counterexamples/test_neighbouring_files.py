"""Pairs of files that differ in one case, released with the same noise: what the claim does not let
through must not show in any public byte, nor in the exit code.
"""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from cloakwork.cli import main
from conftest import in_long_form, runs
from frozen import cells
from frozen.cells import PolicyCell, Texts

ROOT = cells.ROOT

Case = list[list[str]]

COLUMNS = ("concept:name", "time:timestamp", "cost", "department", "case:age", "case:patient")

ODD = (
    "",
    "n/a",
    "=1+1",
    "\u202e\U0001f600",
    "NaN",
    "1e308",
    '"',
    "a,b\nc",
    "0001-01-01",
    " ",
    "-0.0",
)

VARIANTS = ("abcd", "abd", "acd", "abbd", "ad", "abcbd")

BEGIN = datetime(2024, 1, 1, 8, tzinfo=UTC)


def case_of(labels: str, place: int, hours: int = 0) -> Case:
    """The rows of one case, without its id."""
    start = BEGIN + timedelta(hours=5 * place + hours)
    return [
        [label, f"{start + timedelta(minutes=17 * at):%FT%TZ}", "10", "Ward A", "20", f"p{place}"]
        for at, label in enumerate(labels)
    ]


def usual_cases() -> list[Case]:
    """So many that frequent sequences pass every threshold."""
    return [case_of(VARIANTS[place * place % 17 % len(VARIANTS)], place) for place in range(600)]


def with_odd_values(draw: Random) -> list[Case]:
    """Other values of what is not released: wrong types, none, the only ones, odd characters."""
    cases = usual_cases()
    for row in draw.choice(cases):
        row[2:5] = [draw.choice(ODD) for _ in range(3)]
    return cases


def with_other_times(draw: Random) -> list[Case]:
    """All times of a case moved, in the same order; also years before and after the others."""
    cases = usual_cases()
    place = draw.randrange(len(cases))
    labels = "".join(row[0] for row in cases[place])
    cases[place] = case_of(labels, place, draw.choice([-200_000, -3, 1, 500, 90_000]))
    return cases


def with_another_case(draw: Random) -> list[Case]:
    """A case less, or one more: the longest, of labels that nobody else has, of odd values, or at
    the same time as another.
    """
    cases = usual_cases()
    if draw.random() < 0.3:
        del cases[draw.randrange(len(cases))]
        return cases
    added = case_of(draw.choice(["x", "abcd" * 40, "ab", "dcba"]), draw.randrange(80))
    for row in added:
        row[2:5] = [draw.choice(ODD) for _ in range(3)]
        row[0] = draw.choice([row[0], row[0], "\u202e,\n", "0"])
    cases.insert(draw.randrange(len(cases)), added)
    return cases


def released(policy: str, cases: list[Case], folder: Path) -> Texts:
    """What is public of a release of these cases, or of its refusal."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["case:concept:name", *COLUMNS])
    for place, rows in enumerate(cases):
        table.writerows([f"c{place}", *row] for row in rows)
    folder.mkdir()
    log = folder / "log.csv"
    log.write_text(text.getvalue(), "utf-8")
    searches = folder / "searches"
    searches.mkdir()
    return PolicyCell(ROOT / "policies" / f"{policy}.yaml", log).texts(folder / "run", searches)


def without_times(texts: Texts) -> Texts:
    return {
        name: re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\S*?(?=,|\n)", "", text)
        for name, text in texts.items()
    }


def claims_alone(texts: Texts) -> Texts:
    """All but the rows, of which every figure is noisy."""
    assert "rows" in texts
    return {name: text for name, text in texts.items() if name != "rows"}


SHORT, LONG = 2, 200

PAIRS = {
    # What else the case holds that is neither released nor measured: all is the same.
    "other values": (with_odd_values, lambda texts: texts),
    # Given the order of events: all but the times themselves.
    "other times": (with_other_times, without_times),
    # Whether it is there at all: the plan, the claims, and that there is a release.
    "another case": (with_another_case, claims_alone),
}

HOLDS = [
    ("dp-control-flow", "other values"),
    ("dp-control-flow", "another case"),
    ("kanon-control-flow", "other values"),
    ("kanon-dp-timestamps", "other times"),
    ("flow-with-drawn-times", "other times"),
    *in_long_form(
        ("dp-per-person", "other values"),
        ("dp-per-person", "another case"),
        ("dp-guessing-advantage", "another case"),
        ("dp-whole-log", "another case"),
        ("kanon-dp-timestamps", "other values"),
        ("flow-with-drawn-times", "other values"),
        ("kanon-case-dp-timestamps", "other times"),
    ),
]


def differing(policy: str, pair: str, folder: Path, pairs: int) -> list[tuple[int, str]]:
    """The seeds of pairs that differ in public, and by which part of the release."""
    make, look = PAIRS[pair]
    before = look(released(policy, usual_cases(), folder / "before"))
    found = []
    for seed in range(pairs):
        after = look(released(policy, make(Random(seed)), folder / f"after-{seed}"))
        found += [(seed, part) for part in {*before, *after} if before.get(part) != after.get(part)]
    return found


@pytest.mark.parametrize(("policy", "pair"), HOLDS)
def test_neighbours_look_alike(policy: str, pair: str, tmp_path: Path) -> None:
    pairs = LONG if runs(SHORT) > SHORT else SHORT
    assert differing(policy, pair, tmp_path, pairs) == []


def test_a_release_of_what_is_kept_tells_neighbours_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparison where the values are released."""
    (tmp_path / "policies").mkdir()
    text = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    text = text.replace(
        '    "*":', '    "department": {role: sensitive, treatment: keep}\n    "*":'
    )
    text = text.replace(
        "  mechanisms:", "  expose: {department: a twin that must fail}\n  mechanisms:"
    )
    (tmp_path / "policies" / "kept.yaml").write_text(text, "utf-8")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert differing("kept", "other values", tmp_path, SHORT)


def test_an_engine_that_stops_at_a_case_tells_neighbours_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(arguments: list[str]) -> int:
        rows = Path(arguments[2]).read_text("utf-8").count("\n")
        return main(arguments) if rows == 1 + sum(map(len, usual_cases())) else 1

    monkeypatch.setattr(cells, "main", stops)
    with pytest.raises(AssertionError):
        differing("dp-control-flow", "another case", tmp_path, SHORT)
