"""Made-up logs that nobody would send: empty, hostile, huge, out of order; policies for them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP
from cloakwork.policy.model import Policy

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
NAME = 'size "of" <it> & more'
"""An attribute's name, as a policy has it."""

HOSTILE = (
    "",
    " ",
    "\n\t",
    "\x00",
    "a\x00b",
    "<event>&amp;'\"]]>",
    "a" * 100_000,
    "e\u0301",
    "\u202eabc",
    "\U0001f600" * 50,
    "None",
    "null",
    "nan",
    "END",
    "-0.0",
    "1e999",
    "../../etc/passwd",
    "=1+1",
    "{}",
    "*",
)
NUMBERS = (0.0, -0.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, 2.0**63, 3.5)
TIMES = (
    BEGIN,
    BEGIN + timedelta(days=400),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
)


def policies() -> list[Policy]:
    """One guarantee over whole logs: of all that can be declared, of domains alone, for persons of
    two cases, on a clock of days.
    """
    columns = ["drug", NAME, "case:ward", "case:big"]
    window = {"start": "2024-01-01T00:00:00Z", "end": "2025-01-01T00:00:00Z"}
    everything = {
        "alphabet": ["a", "b", "c"],
        "longest_case": 20,
        "longest_gap": "30d",
        "window": window,
    }
    person = {"attribute": "case:person", "max_cases": 2}
    forms: list[tuple[dict[str, Any], Any]] = [
        (everything, "case"),
        ({}, "case"),
        (everything, person),
        ({**everything, "grid": "1d"}, "case"),
    ]
    return [policy(assume, unit, columns) for assume, unit in forms]


def policy(assume: dict[str, Any], unit: Any, columns: list[str]) -> Policy:
    """A policy over these columns."""
    goal = {
        "kind": "differential-privacy",
        "epsilon": 1.0,
        "delta": 1e-6,
        "over": ["control-flow", "timestamps", *columns],
    }
    spec = {
        "unit": unit,
        "attributes": {
            CASE_ID: {"role": "identifier"},
            ACTIVITY: {"role": "control-flow"},
            TIMESTAMP: {"role": "timestamp"},
            "drug": {"role": "sensitive", "domain": ["x", "y", "", "<z>&"]},
            NAME: {"role": "sensitive", "range": [-10, 10]},
            "case:ward": {"role": "sensitive", "domain": [True, False]},
            "case:big": {"role": "sensitive", "range": [-1e15, 1e15]},
            "*": {"treatment": "drop"},
        },
        "guarantees": [goal],
        "assume": assume,
        "budget": {"total": {"epsilon": 1.0, "delta": 1e-6}},
    }
    named = {"name": "odd", "version": "1.0.0", "owner": "o", "purpose": "p", "dataset": "d"}
    document = {"apiVersion": "cloakwork/v1", "kind": "PrivacyPolicy", "metadata": named}
    return Policy.model_validate(document | {"spec": spec})


def odd_table(rng: Generator) -> pl.DataFrame:
    """One row an event, in no order."""
    cases = int(rng.choice([0, 1, 2, 5, 40]))
    lengths = rng.choice([1, 1, 2, 3, 300], cases, p=[0.4, 0.2, 0.2, 0.19, 0.01])
    case = np.repeat(np.arange(cases), lengths)
    size = len(case)
    table = {
        CASE_ID: pl.Series(_names(rng, cases), dtype=pl.String).gather(case),
        ACTIVITY: _texts(rng, size, ("a", "b", "c", *_some(rng, HOSTILE), "unknown")),
        TIMESTAMP: _times(rng, size),
    }
    kinds = {"drug": ("x", "y"), NAME: None, "extra": HOSTILE, "con\x01trol": None}
    for name, values in kinds.items():
        if rng.random() < 0.7:
            table[name] = _values(rng, size, values)
    for name, values in {"case:ward": ("true", "false"), "case:big": None}.items():
        if rng.random() < 0.7:
            table[name] = _values(rng, cases, values).gather(case)
    if rng.random() < 0.7:
        table["case:person"] = _texts(rng, cases, ("p", "q", "r", "")).gather(case)
    frame = pl.DataFrame(table)
    return frame[rng.permutation(size)] if rng.random() < 0.5 else frame


def _some(rng: Generator, values: tuple[Any, ...]) -> list[Any]:
    return [values[place] for place in rng.integers(0, len(values), int(rng.integers(0, 4)))]


def _names(rng: Generator, cases: int) -> list[str]:
    """Names of cases: numbers, or what else is a text; each once."""
    if rng.random() < 0.5:
        return [str(place) for place in range(cases)]
    return [f"{HOSTILE[place % len(HOSTILE)]}{place}" for place in range(cases)]


def _texts(rng: Generator, size: int, values: tuple[str, ...]) -> pl.Series:
    drawn = rng.integers(0, len(values), size)
    missing = rng.random(size) < rng.choice([0, 0.2, 1], p=[0.7, 0.2, 0.1])
    found = [None if gone else values[place] for place, gone in zip(drawn, missing, strict=True)]
    return pl.Series(found, dtype=pl.String)


def _times(rng: Generator, size: int) -> pl.Series:
    """All alike, missing, anywhere, or as they should be."""
    form = rng.integers(0, 4)
    if form == 0:
        stamps: list[Any] = [TIMES[rng.integers(0, len(TIMES))]] * size
    elif form == 1:
        stamps = [None] * size
    elif form == 2:
        stamps = [[*TIMES, None][place] for place in rng.integers(0, len(TIMES) + 1, size)]
    else:
        stamps = [BEGIN + timedelta(hours=float(hour)) for hour in rng.random(size) * 9000]
    return pl.Series(stamps, dtype=TIME_TYPE)


def _values(rng: Generator, size: int, texts: tuple[str, ...] | None) -> pl.Series:
    """Values of the type that is declared, or of any other, lists among them."""
    form = rng.integers(0, 8)
    if form == 0:
        return _times(rng, size)
    if form == 1:
        return pl.Series([[1, 2]] * size, dtype=pl.List(pl.Int64))
    if form == 2:
        return pl.Series([{"k": "v"}] * size, dtype=pl.Struct({"k": pl.String}))
    if form == 3:
        return pl.Series(rng.integers(-(2**63), 2**63 - 1, size), dtype=pl.Int64)
    if form == 4:
        return pl.Series(rng.random(size) < 0.5, dtype=pl.Boolean)
    if form == 5 or texts is None:
        drawn = rng.choice(NUMBERS, size)
        return pl.Series(drawn, dtype=pl.Float64).fill_nan(None if rng.random() < 0.5 else np.nan)
    return _texts(rng, size, (*texts, *_some(rng, HOSTILE)))
