"""How likely each released case is whose: right on average where the links are known."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from cloakwork.attacks.coded import CodedLog, code_logs
from cloakwork.attacks.links import Links
from cloakwork.attacks.scales import Scales
from cloakwork.log.eventlog import EventLog
from cloakwork.testing.logs import log_of

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = 3_600e6
CASES = 100


def _linked(scale: float, span: int, seed: int) -> tuple[CodedLog, CodedLog]:
    """A log, and the same cases with Laplace noise of ``scale`` hours on every time, in order
    again; row by row. Starts lie within ``span`` hours.
    """
    draws = np.random.default_rng(seed)
    sequences = [list(draws.choice(["abc", "abcd"])) for _ in range(CASES)]
    before = [
        draws.uniform(0, span) + np.cumsum(draws.exponential(3, len(each))) for each in sequences
    ]
    noise = Scales(scale)
    after = [noise.moved(times, draws) for times in before]
    return code_logs(_log(sequences, before), _log(sequences, after))  # type: ignore[return-value]


def _log(sequences: list[list[str]], hours: list[np.ndarray]) -> EventLog:
    times = [[BEGIN + timedelta(hours=float(hour)) for hour in case] for case in hours]
    return log_of(sequences, times)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("scale", "span"), [(0.1, 2_000), (3.0, 500), (40.0, 100)])
def test_the_best_guess_is_right_as_often_as_claimed(scale: float, span: int, known: bool) -> None:
    """Little noise, some, and so much that hardly anybody is found. Where its scale has to be
    found first, rather more is claimed.
    """
    source, released = _linked(scale, span, 11)
    links = Links(source, released, 1, Scales(scale * HOUR) if known else None)
    links.fit()
    claimed, right = [], []
    for case in range(CASES):
        posterior = links.posterior(case)
        best = int(np.argmax(posterior))
        claimed.append(posterior[best])
        right.append(best == case)
        assert posterior.sum() == pytest.approx(1)
    claim, share = float(np.mean(claimed)), float(np.mean(right))
    assert claim > share - 0.12
    assert claim < share + (0.12 if known else 0.25)


def test_without_times_all_cases_of_a_sequence_are_as_likely() -> None:
    """And a sequence that is no longer there became one that gained cases."""
    source, released = code_logs(
        log_of([list("ab")] * 3 + [list("abc")] + [list("xyz")] * 2),
        log_of([list("xyz")] * 2 + [list("ab")] * 4),
    )
    links = Links(source, released, 1)
    assert links.posterior(0) == pytest.approx([0, 0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])
    assert links.posterior(3) == pytest.approx([0, 0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])
    assert links.posterior(4) == pytest.approx([1 / 2, 1 / 2, 0, 0, 0, 0])


def test_a_case_that_was_left_out_is_nobody() -> None:
    """The sequence is gone, and so is the case."""
    source, released = code_logs(log_of([list("ab")] * 3 + [list("xyz")]), log_of([list("ab")] * 3))
    assert Links(source, released, 1).posterior(3).sum() == 0


def test_values_that_cases_keep_tell_them_apart() -> None:
    """Without times: who has a value that nobody else of the sequence has is known; the others are
    as likely as each other.
    """
    source, released = code_logs(log_of([list("ab")] * 4), log_of([list("ab")] * 4))
    links = Links(source, released, 1)
    links.kept_values = (np.array([[0], [1], [1], [1]]), np.array([[1], [1], [1], [0]]))
    links.fit()
    links.sharpness = 0.0
    assert links.posterior(0) == pytest.approx([0, 0, 0, 1], abs=0.01)
    assert links.posterior(1) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.01)
