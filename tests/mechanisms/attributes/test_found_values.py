"""Values that are found in the log through noise, and what is never told."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import EpsilonDelta
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.engines.measured import measured_of, released_cases
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Books, Gaussian, Kernel, vectors_of
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes import params as found_values
from cloakwork.mechanisms.attributes.contributions import UNIT_NORM
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.histogram import AttributesHistogram
from cloakwork.mechanisms.attributes.params import (
    CLIP,
    LONGEST,
    MOST_OF_A_CASE,
    find_values,
    least_sum,
)
from cloakwork.mechanisms.base import PartOfGoal, Refusal
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

MECHANISM = AttributesHistogram()
FACTS = Facts(found={"drug": "text", "case:ward": "integer"})
COLUMNS = tuple(FACTS.found)
DELTA = 1e-6


def log_with(drugs, wards=()):
    """A case for each entry of ``drugs``, which lists the values of its events."""
    log = log_of([["a"] * len(drug) for drug in drugs])
    ward = pl.Series("case:ward", [*wards, *[None] * (len(drugs) - len(wards))], pl.String)
    drug = pl.Series("drug", [value for each in drugs for value in each], pl.String)
    return replace(log, events=log.events.with_columns(drug), cases=log.cases.with_columns(ward))


def seen(log, seed=1):
    return measured_of(CaseRows(tuple(sorted(COLUMNS))).of(log), reproducible(seed))


def params_of(mu=1.0, max_cases=1, delta=DELTA, facts=FACTS):
    facts = facts.model_copy(update={"unit": Unit(max_cases=max_cases)})
    return MECHANISM.offer_part(PartOfGoal(COLUMNS, mu, delta), facts, {}).params


def found(log, name, params, seed=1):
    event = MECHANISM.step(params, FACTS).event
    kernel = Kernel(seen(log), Books.of(event), reproducible(seed), params.max_cases)
    (attribute,) = (each for each in params.attributes if each.name == name)
    selection = params.selection
    return find_values(attribute, kernel, selection.sigma, selection.least).domain


def test_values_of_many_cases_are_found_with_their_type():
    """Of whole numbers as such; what no list holds, or is as long as free text, is not told."""
    long = "x" * (LONGEST + 1)
    drugs = [["b", "b", "a"], [long], ["", "a"], [None, "c" * LONGEST]] * 400
    wards = ["7", "-12", "007", "7.5"] * 400
    params = params_of()
    assert found(log_with(drugs, wards), "drug", params) == ("a", "b", "c" * LONGEST)
    assert found(log_with(drugs, wards), "case:ward", params) == (-12, 7)


def test_the_threshold_keeps_what_one_unit_alone_has():
    """However often it has it; the delta that is charged for this is no more than was given."""
    params = params_of(mu=50.0)
    drugs = [["common"]] * 200 + [["secret"] * 500]
    assert found(log_with(drugs), "drug", params) == ("common",)
    for max_cases, delta in ((1, 1e-6), (3, 1e-9)):
        event = MECHANISM.step(params_of(0.3, max_cases, delta), FACTS).event
        spent = sum(each.delta for each in event.events if isinstance(each, EpsilonDelta))
        assert 0.9 * delta < spent <= delta
        assert cost(event, delta * 1.5).delta <= delta * 1.5


def test_a_threshold_within_one_unit_is_refused():
    """The kernel answers no selection that hides nothing, nor one with a lower threshold than the
    plan charges for.
    """
    params = params_of()
    event = MECHANISM.step(params, FACTS).event
    (attribute,) = (each for each in params.attributes if each.name == "drug")
    for least in (UNIT_NORM // 2, params.selection.least - UNIT_NORM):
        kernel = Kernel(seen(log_with([["a"]])), Books.of(event), reproducible(1), 1)
        with pytest.raises(PlanUnsound):
            find_values(attribute, kernel, params.selection.sigma, least)


def told(least, sigma, runs=40_000):
    """How often a value of one case alone, which has nothing else, reaches ``least``."""
    drawn = Gaussian(sigma).draw(reproducible(3), runs)
    return float((UNIT_NORM + drawn >= least).mean())


def test_a_value_of_one_case_is_told_with_delta_at_most():
    """At a delta that shows: over eight values of a case, each of all its weight, at most; a
    threshold that forgets the case's own weight tells it too often.
    """
    sigma, delta = 2.0 * UNIT_NORM, 0.04
    least = least_sum(sigma, delta, 1)
    assert told(least, sigma) <= delta / MOST_OF_A_CASE * 1.3
    assert told(least - UNIT_NORM, sigma) > delta / MOST_OF_A_CASE * 1.3


def test_a_case_counts_for_norm_one_whatever_it_holds():
    """Its vector follows from it alone, whatever cases lie beside it."""
    drugs = [[f"v{value}" for value in range(size)] for size in (1, 2, 8, 40)] + [[None], ["v1"]]
    query = found_values._values_of("drug", "text")
    cases = seen(log_with(drugs)).cases
    vectors = vectors_of(cases, query, CLIP, "drug")
    norms = np.sqrt(np.bincount(vectors.case, vectors.value.astype(float) ** 2, len(drugs)))
    sizes = np.bincount(vectors.case, minlength=len(drugs))
    assert norms.max() <= UNIT_NORM
    assert sorted(sizes.tolist()) == [0, 1, 1, 2, MOST_OF_A_CASE, MOST_OF_A_CASE]
    for row in range(len(drugs)):
        alone = vectors_of(cases.take(np.array([row])), query, CLIP, "drug")
        of_row = vectors.value[vectors.case == row]
        assert sorted(alone.value.tolist()) == sorted(of_row.tolist())


@pytest.mark.parametrize("drugs", [[], [[None]], [["secret"]]])
def test_where_nothing_is_found_all_is_missing(drugs):
    """An empty log, one case, missing everywhere."""
    released = released_cases(log_of_variants([("a", "a")], np.array([20])), [CONTROL_FLOW])
    params = params_of()
    kernel = Kernel(
        seen(log_with(drugs)), Books.of(MECHANISM.step(params, FACTS).event), reproducible(1), 1
    )
    columns = MECHANISM.enrich(params, kernel, released).columns
    assert columns["drug"].domain == columns["case:ward"].domain == ()
    assert (columns["drug"].codes == -1).all()


def test_without_delta_nothing_can_be_found():
    refused = MECHANISM.offer_part(PartOfGoal(COLUMNS, 1.0, 0.0), FACTS, {})
    assert isinstance(refused, Refusal)
    assert refused.reason == "to find values takes a delta above 0"


def test_the_attribute_that_tells_units_apart_has_no_values():
    """It is never measured: what were drawn would be noise, or persons."""
    facts = FACTS.model_copy(update={"unit": Unit(attribute="case:ward", max_cases=2)})
    refused = MECHANISM.offer_part(PartOfGoal(COLUMNS, 1.0, DELTA), facts, {})
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith("'case:ward' says who is protected")


def test_what_is_declared_is_not_searched_for():
    """And costs what it cost before there was a search."""
    facts = Facts(domains={"drug": ("a",), "case:ward": (1, 2)})
    params = params_of(facts=facts)
    assert params.selection is None
    assert "selection" not in params.model_dump()
    declared = MeasuredAttribute(name="drug", domain=("a",))
    assert find_values(declared, None, 1.0, 1) is declared
