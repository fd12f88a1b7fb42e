"""Where theory says that a noisy count is unbiased, averages of thousands of them say so too; where
it says biased, which way.

Unbiased: noise of every kind before anything is selected or rounded to what can be released; hence
the counts of variants far above the threshold, of declared variants, of the levels of a tree and of
steps, Libra's estimates, the tables of variants/markov and of the directly-follows graph, and the
profile's sums. Biased upwards: whatever is released only when its noisy count is large enough,
given that it is released. The counts of the release of a tree (shared out to agree) and of a Markov
chain are no estimates of a variant's count at all. Draws are seeded, so that no run raises a false
alarm.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.kernel import Books, Gaussian, Kernel, vector_event
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.markov import (
    MOST_CELLS,
    SPREAD,
    UNIT_NORM,
    transitions_of,
)
from cloakwork.mechanisms.variants.threshold import Kind, calibrate_threshold
from cloakwork.noise import Noise, reproducible
from cloakwork.run.run import figures_of
from cloakwork_extras.dfg import DirectlyFollows
from cloakwork_extras.trees.sacofa import measure_steps
from cloakwork_extras.trees.tree import (
    NoiseKind,
    Stage,
    TreeGrowth,
    answer_noise,
    cost_of,
    grow_tree,
)
from contracts.sample_logs import log_of
from measuring import kernel_on, release
from privacy.sources import Changed, offered
from privacy.test_profile_audit import params_for

RUNS, WIDTH, COUNT = 12, 300, 100
"""Each of so many variants, levels and steps has noise of its own in each run: 3,600 noisy counts,
of which half a case that is lost is five standard errors or more.
"""
LABELS = tuple(f"v{place}" for place in range(WIDTH))
DECLARED = [[label] for label in LABELS]

Errors = Callable[[Any], NDArray[np.float64]]
"""One run: noisy counts less the true ones."""


def histogram(cases: int) -> pl.DataFrame:
    """So many variants of one event, each of ``cases`` cases."""
    return pl.DataFrame(
        {"variant": [[label] for label in LABELS], "cases": cases}, schema=VARIANT_COUNTS_SCHEMA
    )


def released(name: str, cases: int = COUNT, **options: object) -> Errors:
    """What is released of variants of ``cases`` cases, of those that are."""
    params = offered(name, 1.0, 1e-2, Facts(alphabet=LABELS, longest_case=1), **options)
    mechanism, summary = catalogue()[name], histogram(cases)
    return lambda noise: (
        release(mechanism, params, summary, noise).table["cases"].to_numpy() - float(cases)
    )


def levels(kind: NoiseKind) -> Errors:
    """Both levels of a tree, prefixes and ENDs."""
    shape = (Stage(levels=2, scale=3.0),)
    growth = TreeGrowth(shape, kind, WIDTH, LABELS)
    event = cost_of(shape, kind, 1)

    def run(noise: Noise) -> NDArray[np.float64]:
        kernel = kernel_on(histogram(COUNT), event, noise)
        grown = grow_tree(kernel, growth, lambda found: np.full(len(found.noisy), True))
        first, last = grown.levels
        return np.concatenate([first.noisy, last.leaf_noisy]) - float(COUNT)

    return run


def steps(kind: NoiseKind) -> Errors:
    """Noisy counts of all steps over seven activities; nobody takes any."""
    event = cost_of((Stage(levels=8, scale=3.0),), kind, 1)
    nobody = histogram(COUNT).clear()

    def run(noise: Noise) -> NDArray[np.float64]:
        kernel = kernel_on(nobody, event, noise)
        counts = measure_steps(kernel, answer_noise(kind, 3.0), 7, LABELS[:7])
        return counts.at(np.arange(64)).astype(float)

    return run


def table(noise: Noise) -> NDArray[np.float64]:
    """A table of transitions of a log without cases, in cases."""
    sums = without_cases(vector_event(30_000.0, UNIT_NORM, MOST_CELLS), noise).sum(
        transitions_of(1), Gaussian(30_000.0), SPREAD
    )
    return sums.at(np.arange(64)) / UNIT_NORM


def graph(noise: Noise) -> NDArray[np.float64]:
    """Of a log without cases: every true count is 0, and noisy ones may be negative."""
    counted = DirectlyFollows.for_epsilon(1.0, LABELS[:8], 3)
    return counted.measure(without_cases(counted.event, noise)).ravel().astype(float)


def without_cases(event: PrivacyEvent, noise: Noise) -> Kernel:
    """A kernel over an empty log that answers what ``event`` lists."""
    return Kernel(measured_of(histogram(0).clear(), noise), Books.of(event), noise, max_cases=1)


def profile(noise: Noise) -> NDArray[np.float64]:
    """The number of cases, and how many the most frequent variant holds."""
    found = figures_of(PROFILE, LOG, noise)
    return np.array([found.cases, found.top["1"]], float) - COUNT


PROFILE, LOG = params_for(), log_of([["a"]] * COUNT)
UNBIASED: dict[str, Callable[[], Errors]] = {
    "threshold, laplace": lambda: released("variants/threshold", noise="laplace"),
    "threshold, gaussian": lambda: released("variants/threshold", noise="gaussian"),
    "threshold, truncated geometric": lambda: released(
        "variants/threshold", noise="truncated-geometric"
    ),
    "amun, declared variants": lambda: released("variants/amun", variants=DECLARED),
    "libra": lambda: released("variants/libra", rho=1, rate=0.5),
    "levels of a tree, laplace": lambda: levels("laplace"),
    "levels of a tree, gaussian": lambda: levels("gaussian"),
    "steps, laplace": lambda: steps("laplace"),
    "steps, gaussian": lambda: steps("gaussian"),
    "table of transitions": lambda: table,
    "directly-follows graph": lambda: graph,
    "profile": lambda: profile,
}
"""Made where they are tried: to calibrate them takes its time."""


class OneSided(Changed):
    """The counterpart of the published Amun: the noise's magnitude, so that counts only grow."""

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        return np.abs(self.source.laplace_values(scale, size))

    def gaussian_values(self, sigma: float, size: int) -> NDArray[np.int64]:
        return np.abs(self.source.gaussian_values(sigma, size))


class CutSums(Changed):
    """The counterpart that cuts count plus continuous noise to an integer, ``int(count + noise)``:
    half a case is lost.
    """

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        return self.source.laplace_values(1024 * scale, size) // 1024

    def gaussian_values(self, sigma: float, size: int) -> NDArray[np.int64]:
        return self.source.gaussian_values(1024 * sigma, size) // 1024


def average(errors: Errors, noise: Any) -> tuple[float, float]:
    """The mean error, and its standard error."""
    # A profile has two figures a run, which takes more of them.
    runs = 100 if errors is profile else RUNS
    found = np.concatenate([errors(noise) for _ in range(runs)])
    return float(found.mean()), float(found.std() / np.sqrt(len(found)))


@pytest.mark.parametrize("name", UNBIASED)
def test_counts_are_unbiased(name: str) -> None:
    """Within four standard errors; the counterpart with one-sided noise is far outside."""
    errors = UNBIASED[name]()
    mean, error = average(errors, reproducible(1))
    assert abs(mean) < 4 * error
    mean, error = average(errors, OneSided(1.0, reproducible(2)))
    assert mean > 10 * error


@pytest.mark.parametrize(
    "name", ["threshold, laplace", "threshold, gaussian", "amun, declared variants"]
)
def test_sums_cut_to_integers_are_found(name: str) -> None:
    """They come out half a case too small."""
    mean, error = average(UNBIASED[name](), CutSums(1.0, reproducible(3)))
    assert mean < -4 * error and abs(mean + 0.5) < 4 * error


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "truncated-geometric"])
def test_counts_at_the_threshold_are_too_large_where_they_are_released(kind: Kind) -> None:
    """Selection keeps those whose noise was high."""
    tau = calibrate_threshold(1.0, 1e-2, 1, kind).tau
    mean, error = average(released("variants/threshold", cases=tau, noise=kind), reproducible(4))
    assert mean > 10 * error


def test_variants_that_nobody_follows_come_out_of_a_declared_domain_with_too_many() -> None:
    """Only positive noise is released of a count of 0."""
    errors = released("variants/amun", cases=0, variants=DECLARED)
    mean, error = average(errors, reproducible(5))
    assert mean > 10 * error
