"""Statistical audits of variants/libra on its worst neighbours, and of broken counterparts that
must fail.

A variant selected in both logs (a unit more or less in each sample), and one that a single unit
follows. Draws are seeded: what is found is found in every run.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, half_lines
from cloakwork.noise import Noise, reproducible
from cloakwork_extras.libra import LibraParams, VariantLibra
from measuring import release
from privacy.sources import offered, seeded_audit

LIBRA = VariantLibra()
RUNS, OTHERS = 2_000, 120
"""Half the noise proves an epsilon of 1.4 where 1 is claimed; a sample of everybody, which shows
least, 1.1.
"""
EPSILON, DELTA = 1.0, 1e-2
FIXED = [HalfLine(1, upper=True), HalfLine(0, upper=False)]
SELECTED = [HalfLine(OTHERS + 1, upper=True), HalfLine(OTHERS, upper=False)]


def params_of(max_cases: int = 1, rate: float = 0.5) -> LibraParams:
    """What is offered for one sample; the test of relevance is off, so that every noisy count
    shows.
    """
    facts = Facts(unit=Unit(attribute="case:person", max_cases=max_cases))
    options = {"rho": 1, "selection_share": 0.1, "rate": rate, "samples": 1}
    found: LibraParams = offered("variants/libra", EPSILON, DELTA, facts, **options)
    return found


def estimates(
    own: int, params: LibraParams, runs: int, others: int, noise: Noise
) -> NDArray[np.int64]:
    """Released counts of ``runs`` variants, each with ``own`` cases of one person and ``others``
    units of one case.

    0 where it is not released. No unit follows two of the variants, so they are as many independent
    runs.
    """
    variant = [[str(run)] for run in range(runs)]
    person = pl.DataFrame(
        {
            "variant": variant,
            "cases": [own] * runs,
            "unit": [[f"person {run}"] for run in range(runs)],
            "cases_of_unit": [[own]] * runs,
        }
    )
    rest = pl.DataFrame(
        {
            "variant": variant,
            "cases": [others] * runs,
            "unit": [[None]] * runs,
            "cases_of_unit": [[others]] * runs,
        },
        schema=person.schema,
    )
    summary = pl.concat([person, rest]).filter(pl.col("cases") > 0)
    kept = release(LIBRA, params, summary, noise).table["cases"].to_numpy()
    return np.concatenate([kept, np.zeros(runs - len(kept), np.int64)])


def audit(own: int, params: LibraParams, others: int = OTHERS, runs: int = RUNS) -> AuditResult:
    """Neighbours: the person present or absent."""
    noise = reproducible(1)
    here, there = (
        lambda size, cases=cases: estimates(cases, params, size, others, noise)
        for cases in (own, 0)
    )
    return seeded_audit(
        here,
        there,
        runs=runs,
        delta=DELTA,
        claim=params.epsilon,
        events=half_lines if others else FIXED,
    )


def everybody(params: LibraParams) -> LibraParams:
    """A sample that holds every unit, charged as if it held half of them."""
    return params.model_copy(update={"rate": 1.0})


def half_the_noise(params: LibraParams) -> LibraParams:
    """A scale that ignores half of what one unit can change."""
    return params.model_copy(update={"scale": params.scale / 2})


def uncounted_samples(params: LibraParams) -> LibraParams:
    """Five samples, of which one is accounted, as it was published."""
    return params.model_copy(update={"samples": 5})


def no_selection(params: LibraParams) -> LibraParams:
    """Hardly anything that occurs is left out; noise of 1 at most is the least there is."""
    return params.model_copy(update={"selection": params.selection.model_copy(update={"tau": 2})})


def test_a_unit_more_on_a_selected_variant_is_covered() -> None:
    """In a sample of half the units, and where the sample holds everybody: there the audit finds
    half of epsilon.
    """
    assert audit(1, params_of()).passed
    sharp = audit(1, params_of(rate=1))
    assert sharp.passed
    assert sharp.epsilon_lower_bound > 0.5 * EPSILON


def test_a_unit_of_three_cases_is_covered_where_it_is_assumed() -> None:
    """And found where it is taken for one."""
    assert audit(3, params_of(3, rate=1), others=3 * OTHERS).passed
    assert not audit(3, params_of(1, rate=1)).passed


def test_a_variant_of_one_unit_is_covered_by_delta() -> None:
    """Present in one log, absent from the other: it is selected with less than its share of
    delta.
    """
    assert audit(1, params_of(), others=0).passed


def test_a_missing_selection_is_found() -> None:
    """Without it every unique variant is counted, and shows whenever its noise is above 0."""
    assert not audit(1, no_selection(params_of()), others=0).passed


def test_too_little_noise_is_found() -> None:
    """Half of it."""
    assert not audit(1, half_the_noise(params_of(rate=1))).passed


def test_samples_that_are_not_added_up_are_found() -> None:
    """Five at the noise of one."""
    assert not audit(1, uncounted_samples(params_of(rate=1))).passed


def test_a_sample_that_holds_everybody_is_found() -> None:
    """Where every second unit should be in it: the noise was drawn for a sample."""
    assert not audit(1, everybody(params_of())).passed


def test_faults_in_the_samples_are_found_by_the_accountant() -> None:
    """The event names the noise drawn and the rate; all counterparts cost more than they claim."""
    honest = params_of()
    assert cost(LIBRA.step(honest, Facts()).event, DELTA).epsilon <= EPSILON
    for broken in (everybody(honest), half_the_noise(honest), uncounted_samples(honest)):
        assert cost(LIBRA.step(broken, Facts()).event, DELTA).epsilon > 1.2 * EPSILON
