"""``variants/libra`` as published: its own figure is met, and nothing is proved."""

import math

import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import Facts
from cloakwork.mechanisms.base import Offer
from cloakwork.noise import secret
from cloakwork_extras import libra
from cloakwork_extras.libra import published_epsilon
from measuring import release
from mechanisms.variants.libra_goals import PUBLISHED, goal, params_of


@pytest.mark.parametrize(
    ("alpha", "by_hand"),
    [
        (2, 20 * math.log(0.95 * 1.05 + 0.05**2 * (2 / 3 * math.exp(0.5) + 1 / 3 * math.exp(-1)))),
        (10, None),
    ],
)
def test_the_published_figure(alpha, by_hand):
    """Its formula at order 2 by hand (b = 2, gamma = .05), and that it lies below what one count
    alone really costs.
    """
    figure = published_epsilon(2.0, 0.05, alpha, 20)
    if by_hand is not None:
        assert figure == pytest.approx(by_hand, rel=1e-9)
    real = cost(
        libra._libra_event(params_of(epsilon=0.01, delta=1e-6).selection, 0.05, 20, 2.0), 1e-4
    ).epsilon
    assert figure < real


def test_the_published_form_meets_its_own_figure_and_proves_nothing():
    """Noise for the published epsilon, an event without bound, a reason that a person can read."""
    answer = PUBLISHED.offer(goal(0.5), Facts(), {"alpha": 10})
    assert isinstance(answer, Offer)
    assert 0.49 < answer.params.published <= 0.5
    event = PUBLISHED.step(answer.params, Facts()).event
    assert isinstance(event, NonPrivate)
    assert cost(event, 1e-4).epsilon == math.inf
    assert "does not hold" in answer.why
    assert not PUBLISHED.step(answer.params, Facts()).lineage.measures


def test_the_published_form_clips_by_raw_counts():
    """The flaw itself: one case more of a variant brings it into every release, one case less keeps
    it out.

    With 200 cases more it would be lost only if noise of scale 0.7 undid each of 20 samples of some
    ten cases: e**-200.
    """
    params = PUBLISHED.offer(goal(), Facts(), {}).params
    least = round(params.scale * math.log(2 / params.delta))
    for cases, present in ((least - 1, False), (least + 200, True)):
        summary = pl.DataFrame({"variant": [["a", "b"]], "cases": [cases]})
        assert (release(PUBLISHED, params, summary, secret()).table.height == 1) is present
