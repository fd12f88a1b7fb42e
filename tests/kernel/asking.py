"""What mechanisms ask a kernel, recorded, and asked again of any other log."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from cloakwork.accounting import calibrate
from cloakwork.accounting.events import upper_bound_epsilon
from cloakwork.base.costs import FREE, Cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import ONE, Books, Clip, Growth, Kernel, noises, vectors_of
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.profile import ProfileParams, measure_profile
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork_extras.networks import steps
from conftest import in_long_form
from kernel.gaps import MeasuresGaps, NoParams, universe, with_columns
from kernel.small import Silent, all_variants, measured

LABELS = ("a", "b", "z")
"""Those of the universe; the last one is never declared."""

UNIVERSE = all_variants(LABELS, 3)


class Open(Books):
    """Books that let everything pass: for asking a query again, whatever a plan lists."""

    def record(self, *alternatives):
        self.recorded.append(alternatives[0])


class Nothing:
    """Noise that is none, and costs nothing: for what a query finds."""

    def draw(self, noise, size):
        return np.zeros(size, np.int64)

    def events(self, clip, cases, keys):
        return (FREE,)

    def selection_delta(self, tau, clip, cases):
        return 0.0


NOTHING = Nothing()


@contextmanager
def noise_that_is_none():
    """Kernels take it here alone: what is looked at is what is asked, without noise."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(noises, "_KNOWN", (*noises._KNOWN, type(NOTHING)))
        yield


@dataclass(frozen=True)
class Asked:
    """One question. ``narrowed``: the arguments of each time that the kernel was narrowed before;
    ``how``: the method, with its arguments.
    """

    narrowed: tuple
    how: str
    arguments: tuple
    named: dict

    def kernel(self, seen):
        """A kernel for another log, narrowed alike."""
        kernel = Kernel(seen, Open({}), Silent(), 1)
        for arguments, named in self.narrowed:
            kernel = kernel.narrowed(*arguments, **named)
        return kernel

    def seen_by(self, measured):
        """The cases that are asked about, of a log."""
        return self.kernel(measured)._Kernel__measured.cases

    def argument(self, place, name, default=None):
        if len(self.arguments) > place:
            return self.arguments[place]
        return self.named.get(name, default)

    @property
    def query(self):
        return self.argument(0, "query")

    @property
    def clip(self):
        """What each case's vector is clipped to."""
        if self.how == "sum":
            return self.argument(2, "clip", ONE)
        if self.how == "select":
            return self.argument(3, "clip", ONE)
        if self.how == "choose":
            return Clip("max", self.argument(2, "most"), self.argument(1, "keys"))
        return ONE

    @property
    def labels(self):
        """The column whose texts label the keys."""
        return self.argument(4, "labels") if self.how in {"sum", "select"} else None

    def vectors(self, cases):
        """What is found in each of the cases, within the clip."""
        return vectors_of(cases, self.query, self.clip, self.labels)

    def sums(self, seen):
        """The sums without noise, by key as bytes or as a number."""
        sums = self.kernel(seen).sum(self.query, NOTHING, self.clip, labels=self.labels)._sums
        found = zip(sums.keys, sums.sums.tolist(), strict=True)
        return {key if isinstance(key, bytes) else int(key): value for key, value in found if value}

    def level(self, seen):
        """Where keys grow: the counts of one level, by the label or the number that follows."""
        growth = self.kernel(seen).grow()
        if self.how == "declared":
            extensions = self.argument(2, "extensions")
            told = growth.declared(self.query, NOTHING, extensions, self.argument(3, "among"))
            return dict(zip(told.extension.tolist(), told.noisy.tolist(), strict=True))
        told = growth.occurring(self.query, NOTHING, 1)
        labels = [told.labels[code] if code >= 0 else None for code in told.extension]
        return dict(zip(labels, told.noisy.tolist(), strict=True))


class Recorder:
    """Stands for a kernel, or for keys that grow, and writes down what is asked of it."""

    def __init__(self, answering, asked, narrowed=()):
        self._answering, self._asked, self._narrowed = answering, asked, narrowed

    def __getattr__(self, name):
        found = getattr(self._answering, name)
        if not callable(found):
            return found

        def call(*arguments, **named):
            answer = found(*arguments, **named)
            narrowed = self._narrowed
            if name == "narrowed":
                narrowed = (*narrowed, (arguments, named))
            if isinstance(answer, Kernel | Growth):
                return Recorder(answer, self._asked, narrowed)
            self._asked.append(Asked(narrowed, name, arguments, named))
            return answer

        return call


def that_measure():
    """The mechanisms that hold a kernel, but for those that look at the raw counts."""
    names = [name for name in catalogue() if hasattr(catalogue()[name], "measure")]
    return [name for name in names if catalogue()[name].proof != "published"]


PERSONS = Unit(attribute="case:person", max_cases=2)
DECLARED = Facts(unit=PERSONS, alphabet=("a", "b"), longest_case=3)
ALL_FACTS = (Facts(unit=PERSONS), DECLARED)
BUDGET = DifferentialPrivacy(
    kind="differential-privacy", epsilon=4.0, delta=1e-2, over=(CONTROL_FLOW,)
)
OPTIONS = {
    "variants/amun": ({"variants": [["a", "b"], ["a"], ["a", "z"]]},),
    "variants/libra": ({"samples": 3, "rate": 0.5},),
    "dfg/laplace": ({"most_steps": 2},),
}
SMALL = {"steps": 1, "hidden": 1}
OF_DOMAIN = SMALL | {"domain": [["a", "b"], ["z"]]}
NETWORKS = {
    "variants/transformer": ({"steps": 1, "width": 0, "places": 8},),
    "variants/travag": (OF_DOMAIN, *in_long_form(SMALL)),
    "variants/ddpm": (SMALL, *in_long_form(OF_DOMAIN)),
}
"""A network of the usual size takes its time, and asks nothing else than a small one."""


def offered(name):
    """Parameters of a mechanism, with the facts that they are for."""
    mechanism = catalogue()[name]
    for facts in ALL_FACTS:
        for options in NETWORKS.get(name) or ({}, *OPTIONS.get(name, ())):
            offer = mechanism.offer(BUDGET, facts, options)
            if isinstance(offer, Offer):
                yield offer.params, facts


@contextmanager
def calibrated_by_closed_forms():
    """More noise than needed, found at once: what is asked does not depend on how much there is."""

    def bound(event, delta):
        return Cost(epsilon=upper_bound_epsilon(event, delta), delta=delta)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibrate, "cost", bound)
        patched.setattr(steps, "cost", bound)
        yield


def questions(name):
    """All that a mechanism asks of two logs: one of the whole universe, and an empty one."""
    if name == PROFILE:
        return questions_of_profile()
    mechanism, asked = catalogue()[name], []
    with calibrated_by_closed_forms():
        offers = list(offered(name))
    for params, facts in offers:
        for seen in (whole_universe(facts.unit.max_cases), measured([], owners=([], [], []))):
            books = Books.of(mechanism.step(params, facts).event)
            kernel = Kernel(seen, books, reproducible(1), facts.unit.max_cases)
            with pytest.MonkeyPatch.context() as patched:
                if name == "variants/ddpm":  # what is drawn of the network afterwards asks nothing
                    patched.setattr("cloakwork_extras.networks.ddpm_network.CHAINS", 16)
                mechanism.measure(params, Recorder(kernel, asked))
    return asked


PROFILE = "profile"


def questions_of_profile():
    """What a DP profile asks, which is no mechanism of the catalogue."""
    params = ProfileParams(
        unit=PERSONS,
        epsilon=4.0,
        delta=1e-2,
        activities_per_case=2,
        count_scale=2.0,
        length_scale=2.0,
        top_scale=2.0,
        selection_scale=2.0,
        tau=40,
    )
    asked = []
    kernel = Kernel(whole_universe(2), Books.of(params.event()), reproducible(1), 2)
    measure_profile(params, Recorder(kernel, asked))
    return asked


def questions_about_columns():
    """What the toy asks that is granted times and attributes, of units of two cases."""
    toy, facts, asked = MeasuresGaps(), Facts(unit=PERSONS), []
    books = Books.of(toy.step(NoParams(), facts).event)
    kernel = Kernel(with_columns(universe("az", 1)), books, reproducible(1), 2)
    toy.measure(NoParams(), Recorder(kernel, asked))
    return asked


def whole_universe(max_cases):
    """Sixty cases of everything, of units with so many cases each."""
    rows = np.repeat(np.arange(len(UNIVERSE)), 60)
    units = np.arange(len(rows)) // max_cases
    counts = np.full(len(UNIVERSE), 60)
    return measured(UNIVERSE, counts, owners=(rows, units, np.ones(len(rows), np.int64)))
