"""variants/amun: noise over declared variants, or the threshold's own; the published form keeps
every true variant.
"""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.accounting.events import cost
from cloakwork.base.costs import NonPrivate, guessing_advantage
from cloakwork.base.facts import Facts, Unit
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.variants.threshold import least_threshold, threshold_event
from cloakwork.noise import reproducible, secret
from cloakwork.testing import run_mechanism
from cloakwork_extras.amun import VariantAmun
from cloakwork_extras.published import VariantAmunPublished, build_dafsa, draw_duplicates
from contracts.sample_logs import log_of
from measuring import release

AMUN, PUBLISHED = VariantAmun(), VariantAmunPublished()
DOMAIN = [["a", "b"], ["a", "c"], ["d"]]


def goal(delta=0.0, **strength):
    """Differential privacy over the control flow."""
    over = {"kind": "differential-privacy", "delta": delta, "over": ("control-flow",)}
    return DifferentialPrivacy.model_validate(over | strength)


def test_a_declared_domain_needs_no_delta():
    """Pure epsilon, from a guessing advantage; units of several cases scale the noise."""
    answer = AMUN.offer(
        goal(guessing_advantage=0.4),
        Facts(unit=Unit(attribute="p", max_cases=3)),
        {"variants": DOMAIN},
    )
    assert isinstance(answer, Offer)
    assert answer.params.advantage == pytest.approx(0.4)
    found = cost(AMUN.step(answer.params, Facts()).event, 0.0)
    assert found.epsilon == pytest.approx(2 * math.log(1.4 / 0.6))
    assert found.epsilon <= answer.params.epsilon
    assert answer.params.scale == pytest.approx(3 / answer.params.epsilon)


def test_noisy_counts_of_the_domain_are_unbiased():
    """Counts far above nothing; 1,000 variants are as many runs."""
    domain = [[str(i)] for i in range(1000)]
    params = AMUN.offer(goal(epsilon=0.5), Facts(), {"variants": domain}).params
    summary = pl.DataFrame({"variant": domain, "cases": np.full(1000, 300)})
    noisy = release(AMUN, params, summary, reproducible(1)).table["cases"].to_numpy()
    assert len(noisy) == 1000
    assert abs(noisy.mean() - 300) < 5 * noisy.std() / math.sqrt(1000)


def test_only_declared_variants_leave_and_absent_ones_may():
    """Half of those that no case follows come out, from noise alone (binomial: 100 to 300 but for
    1e-19); others never do.
    """
    domain = [[str(i)] for i in range(400)]
    log = log_of([["x", "y"]] * 1000 + [["0"]] * 1000)
    released = run_mechanism("variants/amun", log, epsilon=0.1, variants=domain)
    labels = set(released.events["concept:name"].to_list())
    assert labels <= {str(i) for i in range(400)}
    assert "0" in labels
    assert 100 < len(labels) < 300


def test_without_a_domain_it_is_the_threshold_and_says_so():
    """The same parameters, the same event, the same cost."""
    answer = AMUN.offer(goal(1e-4, epsilon=1.0), Facts(), {})
    assert isinstance(answer, Offer)
    assert "variants/threshold" in answer.why
    assert AMUN.step(answer.params, Facts()).event == threshold_event(
        least_threshold(1.0, 1e-4, 1, None)
    )
    assert answer.params.advantage == guessing_advantage(1.0, 1e-4)


@given(st.sets(st.text("abc", max_size=5).map(tuple), max_size=12))
def test_the_automaton_is_the_minimal_one(found):
    """States are right languages: as many edges as (set of endings, label) pairs, and each variant
    passes its own.
    """
    variants = sorted(found)
    automaton = build_dafsa(variants)

    def endings(prefix):
        return frozenset(
            variant[len(prefix) :] for variant in variants if variant[: len(prefix)] == prefix
        )

    passed = [
        [(endings(variant[:i]), variant[i]) for i in range(len(variant))] for variant in variants
    ]
    names = {}
    for edges, required_passes in zip(automaton.edges_of, passed, strict=True):
        assert len(edges) == len(required_passes)
        for edge, name in zip(edges.tolist(), required_passes, strict=True):
            assert names.setdefault(edge, name) == name
    assert len(set(names.values())) == len(names) == len(automaton.variants_of)
    for edge, among in enumerate(automaton.variants_of):
        assert sorted(among.tolist()) == [
            row for row, edges in enumerate(automaton.edges_of) if edge in edges
        ]


@given(
    st.sets(st.text("ab", min_size=1, max_size=4).map(tuple), min_size=1, max_size=8),
    st.integers(0, 5),
)
def test_every_edge_gets_its_noise(found, least):
    """No fewer picks pass an edge than were wanted, and none is made where none is wanted."""
    automaton = build_dafsa(sorted(found))
    required_passes = np.arange(len(automaton.variants_of)) % 3 * least
    duplicates = draw_duplicates(automaton, required_passes, secret())
    passed = np.zeros(len(required_passes), int)
    for edges, times in zip(automaton.edges_of, duplicates, strict=True):
        passed[edges] += times
    assert (passed >= required_passes).all()
    assert duplicates.sum() <= required_passes.sum()


def test_the_published_form_keeps_every_true_variant():
    """The flaw itself: a unique variant is always there, with at least its count."""
    answer = PUBLISHED.offer(goal(epsilon=1.0), Facts(), {})
    assert isinstance(answer, Offer)
    assert answer.params.published == 1.0
    assert isinstance(PUBLISHED.step(answer.params, Facts()).event, NonPrivate)
    summary = pl.DataFrame({"variant": [["a", "b"], ["a", "c", "b"], ["z"]], "cases": [30, 9, 1]})
    for _ in range(20):
        table = release(PUBLISHED, answer.params, summary, secret()).table
        assert table["variant"].to_list() == summary["variant"].to_list()
        assert (table["cases"] >= summary["cases"]).all()
