"""Every mechanism of ours under the contract."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from pydantic import JsonValue

from cloakwork.base.costs import FREE
from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    KAnonymity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.mechanisms.attributes.histogram import AttributesHistogram, AttributesRegression
from cloakwork.mechanisms.attributes.local import BoundedLaplace, RandomisedResponse
from cloakwork.mechanisms.attributes.redact import Redact, RedactParams, Treatment
from cloakwork.mechanisms.base import Offer, PartOfGoal, Refusal
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.mechanisms.kanon.employees import Employees, EmployeesParams
from cloakwork.mechanisms.kanon.fill import Fill, FillParams
from cloakwork.mechanisms.kanon.generalise import Generalise, GeneraliseParams, QuasiIdentifier
from cloakwork.mechanisms.kanon.optimal import Optimal
from cloakwork.mechanisms.kanon.tlkc import Tlkc
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.mechanisms.variants.adaptive import VariantAdaptive
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.threshold import VariantThreshold
from cloakwork.testing.contract import MechanismContract
from cloakwork_extras.a_star import AStar
from cloakwork_extras.amun import VariantAmun
from cloakwork_extras.auto import Auto
from cloakwork_extras.best_first import BestFirst
from cloakwork_extras.dfg import DfgLaplace
from cloakwork_extras.libra import VariantLibra, VariantLibraPublished
from cloakwork_extras.networks.generative import VariantDdpm, VariantTravag
from cloakwork_extras.networks.one_hot import OneHotOptions
from cloakwork_extras.networks.params import TransformerParams
from cloakwork_extras.networks.published import VariantDdpmPublished, VariantTravagPublished
from cloakwork_extras.networks.transformer import VariantTransformer
from cloakwork_extras.pretsa import Pretsa
from cloakwork_extras.pripel import PripelPublished
from cloakwork_extras.published import VariantAmunPublished
from cloakwork_extras.trees.prefix_tree import PrefixTree
from cloakwork_extras.trees.published import PublishedPrefixTree, PublishedSacofa
from cloakwork_extras.trees.sacofa import Sacofa
from conftest import in_long_form
from contracts.sample_logs import RESOURCE
from extras.networks.small_networks import few_chains

pytestmark = pytest.mark.usefixtures("few_turns")
long_form = pytest.mark.skipif(not in_long_form(True), reason="another size: CLOAKWORK_RUNS=1")
"""Of mechanisms of the extras that are under the contract once more below."""


class TestBound(MechanismContract):
    mechanism = BoundContributions()
    given = (
        BoundParams(),
        BoundParams(attribute="case:unit", max_cases=2),
        BoundParams(attribute="case:unit", alphabet=("a", "b"), longest_case=2),
    )

    def test_measurements_are_charged(self) -> None:
        """It cuts cases and events, and neither measures nor writes a column."""
        for params in self.given:
            assert BoundContributions().step(params, self.facts).event == FREE
            assert not BoundContributions().step(params, Facts()).lineage.writes


class TestRedact(MechanismContract):
    mechanism = Redact()
    given = (
        RedactParams(
            treatments=(
                Treatment(attribute="org:role", treatment="pseudonymise"),
                Treatment(attribute="case:unit", treatment="pseudonymise"),
                Treatment(attribute="case:age", treatment="generalise", bins=(0, 5, 10)),
                Treatment(attribute="case:row", treatment="keep"),
            )
        ),
    )


class TestRandomisedResponse(MechanismContract):
    mechanism = RandomisedResponse()
    goals = (
        LocalDP(kind="local-dp", epsilon=1, over=("org:role",)),
        LocalDP(kind="local-dp", epsilon=1, over=("org:role", "case:age"), per="case"),
    )
    facts = Facts(domains={"org:role": ("role 0", "role 1"), "case:age": (1, 2, 3)}, longest_case=3)


class TestBoundedLaplace(MechanismContract):
    mechanism = BoundedLaplace()
    goals = (
        LocalDP(kind="local-dp", epsilon=1, over=("case:age",)),
        LocalDP(kind="local-dp", epsilon=1, over=("case:age",), per="case"),
    )
    facts = Facts(ranges={"case:age": (0, 9)})


class TestGeneralise(MechanismContract):
    mechanism = Generalise()
    given = tuple(
        GeneraliseParams(
            k=2,
            unit=unit,
            attributes=(
                QuasiIdentifier(attribute="case:age", bins=(0, 3, 6, 9, 12)),
                QuasiIdentifier(attribute="org:role"),
            ),
        )
        for unit in (None, "case:unit")
    )
    may_refuse_logs = True


class TestFill(MechanismContract):
    mechanism = Fill()
    given = (
        FillParams(columns=(RESOURCE,)),
        FillParams(columns=(RESOURCE,), times=True, donors="variant"),
    )


class TestEmployees(MechanismContract):
    mechanism = Employees()
    goals = (KAnonymity(kind="k-anonymity", k=2, unit=Unit(attribute=RESOURCE, level="event")),)
    given = (EmployeesParams(k=2, least_cases=3, attribute=RESOURCE),)
    may_refuse_logs = True


class TestPretsa(MechanismContract):
    mechanism = Pretsa()
    goals = (
        KAnonymity(kind="k-anonymity", k=4),
        KAnonymity(kind="k-anonymity", k=4, scope="prefixes"),
        KAnonymity(kind="k-anonymity", k=2, count="units"),
    )
    may_refuse_logs = True


class TestBestFirst(MechanismContract):
    mechanism = BestFirst()
    goals = TestPretsa.goals
    may_refuse_logs = True


class TestAStar(MechanismContract):
    mechanism = AStar()
    goals = TestPretsa.goals
    may_refuse_logs = True


class TestOptimal(MechanismContract):
    mechanism = Optimal()
    goals = (*TestPretsa.goals, KAnonymity(kind="k-anonymity", k=2, count="units"))
    may_refuse_logs = True


class TestAuto(MechanismContract):
    mechanism = Auto()
    goals = TestOptimal.goals
    may_refuse_logs = True


class TestTlkc(MechanismContract):
    mechanism = Tlkc()
    goals = (
        ConfidenceBound(kind="confidence-bound", L=2, K=4),
        ConfidenceBound(kind="confidence-bound", L=3, K=2, background="set"),
        ConfidenceBound(
            kind="confidence-bound", L=2, K=4, background="multiset", C=0.9, attribute="case:row"
        ),
        ConfidenceBound(
            kind="confidence-bound", L=2, K=4, background="relative", precision=timedelta(hours=2)
        ),
    )
    may_refuse_logs = True


class TestTlkcOfPersons(MechanismContract):
    mechanism = Tlkc()
    goals = (ConfidenceBound(kind="confidence-bound", L=2, K=4, C=0.9, attribute="case:row"),)
    facts = Facts(unit=Unit(attribute="case:row", max_cases=2))
    may_refuse_logs = True


class TestCloseness(MechanismContract):
    mechanism = Closeness()
    goals = (
        TCloseness(kind="t-closeness", t=0.95, attribute=RESOURCE),
        TCloseness(kind="t-closeness", t=0.6, attribute="case:row", classes="prefixes"),
        TCloseness(kind="t-closeness", t=0.2, attribute=TIMESTAMPS),
        TCloseness(
            kind="t-closeness",
            t=1.5,
            attribute=TIMESTAMPS,
            distance="stochastic",
            classes="prefixes",
        ),
        TCloseness(kind="t-closeness", t=2, attribute=RESOURCE, distance="stochastic"),
    )
    may_refuse_logs = True


class TestTimestampLaplace(MechanismContract):
    mechanism = TimestampLaplace()
    goals = (
        MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1)),
        DifferentialPrivacy(
            kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
        ),
    )
    facts = Facts(
        unit=Unit(attribute="case:row", max_cases=2),
        window=Window(start=datetime(2019, 1, 1, tzinfo=UTC), end=datetime(2021, 1, 1, tzinfo=UTC)),
        longest_gap=timedelta(days=2),
        longest_case=10,
    )


class TestVariantThreshold(MechanismContract):
    """By much noise, and by so little that the small logs here are released."""

    mechanism = VariantThreshold()
    goals = (
        DifferentialPrivacy(
            kind="differential-privacy", epsilon=1, delta=1e-3, over=(CONTROL_FLOW,)
        ),
        DifferentialPrivacy(
            kind="differential-privacy", epsilon=20, delta=1e-1, over=(CONTROL_FLOW,)
        ),
    )
    facts = Facts(unit=Unit(attribute="case:row", max_cases=2))


LITTLE_NOISE = TestVariantThreshold.goals[1:]
OF_VARIANTS = (*in_long_form(*TestVariantThreshold.goals[:1]), *LITTLE_NOISE)
"""Under much noise nothing is released of the small logs here, whichever mechanism it is."""


class TestVariantAdaptive(MechanismContract):
    mechanism = VariantAdaptive()
    goals = OF_VARIANTS
    facts = TestVariantThreshold.facts


class TestVariantAmun(MechanismContract):
    mechanism = VariantAmun()
    goals = OF_VARIANTS
    facts = TestVariantThreshold.facts


class TestVariantAmunPublished(MechanismContract):
    mechanism = VariantAmunPublished()
    goals = OF_VARIANTS


class TestVariantLibra(MechanismContract):
    mechanism = VariantLibra()
    goals = OF_VARIANTS
    facts = TestVariantThreshold.facts


class TestVariantLibraPublished(MechanismContract):
    mechanism = VariantLibraPublished()
    goals = OF_VARIANTS


class TestPrefixTree(MechanismContract):
    mechanism = PrefixTree()
    goals = (
        DifferentialPrivacy(
            kind="differential-privacy", epsilon=1, delta=1e-3, over=(CONTROL_FLOW,)
        ),
        DifferentialPrivacy(kind="differential-privacy", epsilon=20, over=(CONTROL_FLOW,)),
    )
    facts = Facts(
        unit=Unit(attribute="case:row", max_cases=2), alphabet=("a", "b", "c", "e"), longest_case=5
    )


OF_TREES = (*in_long_form(*TestPrefixTree.goals[:1]), *TestPrefixTree.goals[1:])


class WithLaplaceNoise(MechanismContract):
    """The least scale is found twenty times as fast as the least sigma, which is tried where
    activities are declared.
    """

    def answers(self, options: dict[str, Any]) -> Iterator[Offer[Any] | Refusal]:
        """By the noise that the policy asks for."""
        return super().answers({"noise": "laplace", **options})


@long_form
class TestPrefixTreeOfUndeclaredActivities(WithLaplaceNoise):
    mechanism = PrefixTree()
    goals = LITTLE_NOISE
    facts = Facts(unit=Unit(attribute="case:row", max_cases=2))


class TestSacofa(MechanismContract):
    mechanism = Sacofa()
    goals = OF_TREES
    facts = TestPrefixTree.facts


@long_form
class TestSacofaOfUndeclaredActivities(WithLaplaceNoise):
    mechanism = Sacofa()
    goals = LITTLE_NOISE
    facts = TestPrefixTreeOfUndeclaredActivities.facts


class TestPublishedPrefixTree(MechanismContract):
    mechanism = PublishedPrefixTree()
    goals = OF_TREES


class TestPublishedSacofa(MechanismContract):
    mechanism = PublishedSacofa()
    goals = OF_TREES


class TestPripelPublished(MechanismContract):
    mechanism = PripelPublished()
    goals = (
        DifferentialPrivacy(
            kind="differential-privacy",
            epsilon=2,
            over=(CONTROL_FLOW, TIMESTAMPS, "org:role", "case:age"),
        ),
    )


class BrieflyTrained(MechanismContract):
    """A small network that sees every case twice: what holds of it, holds of any."""

    goals = TestVariantThreshold.goals[:1]
    brief: ClassVar[dict[str, int]]

    def offers(self) -> Iterator[Any]:
        """As offered, but for the time that it takes."""
        for params in super().offers():
            yield params.model_copy(update=self.brief)


class TestVariantTravagPublished(BrieflyTrained):
    mechanism = VariantTravagPublished()
    brief = {"epochs": 2, "adversarial_epochs": 2, "code": 16}


class TestVariantDdpmPublished(BrieflyTrained):
    mechanism = VariantDdpmPublished()
    brief = {"epochs": 2, "steps": 5}


class TestVariantMarkov(MechanismContract):
    mechanism = VariantMarkov()
    goals = OF_VARIANTS
    facts = Facts(
        unit=Unit(attribute="case:row", max_cases=2), alphabet=("a", "b", "c"), longest_case=9
    )


class TestVariantMarkovWithoutAlphabet(MechanismContract):
    mechanism = VariantMarkov()
    goals = LITTLE_NOISE


class LittleTraining(VariantTransformer):
    """``variants/transformer`` with a small network and few steps."""

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[TransformerParams] | Refusal:
        return super().meet(goal, facts, LITTLE | options)

    def offer_part(
        self, part: PartOfGoal, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[TransformerParams] | Refusal:
        return super().offer_part(part, facts, LITTLE | options)


LITTLE: dict[str, JsonValue] = {"steps": 1, "width": 2, "places": 4}


class TestVariantTransformer(MechanismContract):
    mechanism = LittleTraining()
    goals = LITTLE_NOISE
    serves = ((CONTROL_FLOW,),)
    facts = TestVariantMarkov.facts


@long_form
class TestVariantTransformerWithoutAlphabet(MechanismContract):
    mechanism = LittleTraining()
    goals = LITTLE_NOISE


class TestDfgLaplace(MechanismContract):
    mechanism = DfgLaplace()
    goals = OF_TREES
    facts = TestPrefixTree.facts


@long_form
class TestDfgLaplaceOfUndeclaredActivities(MechanismContract):
    mechanism = DfgLaplace()
    goals = LITTLE_NOISE
    facts = TestPrefixTreeOfUndeclaredActivities.facts


class TestTimestampHistogram(MechanismContract):
    mechanism = TimestampHistogram()
    serves = ((TIMESTAMPS,),)
    facts = Facts(
        unit=Unit(attribute="case:row", max_cases=2),
        window=Window(start=datetime(2019, 1, 1, tzinfo=UTC), end=datetime(2021, 1, 1, tzinfo=UTC)),
        longest_gap=timedelta(days=100),
    )


class TestTimestampRegression(MechanismContract):
    mechanism = TimestampRegression()
    serves = TestTimestampHistogram.serves
    facts = TestTimestampHistogram.facts

    def offers(self) -> Iterator[Any]:
        """As offered, but two gradient steps where there are 48 and 64."""
        for params in super().offers():
            gaps, durations = (
                steps.model_copy(update={"times": 2}) for steps in (params.gaps, params.durations)
            )
            yield params.model_copy(update={"gaps": gaps, "durations": durations})


class TestAttributesHistogram(MechanismContract):
    mechanism = AttributesHistogram()
    serves = (("org:role", "case:age"),)
    facts = Facts(
        unit=Unit(attribute="case:row", max_cases=2),
        domains={"org:role": ("role 0", "role 1", "nobody")},
        ranges={"case:age": (0.0, 9.0)},
    )


class TestAttributesRegression(MechanismContract):
    mechanism = AttributesRegression()
    serves = TestAttributesHistogram.serves
    facts = TestAttributesHistogram.facts


class _SmallOptions(OneHotOptions):
    steps: int = 2
    hidden: int = 2


class _DeclaredOptions(_SmallOptions):
    domain: tuple[tuple[str, ...], ...] | None = (("a", "b"), ("a",), ("b", "c"))


class _SmallTravag(VariantTravag):
    Options = _DeclaredOptions


class _SmallDdpm(VariantDdpm):
    Options = _SmallOptions


@pytest.mark.usefixtures(few_chains.__name__)
class TestVariantTravag(MechanismContract):
    """Of declared variants, by small networks."""

    mechanism = _SmallTravag()
    goals = LITTLE_NOISE
    facts = TestVariantThreshold.facts


@pytest.mark.usefixtures(few_chains.__name__)
class TestVariantDdpm(MechanismContract):
    """Of selected variants, by small networks."""

    mechanism = _SmallDdpm()
    goals = LITTLE_NOISE
    facts = Facts(unit=TestVariantThreshold.facts.unit, units_at_most=100)
