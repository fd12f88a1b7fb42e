"""Pairs of files that differ in one unit, released with the same answers: what the claim does not
let through must not show in any public byte, nor in a name, a size, the exit code or a message.

A pair or two of some policies; with ``CLOAKWORK_RUNS=200`` so many of each policy on each engine.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from cloakwork.cli import main
from cloakwork.engines.base import part_bounds
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy
from cloakwork.plan.sentences import assumptions_in_words
from cloakwork.publishing import publish
from conftest import SHARED, in_long_form, runs
from counterexamples.frozen_answers import FrozenAnswers, Parts, applied
from counterexamples.neighbours import WRITERS, Case, Facts, case_of, neighbour, usual_cases
from spark_session import missing, spark_session

ROOT = Path(__file__).resolve().parents[2]
SHORT = 2
PAIRS = runs(SHORT)

IN_SHORT_FORM = (
    ("dp-control-flow", "memory"),
    ("dp-per-person", "local"),
    ("flow-with-drawn-times", "memory"),
    ("kanon-dp-timestamps", "local"),
    ("kanon-employees", "memory"),
)
ON_SPARK = ("dp-control-flow", "dp-per-person", "kanon-control-flow")
"""Noise on single times is drawn in Spark's own processes, where nothing is frozen."""


def all_policies() -> dict[str, Path]:
    """The shipped ones, and the contract's where they are."""
    shipped = {path.stem: path for path in sorted((ROOT / "policies").glob("*.yaml"))}
    folder = SHARED / "contract" / "policies"
    return shipped | {f"contract/{path.stem}": path for path in sorted(folder.glob("*.yaml"))}


POLICIES = all_policies()
HOLDS = in_long_form(*((name, on) for name in POLICIES for on in ("memory", "local")))


@dataclass
class Pairs:
    """Files for a policy, and what the public gets of them."""

    policy: Path
    engine: str
    folder: Path
    run: Callable[[list[str]], int] = main
    frozen: dict[str, FrozenAnswers] = field(default_factory=dict)
    usual: dict[str, Parts] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        self.facts = Facts.of(self.policy)
        (self.folder / "searches").mkdir(parents=True)

    def released(self, cases: list[Case], written: str, distance: int = 1) -> Parts:
        """Of these cases in a file of this format."""
        self.runs += 1
        log = self.folder / f"{self.runs}.{written}"
        WRITERS[written](cases, log)
        frozen = self.frozen.setdefault(written, FrozenAnswers())
        frozen.distance = distance
        options = ["--engine", self.engine, *(["--json"] if written == "xes" else [])]
        made = self.folder / f"made{self.runs}"
        searches = self.folder / "searches"
        return applied(self.policy, log, made, frozen, *options, searches=searches, run=self.run)

    def before(self, written: str) -> Parts:
        """Of the usual cases; the answers are recorded once, and given ever after."""
        if written not in self.usual:
            cases = usual_cases(self.facts)
            self.released(cases, written)
            self.usual[written] = self.released(cases, written)
        return self.usual[written]

    def differing(self, numbers: range) -> list[str]:
        """Which pairs differ in public, and in what."""
        formats = ["parquet"] if self.engine == "spark" else list(WRITERS)
        found = []
        for number in numbers:
            written = formats[number % len(formats) if PAIRS > SHORT else 0]
            before = self.before(written)
            cases, distance = neighbour(self.facts, number)
            after = self.released(cases, written, distance)
            found += [
                f"{number} ({written}): {part}: {before.get(part, b'')[-300:]!r} and "
                f"{after.get(part, b'')[-300:]!r}"
                for part in sorted({*before, *after})
                if before.get(part) != after.get(part)
            ]
        return found


def check(pairs: Pairs) -> None:
    """No pair differs, and there is something that could."""
    assert not pairs.differing(range(PAIRS))
    for made in pairs.usual.values():
        is_refused = "refused" in pairs.policy.stem
        assert made["exit code"] == (b"3" if is_refused else b"0"), made["standard error"]
        logs = [size for name, size in made.items() if name.startswith("log.")]
        assert is_refused or sum(map(len, logs)) > 1000
    print(f"{PAIRS} pairs of {pairs.policy.stem} on {pairs.engine}")


@pytest.mark.parametrize(("policy", "engine"), HOLDS or IN_SHORT_FORM)
def test_neighbours_look_alike(policy: str, engine: str, tmp_path: Path) -> None:
    check(Pairs(POLICIES[policy], engine, tmp_path / "pairs"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that ``apply`` finds."""
    if reason := missing():
        pytest.skip(reason)
    with spark_session(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="minutes: CLOAKWORK_RUNS=1")
@pytest.mark.parametrize("policy", ON_SPARK)
@pytest.mark.usefixtures("spark")
def test_neighbours_look_alike_on_spark(policy: str, tmp_path: Path) -> None:
    check(Pairs(POLICIES[policy], "spark", tmp_path / "pairs"))


# --- twins


def rows_of(words: list[str]) -> int:
    """How many rows the raw log of a command has."""
    return Path(words[2]).read_text("utf-8").count("\n")


def a_part_by_the_raw_count(words: list[str]) -> int:
    by_count = partial(part_bounds, part_events=300 + 40 * (rows_of(words) % 5))
    with patch.object(publish, "part_bounds", by_count):
        return main(words)


def an_exit_code_by_one_case(words: list[str]) -> int:
    return 1 if "\nnew," in Path(words[2]).read_text("utf-8") else main(words)


def a_message_with_a_count(words: list[str]) -> int:
    print(f"{rows_of(words)} rows", file=sys.stderr)
    return main(words)


def a_file_by_the_raw_count(words: list[str]) -> int:
    code = main(words)
    Path("release", f"part-{rows_of(words)}.csv").touch()
    return code


@pytest.mark.parametrize(
    ("twin", "part"),
    [
        (a_part_by_the_raw_count, "log.csv/part-00001.csv"),
        (an_exit_code_by_one_case, "exit code"),
        (a_message_with_a_count, "standard error"),
        (a_file_by_the_raw_count, "part-"),
    ],
)
def test_what_tells_neighbours_apart_is_found(
    twin: Callable[[list[str]], int], part: str, tmp_path: Path
) -> None:
    pairs = Pairs(POLICIES["dp-control-flow"], "memory", tmp_path / "pairs", twin)
    before = pairs.before("csv")
    cases = usual_cases(pairs.facts)
    # Two rows more than everybody else's, of somebody who is new.
    cases.insert(7, case_of(pairs.facts, "ad", 7))
    cases[7].id = "new"
    after = pairs.released(cases, "csv")
    differing = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    assert any(name.startswith(part) for name in differing)


def test_values_that_are_kept_tell_neighbours_apart(tmp_path: Path) -> None:
    """The same comparison where they are released."""
    document = yaml.safe_load(POLICIES["kanon-control-flow"].read_text("utf-8"))
    spec = document["spec"]
    spec["attributes"] = {"department": {"role": "sensitive", "treatment": "keep"}} | spec[
        "attributes"
    ]
    spec["expose"] = {"department": "a twin that must fail"}
    kept = tmp_path / "kept.yaml"
    kept.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    pairs = Pairs(kept, "memory", tmp_path / "pairs")
    before = pairs.before("csv")
    cases = usual_cases(pairs.facts)
    cases[3].events[0]["department"] = "of nobody else"
    assert pairs.released(cases, "csv") != before


# --- a unit that an attribute names


def patients(tmp_path: Path, engine: str) -> tuple[Pairs, list[Case]]:
    pairs = Pairs(POLICIES["dp-per-person"], engine, tmp_path / "pairs")
    return pairs, usual_cases(pairs.facts)


@pytest.mark.parametrize("engine", ["memory", "local"])
@pytest.mark.parametrize("written", ["csv", "xes"])
def test_a_case_that_names_nobody_is_released(engine: str, written: str, tmp_path: Path) -> None:
    """Under differential privacy it is a unit of its own."""
    pairs, cases = patients(tmp_path, engine)
    del cases[5].attributes["case:patient"]
    assert pairs.released(cases, written)["exit code"] == b"0"


@pytest.mark.parametrize("engine", ["memory", "local"])
def test_a_case_that_names_two_is_refused_and_the_claim_says_so(
    engine: str, tmp_path: Path
) -> None:
    """Whose rows would bring somebody else's, is outside of what is claimed."""
    pairs, cases = patients(tmp_path, engine)
    cases[5].attributes["case:patient"] = "p2"
    for event in cases[5].events[1:]:
        event["case:patient"] = "somebody else"
    made = pairs.released(cases, "csv")
    assert made["exit code"] == b"1" and not any(name.startswith("log") for name in made)
    assert b"names two values of 'case:patient'" in made["standard error"]
    said = " ".join(assumptions_in_words(make_plan(load_policy(pairs.policy)).claims[0]))
    assert "a file in which a case names two is refused, whoever is in it" in said
