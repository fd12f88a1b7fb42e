"""A2: an attribute's name is its name, in every format and under every treatment, however it is
spelt.

Names such as ``^time:timestamp$`` and ``*`` mean "the column of times" and "every column" to the
library that holds the tables. With the first, a policy that drops the times released them all,
exact.
"""

import os
from itertools import product
from pathlib import Path

import polars as pl
import pytest
import yaml

import cloakwork
from cloakwork.errors import CloakworkError

OF_EVENTS = [
    *("^time:timestamp$", "*", "^.*$", "^concept:.*$", "a$b", "^", "$", "?"),
    *("variant", "unit", "cases", "row", "case", "symbol", "values", "value"),
    *("index", "literal", "len"),
]
TIMES = [
    f"2024-03-{day:02d}T1{day % 7}:{31 + day:02d}:{17 + day:02d}.123000+00:00"
    for day in range(1, 13)
]


def document(
    attributes: dict[str, object], guarantees: list[dict[str, object]], **spec: object
) -> dict[str, object]:
    return {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {
            "name": "names",
            "version": "1.0.0",
            "owner": "o@o.org",
            "purpose": "test",
            "dataset": "names",
        },
        "spec": {
            "attributes": {
                "case:concept:name": {"role": "identifier"},
                "concept:name": {"role": "control-flow"},
                **attributes,
            },
            "guarantees": guarantees,
            "mechanisms": {"parameters": {"kanon/optimal": {"seconds": 1}}},
            **spec,
        },
    }


K2 = {"kind": "k-anonymity", "k": 2, "over": ["control-flow"], "scope": "variants"}


def rows(attributes: dict[str, list[str]]) -> pl.DataFrame:
    """Six cases of two events, all alike but for the times and the attributes in question."""
    return pl.DataFrame(
        {
            "case:concept:name": [f"c{place // 2}" for place in range(12)],
            "concept:name": ["a", "b"] * 6,
            "time:timestamp": TIMES,
            **attributes,
        }
    )


def written(frame: pl.DataFrame, kind: str, folder: Path) -> Path:
    """``frame`` as a file of one of the formats, made without the engine."""
    path = folder / f"log.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    elif kind == "parquet":
        frame.with_columns(pl.col("time:timestamp").str.to_datetime(time_zone="UTC")).write_parquet(
            path
        )
    else:
        path.write_text(xes(frame), "utf-8")
    return path


def xes(frame: pl.DataFrame) -> str:
    def attribute(kind: str, key: str, value: object) -> str:
        return f'<{kind} key="{key}" value="{value}"/>'

    traces = []
    for (case,), events in frame.group_by("case:concept:name", maintain_order=True):
        inside = [attribute("string", "concept:name", case)]
        of_case = [
            name
            for name in frame.columns
            if name.startswith("case:") and name != "case:concept:name"
        ]
        inside += [
            attribute("string", name.removeprefix("case:"), events[name][0]) for name in of_case
        ]
        for event in events.drop("case:concept:name").to_dicts():
            said = [
                attribute("date" if key == "time:timestamp" else "string", key, value)
                for key, value in event.items()
                if not key.startswith("case:")
            ]
            inside.append(f"<event>{''.join(said)}</event>")
        traces.append(f"<trace>{''.join(inside)}</trace>")
    return f'<?xml version="1.0"?><log>{"".join(traces)}</log>'


def released(
    frame: pl.DataFrame, kind: str, policy: dict[str, object], folder: Path
) -> cloakwork.EventLog:
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy), "utf-8")
    loaded = cloakwork.load_policy(file)
    plan = cloakwork.make_plan(loaded, loaded.facts())
    log = (
        cloakwork.EventLog.from_polars(frame) if kind == "memory" else written(frame, kind, folder)
    )
    return cloakwork.apply(plan, log, ledger=f"sqlite:///{folder / 'ledger.db'}").log


def everything(log: cloakwork.EventLog) -> str:
    return str(log.to_polars().to_dicts())


FORMATS = ["xes", "csv", "parquet", "memory"]


def in_some_formats(names: list[str]) -> list[tuple[str, str]]:
    """Each name in one format, and each format with a name: what reads a name is not what treats
    it, and ``test_what_the_policy_drops_is_not_released`` reads every name in every format.
    """
    if "CLOAKWORK_RUNS" in os.environ:
        return list(product(names, FORMATS))
    return [(name, FORMATS[place % 4]) for place, name in enumerate(names)]


@pytest.mark.parametrize("kind", FORMATS)
def test_what_the_policy_drops_is_not_released(kind: str, tmp_path: Path) -> None:
    """``"*": keep`` with ``time:timestamp: drop``: no time comes out, and each attribute of these
    names holds its own values.
    """
    own = {name: [f"{name} {place}" for place in range(12)] for name in OF_EVENTS}
    policy = document(
        {"time:timestamp": {"role": "timestamp", "treatment": "drop"}, "*": {"treatment": "keep"}},
        [K2],
        expose={"*": "what this test is about"},
    )
    out = released(rows(own), kind, policy, tmp_path)
    assert "2024" not in everything(out)
    assert set(out.events.columns) == {"concept:name", *OF_EVENTS}
    for name, values in own.items():
        assert sorted(out.events[name]) == sorted(values)


TREATED = {
    "drop": ({"treatment": "drop"}, None),
    "keep": ({"treatment": "keep"}, {"x", "y", "z"}),
    "generalise": (
        {"treatment": "generalise", "hierarchy": {"early": ["x", "y"], "late": ["z"]}},
        {"early", "late"},
    ),
}


@pytest.mark.parametrize(
    ("name", "kind"), in_some_formats(["^time:timestamp$", "case:^case:.*$", "^.*$"])
)
@pytest.mark.parametrize("treatment", TREATED)
def test_each_treatment_is_of_that_attribute(
    name: str, treatment: str, kind: str, tmp_path: Path
) -> None:
    """Dropped, kept, generalised: that column and no other; the times stay as they are."""
    rule, expected = TREATED[treatment]
    values = [value for value in "xyzxyz" for _ in "ab"]
    reason = {"timestamps": "what this test is about", name: "what this test is about"}
    policy = document(
        {"time:timestamp": {"role": "timestamp", "treatment": "keep"}, name: rule},
        [K2],
        expose=reason,
    )
    if expected is None:
        del reason[name]
    out = released(rows({name: values}), kind, policy, tmp_path)
    table = out.cases if name.startswith("case:") else out.events
    assert (set(table[name]) if expected else name not in table.columns) == (expected or True)
    assert out.events["time:timestamp"].null_count() == 0
    assert sorted(out.events["concept:name"]) == ["a"] * 6 + ["b"] * 6


@pytest.mark.parametrize(
    ("name", "kind"), in_some_formats(["^time:timestamp$", "*", "case:*", "case:^.*$", "^.*$"])
)
def test_pseudonyms_are_of_that_attribute(name: str, kind: str, tmp_path: Path) -> None:
    """As many pseudonyms as values, and nothing of the values left."""
    values = [f"raw-{value}" for value in "xyzxyz" for _ in "ab"]
    # In a policy ``*`` and ``?`` are globs: what is asked for here is any attribute, and there is
    # one besides.
    policy = document(
        {
            "time:timestamp": {"role": "timestamp", "treatment": "drop"},
            name: {"treatment": "pseudonymise"},
        },
        [K2],
        expose={name: "what this test is about"},
    )
    out = released(rows({name: values}), kind, policy, tmp_path)
    table = out.cases if name.startswith("case:") else out.events
    assert table[name].n_unique() == 3
    assert "raw-" not in everything(out)
    assert "2024" not in everything(out)


@pytest.mark.parametrize(
    ("name", "kind"),
    in_some_formats(
        [
            *("^time:timestamp$", "^.+$", "case:^.+$"),
            *("case:variant", "variant", "cases", "unit", "symbol"),
        ]
    ),
)
def test_a_quasi_identifier_is_that_attribute(name: str, kind: str, tmp_path: Path) -> None:
    """Values that are alone become coarser; the group counts that attribute, whatever a table of
    ours calls its own.
    """
    values = [value for value in "xxxxyz" for _ in "ab"]
    rule = {"role": "quasi-identifier", "hierarchy": {"early": ["x"], "late": ["y", "z"]}}
    policy = document({name: rule}, [{**K2, "over": ["control-flow", name]}])
    out = released(rows({name: values}), kind, policy, tmp_path)
    table = out.cases if name.startswith("case:") else out.events
    each = 1 if name.startswith("case:") else 2
    assert sorted(table[name]) == ["early"] * 4 * each + ["late"] * 2 * each


@pytest.mark.parametrize(
    ("name", "kind"),
    in_some_formats(
        ["case:^case:.+$", "case:$", "case:^.+$", "case:unit", "case:row", "case:cases"]
    ),
)
def test_a_unit_is_that_attribute(name: str, kind: str, tmp_path: Path) -> None:
    """Six cases of three persons are three units: two of them can be had, four cannot."""
    values = [value for value in "ppqqrr" for _ in "ab"]
    unit = {"attribute": name, "max_cases": 2}
    goal, rule = {**K2, "count": "units"}, {name: {"role": "identifier", "treatment": "drop"}}
    out = released(
        rows({name: values}), kind, document(rule, [{**goal, "k": 3}], unit=unit), tmp_path
    )
    assert out.cases.height == 6
    with pytest.raises(CloakworkError):
        released(
            rows({name: values}), kind, document(rule, [{**goal, "k": 4}], unit=unit), tmp_path
        )


SENSITIVE = {
    "l": {"kind": "l-diversity", "l": 2},
    "t": {"kind": "t-closeness", "t": 0.5, "distance": "emd"},
    "C": {"kind": "confidence-bound", "L": 1, "K": 2, "C": 0.5, "background": "sequence"},
}


@pytest.mark.parametrize(
    ("name", "kind"),
    in_some_formats(["^time:timestamp$", "^.+$", "case:^.+$", "case", "variant", "values"]),
)
@pytest.mark.parametrize("claim", SENSITIVE)
def test_a_sensitive_attribute_is_that_attribute(
    name: str, claim: str, kind: str, tmp_path: Path
) -> None:
    """Three values, each held by two of the six cases: what is promised of them holds, and is
    measured on them.
    """
    values = [value for value in "xyzxyz" for _ in "ab"]
    goals = [{**SENSITIVE[claim], "attribute": name}]
    policy = document(
        {
            "time:timestamp": {"role": "timestamp", "treatment": "drop"},
            name: {"role": "sensitive", "treatment": "keep"},
        },
        goals if claim == "C" else [K2, *goals],
    )
    out = released(rows({name: values}), kind, policy, tmp_path)
    table = out.cases if name.startswith("case:") else out.events
    assert set(table[name]) == {"x", "y", "z"}
    assert "2024" not in everything(out)
