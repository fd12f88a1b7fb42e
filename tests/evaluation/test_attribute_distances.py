"""Where attributes lost most, by hand."""

from dataclasses import replace

import polars as pl
import pytest

from cloakwork.evaluation.distances import coded
from cloakwork.evaluation.whole_log import attribute_figures
from contracts.sample_logs import log_of


def log_with(sequences, kinds, ages):
    log = log_of(sequences)
    return replace(
        log,
        events=log.events.with_columns(pl.Series("kind", kinds, pl.String)),
        cases=log.cases.with_columns(pl.Series("case:age", ages, pl.Int64)),
    )


def test_the_largest_losses_come_first():
    """An activity weighs as many events as it has; one without the attribute is not there."""
    source = log_with(["aab", "ab"], ["x", "x", "y", "x", "y"], [1, 2])
    release = log_with(["aac", "ab"], ["y", "x", None, "x", "x"], [1, 1])
    columns = [coded(source, release, name, None) for name in ("kind", "case:age")]
    found = attribute_figures(source, release, columns)
    at = [(each.first, each.second, each.distance) for each in found["at_activities"]]
    # At b (two events) y became x; at a (three) one of three.
    assert at == [("kind", "b", 1.0), ("kind", "a", pytest.approx(1 / 3))]
    (table,) = found["pairs_of_attributes"]
    assert {table.first, table.second} == {"kind", "case:age"}
    # (x, 1), (x, 2) against (y, 1), (x, 1).
    assert table.distance == found["two_way_tables"] == 0.5
    same = attribute_figures(source, source, [coded(source, source, "kind", None)])
    assert same["at_activities"] == same["pairs_of_attributes"] == ()
    assert same["two_way_tables"] is None
