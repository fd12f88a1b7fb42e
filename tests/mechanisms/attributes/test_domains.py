"""How values of a log meet a declared domain or range."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.engines.measured import measured_of
from cloakwork.kernel import Column
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.steps import Listed, Numbers
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

NAME = "case:x"


def codes_of(values, **declared):
    """The codes of ``values``, in their order."""
    rows = [["a"] * (place + 1) for place in range(len(values))]
    log = log_of(rows)
    log = replace(log, cases=log.cases.with_columns(pl.Series(NAME, values)))
    cases = measured_of(CaseRows((NAME,)).of(log), reproducible(1)).cases
    attribute = MeasuredAttribute(name=NAME, **declared)
    return attribute.codes(cases.columns[NAME])[np.argsort(cases.lengths)].tolist()


@pytest.mark.parametrize(
    ("values", "domain", "codes"),
    [
        (["x", "y", "X", None, ""], ("x", "y"), [0, 1, -1, -1, -1]),
        ([5, 10, 7], (5, 10), [0, 1, -1]),
        ([5.0, 10.5, 7.0], (5, 10.5), [0, 1, -1]),
        (["5", "5.0", "x", "1e1"], (5, 10), [0, 0, -1, 1]),
        ([True, False, None], (True, False), [0, 1, -1]),
        (["true", "True", "FALSE", "yes"], (True, False), [0, 0, 1, -1]),
        ([True, False], ("False", "True"), [1, 0]),
        (["007", "7", "8"], ("7", "007"), [1, 0, -1]),
        ([1, 0], (True, False), [-1, -1]),
        ([1, 2], (), [-1, -1]),
        ([1, None], (None,), [-1, -1]),
        (["\x000", "0"], (7, 0), [-1, 1]),
    ],
)
def test_values_are_found_in_the_domain(values, domain, codes):
    assert codes_of(values, domain=domain) == codes


@pytest.mark.parametrize("domain", [("1", "2", "x"), (1, 2), (1.0, 2.0, "x")])
def test_a_value_is_found_whatever_type_others_give_its_column(domain):
    """1 is found beside 2, beside 1.5 and beside a text."""
    for others in ([2, 2], [1.5, 2.0], ["y", "2"]):
        values = [type(others[0])(1), *others]
        assert codes_of(values, domain=domain)[0] == 0
    assert codes_of(["1", "2", "y"], domain=domain)[:2] == [0, 1]


def test_numbers_outside_of_the_range_are_held_there():
    held = codes_of([-5.0, 0.0, 100.0, 1e9, None], range=(0.0, 100.0))
    assert held == [0, 0, held[3], held[3], -1]
    assert codes_of(["x", "nan", "inf", "3"], range=(0.0, 100.0))[:3] == [-1, -1, -1]


def test_released_values_are_of_the_declared_kind():
    codes = np.array([0, -1, 1])
    chance = np.array([0, 5, 9])
    listed = MeasuredAttribute(name="x", domain=(True, False)).released(codes, chance)
    assert isinstance(listed, Listed)
    assert listed.domain == (True, False)
    numbers = MeasuredAttribute(name="x", range=(0.0, 9.0)).released(codes, chance)
    assert isinstance(numbers, Numbers)
    assert np.isnan(numbers.values).tolist() == [False, True, False]


def test_what_tells_values_apart():
    """Two numbers of one bin are two values."""
    column = Column(np.array([1.2, 1.3]), np.zeros(2, np.bool_), np.full(2, -1))
    ranged = MeasuredAttribute(name="x", range=(0.0, 1000.0))
    codes = ranged.codes(column)
    assert codes[0] == codes[1]
    assert len(set(ranged.exact(column, codes).tolist())) == 2
