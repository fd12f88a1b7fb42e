"""Statistical audits of the gradient step of attributes/regression, with broken counterparts that
must fail.

The worst neighbour has what nobody else has, where tables expect something else: its gradient is
as long as the clip allows. Tables, norms and pairs are audited in ``test_attributes_audit``. Draws
are seeded: what is found is found in every run.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.engines.measured import measured_of, released_cases
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import Books, Cases, Clip, Gaussian, Kernel, vectors_of
from cloakwork.kernel.kernel import Measured
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.contributions import (
    MOST_CELLS,
    SPREAD,
    UNIT_NORM,
    TableLayout,
)
from cloakwork.mechanisms.attributes.gradient_step import GradientStep
from cloakwork.mechanisms.attributes.histogram import AttributesRegression
from cloakwork.mechanisms.attributes.params import AttributesHistogramParams
from cloakwork.mechanisms.attributes.tables import Counted
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.steps import Listed
from cloakwork.noise import Noise, reproducible
from cloakwork.testing.logs import log_of

FACTS = Facts(domains={"drug": ("common", "rare"), "case:ward": ("a", "b")})
COLUMNS = tuple(FACTS.domains)
MECHANISM = AttributesRegression()
MU, RUNS = 1.0, 10_000
LONG = "CLOAKWORK_RUNS" in os.environ
WIDE = Clip("l2", 3 * UNIT_NORM, MOST_CELLS)


def params_of(mu: float = MU, max_cases: int = 1) -> AttributesHistogramParams:
    """What it offers."""
    facts = FACTS.model_copy(update={"unit": Unit(max_cases=max_cases)})
    found = MECHANISM.offer_part(PartOfGoal(COLUMNS, mu, 0.0), facts, {})
    assert isinstance(found, Offer)
    return found.params


def cases_of(drugs: list[str | None], events: int = 3) -> Cases:
    """A case for each of ``drugs``, which all its events carry; no wards."""
    return measured(drugs, events, reproducible(1)).cases


def measured(drugs: list[str | None], events: int, noise: Noise) -> Measured:
    """What a kernel holds of them."""
    log = log_of([["a"] * events] * len(drugs))
    drug = pl.Series("drug", [drug for drug in drugs for _ in range(events)], pl.String)
    ward = pl.Series("case:ward", [None] * len(drugs), pl.String)
    log = replace(log, events=log.events.with_columns(drug), cases=log.cases.with_columns(ward))
    return measured_of(CaseRows(tuple(sorted(COLUMNS))).of(log), noise)


def moved(cases: int, expected: float, norm: float, clip: Clip = SPREAD) -> float:
    """How far ``cases`` cases alike move a step's sums, in grid steps (L2), as the kernel counts;
    ``expected``: the share of a value that they do not have.
    """
    layout = TableLayout(params_of().attributes, ("a",))
    tables = np.array([[expected, 0.0]]), np.array([[expected, 0.0]])
    step = GradientStep(layout, tables, norm, 1.0)
    rows = cases_of(["rare"] * cases, 50)
    sums = vectors_of(rows, step.gradients(), clip).sums(np.ones(cases, np.int64))
    return float(np.sqrt((sums.sums.astype(float) ** 2).sum()))


@pytest.mark.parametrize("expected", [0.0, 0.5, 1.0, 50.0])
@pytest.mark.parametrize("norm", [1e-3, 0.5])
def test_a_case_moves_a_step_by_the_clip_at_most(expected: float, norm: float) -> None:
    """Whatever the tables expect, and however small the norm that follows from them."""
    assert 0.999 * UNIT_NORM < moved(1, expected, norm) <= UNIT_NORM
    assert moved(3, expected, norm) == pytest.approx(3 * UNIT_NORM, rel=1e-3)


def audit(
    times: float = 1.0, cases: int = 1, max_cases: int = 1, clip: Clip = SPREAD
) -> AuditResult:
    """A step along the direction in which a unit of ``cases`` cases moves it (the likelihood ratio
    of Gaussian noise), with ``times`` the noise; against what the plan charges for it.
    """
    sigma = params_of(max_cases=max_cases).step_sigma
    assert sigma is not None
    event = Gaussian(sigma).events(SPREAD, max_cases, None)[0]
    noise, move = reproducible(1), moved(cases, 1.0, 0.3, clip)

    def runs(shift: float) -> Callable[[int], Floats]:
        def run(count: int) -> Floats:
            drawn = Gaussian(times * sigma).draw(noise, count)
            return np.asarray((shift + drawn) / UNIT_NORM, np.float64)

        return run

    delta = 0.3 * MU
    bounds = [move / UNIT_NORM * share for share in (0.15, 0.5, 0.85)]
    events = [HalfLine(bound, upper) for bound in bounds for upper in (True, False)]
    claim = cost(event, delta).epsilon
    return empirical_epsilon(
        runs(move), runs(0.0), runs=RUNS, claim=claim, delta=delta, events=events
    )


def test_a_step_keeps_its_claim() -> None:
    """For a case, and for three of a unit where they are assumed."""
    assert audit().passed
    assert audit(cases=3, max_cases=3).passed


def test_broken_steps_are_found() -> None:
    """Half the noise; three cases of a unit where one is assumed; a clip of three times the norm,
    whose event the plan does not hold.
    """
    assert not audit(times=0.5).passed
    assert not audit(cases=3).passed
    assert moved(1, 1.0, 0.3, WIDE) > 2 * UNIT_NORM
    assert not audit(clip=WIDE).passed


BARE = log_of_variants([("a", "a")], np.array([20]))
RELEASED = released_cases(BARE, [CONTROL_FLOW])
NOBODY: list[str | None] = [None] * 8
SOMEBODY = [*NOBODY, "rare"]
DELTA = 0.25 * MU


def audit_releases(
    runs: int, made: AttributesHistogramParams, seen: list[str | None] | None = None
) -> AuditResult:
    """Whole runs with the noise of ``made``, against what ``MU`` allows: how many events have the
    attribute, where one case alone has it. ``seen`` becomes the log that is measured.
    """
    noise, event = reproducible(2), MECHANISM.step(made, FACTS).event

    def runner(drugs: list[str | None]) -> Callable[[int], Floats]:
        rows = measured(drugs, 3, noise)

        def run(count: int) -> Floats:
            if seen is not None:
                seen[:] = drugs
            found = []
            for _ in range(count):
                kernel = Kernel(rows, Books.of(event), noise, 1)
                drug = MECHANISM.enrich(made, kernel, RELEASED).columns["drug"]
                assert isinstance(drug, Listed)
                found.append((drug.codes >= 0).sum())
            return np.array(found, np.float64)

        return run

    return empirical_epsilon(
        runner(SOMEBODY),
        runner(NOBODY),
        runs=runs,
        claim=cost(MECHANISM.step(params_of(), FACTS).event, DELTA).epsilon,
        delta=DELTA,
        events=[HalfLine(bound, upper) for bound in (0.5, 10.5) for upper in (True, False)],
    )


def test_releases_keep_the_claim_and_noise_that_is_too_small_is_found() -> None:
    """The twin draws noise for eight times the mu that is claimed."""
    assert audit_releases(400 if LONG else 80, params_of()).passed
    assert not audit_releases(80, params_of(8.0)).passed


def test_counts_that_are_corrected_without_noise_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin adds what the log has to what the step's noisy answer says."""
    seen: list[str | None] = []
    honest = GradientStep.taken

    def peeking(
        self: GradientStep, kernel: Kernel, counted: Sequence[Counted], sigma: float
    ) -> list[Counted]:
        raw = 1e6 if "rare" in seen else -1e6
        found = honest(self, kernel, counted, sigma)
        return [replace(each, values=each.values + raw, totals=each.totals + raw) for each in found]

    monkeypatch.setattr(GradientStep, "taken", peeking)
    assert not audit_releases(80, params_of(), seen).passed
