"""Random policies x random logs x formats: ``verify`` agrees with ``apply``, and the files hold
what is claimed.

What a policy guarantees over cases is measured on the written file by ``independent``, which shares
nothing with the engine. Over units it can be seen there where the unit's attribute is released.
CLOAKWORK_RUNS makes it long, and CLOAKWORK_RELEASES names a file to which every run adds one line
of JSON.
"""

import csv
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
import yaml

from cloakwork.api import apply, load_policy, publish, verify
from cloakwork.errors import CloakworkError
from cloakwork.plan.planner import make_plan
from conftest import runs
from properties import independent

BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)
FORMATS = ("xes", "xes.gz", "csv", "csv.gz", "parquet")
NAMES = (
    *("plain", 'in"ch', "semi;colon", "comma, name", "ünï:cödé", "^time$", "x[1]", "a b"),
    *("tab\tname", "#no", "it's", "=1+1", "null", "42", "<tag>&amp;", "new\nline"),
)
TEXTS = (
    *("a", "b", "", " ", 'say "hi"', "semi;colon", "comma,", "two\nlines", "ünï", "<&>"),
    *("-0.0", "0.0", "007", "7", "NaN", "null", "true", "2024-01-01", "1e5"),
)
LABELS = ("a", "b", "c", 'd "q"', "e;f", "g, h", "ï")


@dataclass
class Made:
    """A random log as rows, and what its attributes are: name to kind, case attributes with
    ``case:`` in front.
    """

    cases: list[tuple[dict[str, Any], list[dict[str, Any]]]]
    kinds: dict[str, str] = field(default_factory=dict)


def values_of(chance: random.Random, kind: str) -> Callable[[], Any]:
    """Draws values of one kind; few different ones, some missing."""
    missing = chance.choice([0, 0, 0.2, 0.7])
    pools: dict[str, list[Any]] = {
        "text": chance.sample(TEXTS, 4),
        "int": [chance.randint(-5, 90) for _ in range(6)],
        "float": [-0.0, 0.0, 1.5, 1e300, -2.25, 40.0],
        "bool": [True, False],
        "date": [BEGIN + timedelta(days=day) for day in range(4)],
        "mixed": [1, "1", 2.5, "x", True],
        "empty": [None],
    }
    return lambda: None if chance.random() < missing else chance.choice(pools[kind])


def random_log(chance: random.Random) -> Made:
    """A few dozen cases of a few variants, with attributes of all kinds."""
    kinds = {}
    for name in chance.sample(NAMES, chance.randint(1, 4)):
        on = chance.choice(["case:", ""])
        kinds[on + name] = chance.choice(
            ["text", "text", "int", "int", "float", "bool", "date", "mixed", "empty"]
        )
    kinds["case:person"] = "text"
    draw = {name: values_of(chance, kind) for name, kind in kinds.items()}
    labels = chance.sample(LABELS, 4)
    paths = [
        tuple(chance.choices(labels, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 5))
    ]
    cases = []
    for number in range(chance.choice([0, 3, 20, 40, 40, 80])):
        own = {name: draw[name]() for name in kinds if name.startswith("case:")}
        own["case:person"] = f"p{chance.randint(0, 1 + number // 2)}"
        begin, events = BEGIN + timedelta(minutes=chance.randint(0, 10_000)), []
        for label in chance.choice(paths):
            begin += timedelta(seconds=chance.choice([0, 1, 60, 3600, 86_400]))
            rest = {name: draw[name]() for name in kinds if not name.startswith("case:")}
            events.append({independent.ACTIVITY: label, independent.TIME: begin, **rest})
        cases.append(({independent.CASE: f"c{number}", **own}, events))
    return Made(cases, kinds)


def written(made: Made, folder: Path, kind: str) -> Path:
    """The log as a file, by writers of our own."""
    import gzip

    file = folder / f"log.{kind}"
    if kind == "parquet":
        _parquet(made, file)
    else:
        text = (_xes(made) if kind.startswith("xes") else _csv(made)).encode()
        file.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    return file


def _rows(made: Made) -> list[dict[str, Any]]:
    return [{**own, **event} for own, events in made.cases for event in events]


def _columns(made: Made) -> list[str]:
    return [independent.CASE, independent.ACTIVITY, independent.TIME, *made.kinds]


def _csv(made: Made) -> str:
    import io

    def cell(value: Any) -> str:
        return (
            value.isoformat()
            if isinstance(value, datetime)
            else ""
            if value is None
            else str(value)
        )

    stream = io.StringIO(newline="")
    table = csv.writer(stream)
    table.writerow(_columns(made))
    table.writerows([cell(row[name]) for name in _columns(made)] for row in _rows(made))
    return stream.getvalue()


def _parquet(made: Made, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, columns = _rows(made), {}
    for name in _columns(made):
        values = [row[name] for row in rows]
        if made.kinds.get(name) == "mixed":
            values = [None if value is None else str(value) for value in values]
        columns[name] = pa.array(
            values, pa.timestamp("us", "UTC") if name == independent.TIME else None
        )
        if not rows and name != independent.TIME:
            columns[name] = pa.array(values, pa.string())
    pq.write_table(pa.table(columns), file)


def _xes(made: Made) -> str:
    def attribute(name: str, value: Any) -> str:
        if value is None:
            return ""
        kinds = {bool: "boolean", int: "int", float: "float", datetime: "date", str: "string"}
        text = (
            value.isoformat()
            if isinstance(value, datetime)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        quoted = (quoteattr(part, {"\n": "&#10;", "\t": "&#9;"}) for part in (name, text))
        return "<{} key={} value={}/>".format(kinds[type(value)], *quoted)

    traces = []
    for own, events in made.cases:
        inside = "".join(
            attribute(name.removeprefix("case:"), value) for name, value in own.items()
        )
        for event in events:
            inside += (
                "<event>"
                + "".join(attribute(name, value) for name, value in event.items())
                + "</event>"
            )
        traces.append(f"<trace>{inside}</trace>")
    return f'<?xml version="1.0" encoding="UTF-8"?><log xes.version="1.0">{"".join(traces)}</log>'


def random_policy(chance: random.Random, made: Made) -> dict[str, Any]:
    """A policy that may or may not be possible; treatments for some attributes, one or two
    guarantees.
    """
    attributes: dict[str, Any] = {
        independent.CASE: {"role": "identifier"},
        independent.ACTIVITY: {"role": "control-flow"},
        "*": {"treatment": "drop"},
    }
    expose: dict[str, str] = {}
    reason = "the partner needs it and is bound by contract"
    kind = chance.choice(["k"] * 5 + ["t", "t", "l", "l", "tlkc", "tlkc", "metric", "dp"])
    if kind == "metric":
        attributes[independent.TIME] = {"role": "timestamp"}
    elif kind != "dp" and chance.random() < 0.3:
        attributes[independent.TIME] = {"role": "timestamp", "treatment": "keep"}
        expose[independent.TIME] = reason
    names = [name for name in made.kinds if name != "case:person"]
    identifiers: list[str] = []
    for name in names if kind != "dp" else ():
        attributes[name] = treatment(chance, made.kinds[name])
        if kind == "k" and chance.random() < 0.4:
            attributes[name] = quasi_identifier(chance, made.kinds[name])
            identifiers.append(name)
        elif attributes[name].get("treatment") != "drop":
            expose[name] = reason
    unit: Any = "case"
    if chance.random() < 0.3:
        unit = {"attribute": "case:person", "max_cases": chance.randint(1, 5)}
        attributes["case:person"] = {"role": "identifier", "treatment": "drop"}
        if kind != "dp" and chance.random() < 0.7:
            attributes["case:person"]["treatment"] = "keep"
            expose["case:person"] = reason
    guarantees = chosen(chance, kind, made, identifiers, unit)
    for goal in guarantees:
        if goal.get("background") == "relative":
            attributes[independent.TIME] = {"role": "timestamp"}
            expose.pop(independent.TIME, None)
        name = goal.get("attribute")
        if name in made.kinds:
            attributes[name] = {"role": "sensitive"}
            expose.pop(name, None)
    return {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {
            "name": "random",
            "version": "1.0.0",
            "owner": "x@example.org",
            "purpose": "a test",
            "dataset": "random",
        },
        "spec": {
            "unit": unit,
            "attributes": attributes,
            "guarantees": guarantees,
            **({"expose": expose} if expose else {}),
            "mechanisms": {"parameters": {"kanon/optimal": {"seconds": 1}}},
            "output": {"format": chance.choice(FORMATS), "report": []},
        },
    }  # fmt: skip


def treatment(chance: random.Random, kind: str) -> dict[str, Any]:
    """What happens to an attribute under no guarantee."""
    chosen = chance.choice(["keep", "keep", "drop", "pseudonymise", "generalise"])
    return {"treatment": chosen, **(groups(chance, kind) if chosen == "generalise" else {})}


def groups(chance: random.Random, kind: str) -> dict[str, Any]:
    """Bins for numbers; a hierarchy, some of whose branches are shallow, for the rest."""
    if kind in ("int", "float"):
        return {"bins": [-10, 0, 10, 20, 50, 100]}
    return {
        "hierarchy": {
            "some": {"few": list(TEXTS[:3]), "more": list(TEXTS[3:9])},
            "others": list(TEXTS[9:]),
        },
        "level": chance.randint(0, 2),
    }


def quasi_identifier(chance: random.Random, kind: str) -> dict[str, Any]:
    """A quasi-identifier, with or without groups."""
    rule = {"role": "quasi-identifier"}
    return {**rule, **groups(chance, kind)} if chance.random() < 0.6 else rule


def chosen(
    chance: random.Random, kind: str, made: Made, identifiers: list[str], unit: Any
) -> list[dict[str, Any]]:
    """The guarantees of a policy."""
    names = [name for name in made.kinds if name != "case:person"]
    k, scope = chance.randint(2, 6), chance.choice(["variants", "prefixes"])
    anonymity = {
        "kind": "k-anonymity",
        "k": k,
        "over": ["control-flow", *identifiers],
        "scope": scope,
    }
    if unit != "case":
        anonymity["count"] = chance.choice(["cases", "units"])
    sensitive = chance.choice(names)
    if kind == "t":
        t = chance.choice([0.1, 0.3, 0.6, 0.9])
        return [
            anonymity,
            {"kind": "t-closeness", "t": t, "attribute": sensitive, "classes": scope},
        ]
    if kind == "l":
        l_goal = {
            "kind": "l-diversity",
            "l": chance.choice([1.5, 2, 3]),
            "attribute": sensitive,
            "classes": scope,
        }
        return [anonymity, {**l_goal, "variety": chance.choice(["distinct", "entropy"])}]
    if kind == "tlkc":
        background = chance.choice(["set", "multiset", "sequence", "relative"])
        goal = {
            "kind": "confidence-bound",
            "L": chance.randint(1, 3),
            "K": k,
            "background": background,
        }
        if background == "relative":
            goal["precision"] = "1h"
        if chance.random() < 0.6:
            goal |= {"C": chance.choice([0.5, 0.8, 1.0]), "attribute": sensitive}
        return [goal]
    if kind == "metric":
        return [
            anonymity,
            {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]},
        ]
    if kind == "dp":
        return [
            {
                "kind": "differential-privacy",
                "epsilon": 2.0,
                "delta": 1e-6,
                "over": ["control-flow"],
            }
        ]
    return [anonymity]


def violations(cases: list[independent.Case], policy: dict[str, Any]) -> list[str]:
    """Which guarantees of the policy the file does not hold, and by how much."""
    found = []
    for goal in policy["spec"]["guarantees"]:
        told = _broken(cases, goal, policy["spec"]["unit"])
        if told:
            found.append(f"{goal['kind']}: {told} ({goal})")
    for _, events in cases:
        times = [event[independent.TIME][1] for event in events if independent.TIME in event]
        if times != sorted(times):
            found.append("times of a case are out of order")
    return found


def _broken(cases: list[independent.Case], goal: dict[str, Any], unit: Any) -> str | None:
    match goal["kind"]:
        case "k-anonymity":
            names = [name for name in goal["over"] if name != "control-flow"]
            least = independent.smallest_class(cases, names, goal["scope"])
            released = any("case:person" in case[0] for case in cases)
            if goal.get("count") == "units" and released:
                least = independent.smallest_class(cases, names, goal["scope"], unit["attribute"])
            return f"k is {least}" if least is not None and least < goal["k"] else None
        case "t-closeness":
            far = independent.farthest(cases, goal["attribute"], goal["classes"])
            return f"t is {far:.4f}" if far > goal["t"] + 1e-6 else None
        case "l-diversity":
            least = independent.least_variety(
                cases, goal["attribute"], goal["classes"], goal["variety"]
            )
            return f"l is {least}" if least < goal["l"] - 1e-9 else None
        case "confidence-bound":
            worst = independent.worst_knowledge(
                cases, goal["L"], goal["background"], goal.get("attribute")
            )
            if worst and (worst[0] < goal["K"] or worst[1] > goal.get("C", 1.0) + 1e-9):
                return f"K is {worst[0]}, C is {worst[1]:.4f}"
    return None


@dataclass
class Outcome:
    """What came of one run: a release, a refusal, or something wrong."""

    seed: int
    source: str
    target: str
    kinds: list[str]
    refused: str = ""
    cases: int = 0
    wrong: list[str] = field(default_factory=list)


def one_run(seed: int, folder: Path) -> Outcome:
    """Make a log and a policy, apply, verify, read back, measure."""
    chance = random.Random(seed)
    made, source = random_log(chance), chance.choice(FORMATS)
    policy = random_policy(chance, made)
    kinds = [goal["kind"] for goal in policy["spec"]["guarantees"]]
    outcome = Outcome(seed, source, policy["spec"]["output"]["format"], kinds)
    if source.startswith("csv") or source == "parquet":
        made.cases = [case for case in made.cases if case[1]]
    log, told = written(made, folder, source), folder / "policy.yaml"
    told.write_text(yaml.safe_dump(policy, sort_keys=False, allow_unicode=True), "utf-8")
    out = folder / "release"
    try:
        release = apply(make_plan(load_policy(told)), log, ledger=f"sqlite:///{folder}/ledger.db")
        publish(release, out)
    except CloakworkError as error:
        outcome.refused = f"{type(error).__name__}: {error}".replace(str(folder), "")
        if type(error).__name__ in ("GuaranteeBroken", "VerificationFailed"):
            outcome.wrong.append(f"apply made what its own check refuses: {error}")
        return outcome
    except Exception as error:
        outcome.wrong.append(f"apply: {type(error).__name__}: {error}"[:300])
        return outcome
    try:
        verify(out)
    except Exception as error:
        outcome.wrong.append(f"verify disagrees: {type(error).__name__}: {error}"[:400])
    try:
        cases = independent.read(next(out.glob("log.*")))
        outcome.cases = len(cases)
        outcome.wrong += violations(cases, policy)
    except Exception as error:
        outcome.wrong.append(f"cannot be read back: {type(error).__name__}: {error}"[:300])
    return outcome


def test_random_releases_hold_what_they_claim(tmp_path: Path) -> None:
    """No disagreement between apply, verify and the independent measurement."""
    wanted = runs(16)
    first = 0 if "CI" in os.environ else random.SystemRandom().randrange(10**9)
    first = int(os.environ.get("CLOAKWORK_FIRST_SEED", first))
    log = os.environ.get("CLOAKWORK_RELEASES")
    outcomes = []
    for seed in range(first, first + wanted):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcomes.append(one_run(seed, folder))
        if log:
            with Path(log).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(outcomes[-1].__dict__) + "\n")
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert not wrong, "\n".join(
        f"seed {outcome.seed} ({outcome.source} to {outcome.target}): {outcome.wrong}"
        for outcome in wrong
    )
    released = sum(not outcome.refused for outcome in outcomes)
    assert released >= wanted // 10, [outcome.refused for outcome in outcomes]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_independent_reader_and_measures_see_a_violation(tmp_path: Path, kind: str) -> None:
    """Two cases of one course and one of another: k is 1, and t, l, K and C are as counted by
    hand.
    """
    rows = [("x", "ab", 1), ("y", "ab", 2), ("z", "a", 2)]
    made = Made(
        [
            (
                {"case:concept:name": name, "case:v": value},
                [{"concept:name": label, "time:timestamp": BEGIN} for label in path],
            )
            for name, path, value in rows
        ],
        {"case:v": "int"},
    )
    cases = independent.read(written(made, tmp_path, kind))
    assert independent.smallest_class(cases, [], "variants") == 1
    assert independent.smallest_class(cases, ["case:v"], "prefixes") == 1
    assert independent.farthest(cases, "case:v", "variants") == pytest.approx(1 / 6)
    assert independent.least_variety(cases, "case:v", "variants", "distinct") == 1
    assert independent.worst_knowledge(cases, 2, "sequence", "case:v") == (2, pytest.approx(2 / 3))
