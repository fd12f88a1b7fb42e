"""Singling out, linkability and inference, where what they find is known."""

import numpy as np
import pytest

from cloakwork.base.arrays import Floats
from cloakwork.evaluation.article29 import CaseColumn, CaseTable, ReleaseAttacked
from cloakwork.evaluation.bounds import excess, share_of, wilson

CASES = 200


def _table(draws: np.random.Generator) -> CaseTable:
    """A group that decides about the rest, as far as anything does."""
    group = draws.integers(0, 5, CASES)
    age, cost = group / 5 + draws.normal(0, 0.1, CASES), draws.random(CASES)
    guess = np.where(draws.random(CASES) < 0.6, group, draws.integers(0, 5, CASES))
    numbers = {name: CaseColumn(each, True) for name, each in (("age", age), ("cost", cost))}
    return numbers | {"group": CaseColumn(group, False), "secret": CaseColumn(guess, False)}


def _nobody(_: int) -> Floats:
    return np.zeros(CASES)


def test_a_copy_gives_everybody_away_and_others_nobody():
    """Against the same control group of other cases."""
    draws = np.random.default_rng(2)
    source, fresh, others = _table(draws), _table(draws), _table(draws)
    targets = np.arange(CASES)
    for released, least, most in ((source, 0.8, 1.0), (fresh, 0.0, 0.15)):
        attacked = ReleaseAttacked(source, released, _nobody, others)
        halves = (("age", "group"), ("cost", "secret"))
        links, inferred = attacked.guesses(targets, halves, ["secret"])
        tried = (inferred["secret"], attacked.singling_out(100, 3))
        shares = [excess(each.attack, each.control).share for each in tried]
        assert all(least <= share <= most for share in shares), shares
        linked = excess(links.attack, links.control)
        assert linked.share > 0.5 if released is source else linked.low < 0.1


def test_guesses_are_those_of_brute_force():
    """Gower's distance to each released case added up by hand, a missing number as far as can be;
    half of what is guessed is guessed from the release without the own case.
    """
    draws = np.random.default_rng(4)
    source, released = _table(draws), _table(draws)
    for table in (source, released):
        table["age"].values[draws.random(CASES) < 0.2] = np.nan
    attacked = ReleaseAttacked(source, released, lambda case: np.eye(1, CASES, case)[0] / 2)
    halves = (("age", "group"), ("cost", "secret"))
    linked, inferred = attacked.guesses(np.arange(40), halves, ["secret", "cost"])
    for case in range(40):
        chances = []
        for without in (None, case):
            first, second = (_by_hand(source, released, case, half, without) for half in halves)
            found = _by_hand(source, released, case, ("age", "cost", "group"), without)
            right = released["secret"].values[list(found)] == source["secret"].values[case]
            chances.append((len(first & second) / (len(first) * len(second)), float(right.mean())))
        (joined, guessed), (joined_without, guessed_without) = chances
        assert linked.attack[case] == pytest.approx(joined)
        assert linked.control[case] == pytest.approx((joined + joined_without) / 2)
        assert inferred["secret"].attack[case] == pytest.approx(guessed)
        assert inferred["secret"].control[case] == pytest.approx((guessed + guessed_without) / 2)


def _by_hand(
    source: CaseTable, released: CaseTable, case: int, among: tuple[str, ...], without: int | None
) -> set[int]:
    apart = {}
    for other in range(CASES):
        total = 0.0
        for name in among:
            here, there = source[name].values[case], released[name].values[other]
            if source[name].is_number:
                away = abs(float(there - here))
                total += 1.0 if np.isnan(away) else away
            else:
                total += there != here
        apart[other] = total
    if without is not None:
        del apart[without]
    least = min(apart.values())
    return {other for other, total in apart.items() if total <= least + 1e-12}


def test_without_other_cases_the_control_is_the_release_without_the_target():
    """A copy: without the own case, what remains is what the group tells."""
    source = _table(np.random.default_rng(2))
    own = ReleaseAttacked(source, source, lambda case: np.eye(1, CASES, case)[0])
    tries = own.guesses(np.arange(CASES), None, ["secret"])[1]["secret"]
    assert np.mean(tries.attack) == 1
    assert 0.3 < np.mean(tries.control) < 0.8
    isolated = own.singling_out(50, 1)
    assert np.mean(isolated.attack) == 1
    assert np.mean(isolated.control) == 0


def test_the_risk_is_that_of_the_paper():
    """(r_attack - r_control) / (1 - r_control) of Wilson's middles; bounds by propagated errors.
    The figures are those that anonymeter 1.1.0 returns for 120 and 40 successes of 500.
    """
    found = excess([1.0] * 120 + [0.0] * 380, [1.0] * 40 + [0.0] * 460)
    assert found.share == pytest.approx(RISK_120_40[0], abs=1e-12)
    assert (found.low, found.high) == pytest.approx(RISK_120_40[1:], abs=1e-12)


RISK_120_40 = (0.1731898893174202, 0.12710339917071795, 0.21927637946412243)


def test_bounds_of_shares():
    """Of a census the share itself; Wilson's interval for 8 of 10 (his formula, by hand)."""
    census = share_of([1.0, 0.0], census=True)
    assert (census.share, census.low, census.high) == (0.5, 0.5, 0.5)
    middle, half = wilson(0.8, 10)
    assert (middle - half, middle + half) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert share_of([0.0] * 10, census=False).high == pytest.approx(0.2775328, abs=1e-6)
