"""Statistical audits of whole runs of attributes/histogram and attributes/regression, with broken
counterparts that must fail. Each answer by itself is audited in ``test_answers_audit``.

The worst neighbour is a case that has what nobody else has: its whole weight is on cells that are
empty without it. Draws are seeded: what is found is found in every run.
"""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.engines.measured import measured_cases, released_cases
from cloakwork.evaluation.dp_audit import HalfLine
from cloakwork.kernel import Books, Kernel
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes import histogram
from cloakwork.mechanisms.attributes.histogram import AttributesHistogram, AttributesRegression
from cloakwork.mechanisms.attributes.tables import GradientStep, ValueShares
from cloakwork.mechanisms.base import PartOfGoal
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from conftest import in_long_form
from privacy.sources import seeded_audit

FACTS = Facts(domains={"drug": ("common", "rare"), "case:ward": ("a", "b")})
COLUMNS = tuple(FACTS.domains)
LONG = "CLOAKWORK_RUNS" in os.environ
MU = 1.0
RUNS = 400 if LONG else 36
"""What the twins do shows in all releases, and in none without the case: 36 runs a side prove an
epsilon of 0.78 where 0.46 is charged.
"""
RELEASED = released_cases(log_of_variants([("a", "a")], np.array([20])), [CONTROL_FLOW])
HISTOGRAM, REGRESSION = AttributesHistogram(), AttributesRegression()


def params_of(mechanism, mu=MU):
    return mechanism.offer_part(PartOfGoal(COLUMNS, mu, 0.0), FACTS, {}).params


def measured(drugs):
    """What a kernel holds of a case for each of ``drugs``, which all its events carry."""
    log = log_of([["a"] * 3] * len(drugs))
    drug = pl.Series("drug", [drug for drug in drugs for _ in range(3)], pl.String)
    ward = pl.Series("case:ward", [None] * len(drugs), pl.String)
    log = replace(log, events=log.events.with_columns(drug), cases=log.cases.with_columns(ward))
    return measured_cases(log, CaseRows(tuple(sorted(COLUMNS))), reproducible(1))


def rare(codes):
    return float((codes == 1).sum())


def present(codes):
    return float((codes >= 0).sum())


NEIGHBOURS = {
    "missing everywhere else": ([None] * 8 + ["rare"], [None] * 8, present),
    "a value that nobody else has": (["common"] * 8 + ["rare"], ["common"] * 8, rare),
    "a lone case": (["rare"], [], present),
}
MISSING = "missing everywhere else"


def audit(mechanism, name=MISSING, mu=MU, seen=None):
    """Whole runs on two neighbouring logs with noise for ``mu``, against what ``MU`` allows.
    ``seen`` becomes the log that is measured.
    """
    one, other, outcome = NEIGHBOURS[name]
    params, noise, delta = params_of(mechanism, mu), reproducible(2), 0.25 * MU
    event = mechanism.step(params, FACTS).event

    def runner(drugs):
        held = measured(drugs)

        def run(count):
            if seen is not None:
                seen[:] = drugs
            kernels = (Kernel(held, Books.of(event), noise, 1) for _ in range(count))
            made = (mechanism.enrich(params, kernel, RELEASED).columns for kernel in kernels)
            return np.array([outcome(columns["drug"].codes) for columns in made], np.float64)

        return run

    return seeded_audit(
        runner(one),
        runner(other),
        runs=RUNS,
        claim=cost(mechanism.step(params_of(mechanism), FACTS).event, delta).epsilon,
        delta=delta,
        events=[HalfLine(bound, upper) for bound in (0.5, 10.5) for upper in (True, False)],
    )


MARKS = Facts(domains={f"mark {place}": tuple(range(10)) for place in range(5)})
"""Nearly all that a case counts for are its values: where all are replaced, its vector moves
by nearly the root of 2 times its norm.
"""
MU_GIVEN = 2.5


def params_of_marks(mu=MU_GIVEN, *, replaced: bool):
    """Nearly all of the budget is for the tables of values."""
    part = PartOfGoal(tuple(MARKS.domains), mu, 0.0, replaced)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(histogram, "NORMS_SHARE", 0.05)
        patched.setattr(histogram, "STRUCTURE_SHARE", 1e-6)
        params = HISTOGRAM.offer_part(part, MARKS, {}).params
    return params.model_copy(update={"structure_sigma": None})


def plain_shares(counted, passed_on):
    """In place of what is made of counts, which takes noise out: a line through them, that the
    audit may see all that the noise lets through. Cases have one activity.
    """
    yes = 0.5 + (counted.values[0, 1] - counted.values[0, 0]) / 40
    shape = np.zeros_like(counted.values)
    shape[0, 1] = min(max(yes, 0.0), 1.0)
    shape[0, 0] = 1 - shape[0, 1]
    return ValueShares(np.ones(1), shape)


def audit_given_the_flow(monkeypatch, runs, mu=MU_GIVEN, *, replaced: bool):
    """Whole runs on two logs of the same flow, in which one case has other values, against the
    claim given the flow. ``replaced``: whether the noise is what that takes, for the root of 2
    times the clip; else it is for the clip alone. ``mu``: what it is calibrated to.
    """
    monkeypatch.setattr(histogram, "fitted", plain_shares)
    params, noise, delta = params_of_marks(mu, replaced=replaced), reproducible(4), 0.75
    event = HISTOGRAM.step(params, MARKS).event
    released = released_cases(log_of_variants([("a",)], np.array([400])), [CONTROL_FLOW])

    def runner(own):
        values = [1] * 8 + [0] * 8 + [own]
        log = log_of([["a"]] * len(values))
        marks = [pl.Series(name, values) for name in MARKS.domains]
        log = replace(log, events=log.events.with_columns(marks))
        held = measured_cases(log, CaseRows(tuple(sorted(MARKS.domains))), reproducible(1))

        def run(count):
            found = []
            for _ in range(count):
                kernel = Kernel(held, Books.of(event), noise, 1, replaced=replaced)
                columns = HISTOGRAM.enrich(params, kernel, released).columns
                found.append(sum(rare(column.codes) for column in columns.values()))
            return np.array(found)

        return run

    honest = HISTOGRAM.step(params_of_marks(replaced=True), MARKS).event
    # Half of the released values are 1 where neither log is likelier than the other.
    middle = HalfLine(len(MARKS.domains) * 400 / 2, True)
    return seeded_audit(
        runner(1),
        runner(0),
        runs=runs,
        claim=cost(honest, delta).epsilon,
        delta=delta,
        events=[middle],
    )


def test_values_drawn_on_a_known_flow_keep_the_claim(monkeypatch):
    assert audit_given_the_flow(monkeypatch, 1000 if LONG else 80, replaced=True).passed


@pytest.mark.parametrize(
    ("runs", "mu"), [(80, 4 * MU_GIVEN), *in_long_form((1000, MU_GIVEN))], ids=str
)
def test_values_drawn_on_a_known_flow_with_noise_for_the_clip_alone_are_found(
    runs, mu, monkeypatch
):
    """The broken twin takes a unit to move the tables by C: other values of it move them by the
    root of 2 times C. With a quarter of that noise it is found in few runs; the noise itself by
    what two vectors differ by in ``kernel/test_replaced.py``.
    """
    assert not audit_given_the_flow(monkeypatch, runs, mu, replaced=False).passed


@pytest.mark.parametrize("name", NEIGHBOURS if LONG else [MISSING])
def test_releases_keep_the_claim(name):
    assert audit(HISTOGRAM, name).passed


def test_releases_after_a_step_keep_the_claim():
    assert audit(REGRESSION).passed


@pytest.mark.parametrize("mechanism", [HISTOGRAM, REGRESSION])
def test_noise_that_is_too_small_is_found(mechanism):
    """Whole runs, with noise for thirty times the mu that is claimed."""
    assert not audit(mechanism, mu=30.0).passed


def test_presence_that_is_read_raw_is_found(monkeypatch):
    """The broken twin gives an attribute wherever the log has it, whatever the noise."""
    seen: list[Any] = []
    honest = histogram.fitted

    def peek(counted, passed_on):
        found = honest(counted, passed_on)
        return ValueShares(np.full_like(found.present, float("rare" in seen)), found.shape)

    monkeypatch.setattr(histogram, "fitted", peek)
    assert not audit(HISTOGRAM, seen=seen).passed


def test_counts_that_are_corrected_without_noise_are_found(monkeypatch):
    """The broken twin adds what the log has to what the step's noisy answer says."""
    seen: list[Any] = []
    honest = GradientStep.taken

    def peeking(self, kernel, counted, sigma):
        raw = 1e6 if "rare" in seen else -1e6
        found = honest(self, kernel, counted, sigma)
        return [replace(each, values=each.values + raw, totals=each.totals + raw) for each in found]

    monkeypatch.setattr(GradientStep, "taken", peeking)
    assert not audit(REGRESSION, seen=seen).passed
