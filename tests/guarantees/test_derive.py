"""The rules of derivation on made-up steps: each rule holds, and fails when its condition is taken
away.
"""

import pytest

from cloakwork.base.costs import FREE, DiscreteLaplace, NonPrivate, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import Lineage
from cloakwork.base.quantities import parse_duration
from cloakwork.guarantees import (
    DifferentialPrivacy,
    KAnonymity,
    LDiversity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.guarantees.claims import ConditionedOn
from cloakwork.guarantees.flow import follow_columns
from cloakwork.plan.model import Step
from cloakwork.plan.planner import derive, flow_step, make_plan
from cloakwork.policy.model import Policy

DP = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-6, over=("control-flow",)
)

METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1.0, shift=parse_duration("1h"))

KANON = KAnonymity(kind="k-anonymity", k=3)


def step(
    name: str,
    *,
    reads: set[str] = frozenset(),
    measures: set[str] = frozenset(),
    writes: set[str] = frozenset(),
    event: PrivacyEvent = FREE,
    **more: object,
) -> Step:
    """A step of a made-up mechanism."""
    keys = {"generates", "enriches", "fills", "stability"} & more.keys()
    lineage = Lineage(
        reads=frozenset(reads),
        measures=frozenset(measures),
        writes=frozenset(writes),
        **{key: more.pop(key) for key in keys},
    )
    given = {
        "params": {},
        "why": "test",
        "proof": "proved",
        "event": event,
        "currency": "unit",
        "lineage": lineage,
    }
    return Step(mechanism=name, **(given | more))


def counts(**more: object) -> Step:
    """A step that makes new cases from noisy counts."""
    noise = DiscreteLaplace(scale=1.0)
    given = {
        "measures": {"control-flow"},
        "writes": {"control-flow", "metadata"},
        "event": noise,
        "generates": True,
    }
    return step("counts", **(given | more))


def kanon(**more: object) -> Step:
    """A step that moves whole cases until groups are large."""
    given = {
        "reads": {"control-flow"},
        "writes": {"control-flow", "metadata"},
        "stability": None,
        "goals": (0,),
    }
    return step("kanon", **(given | more))


def times(**more: object) -> Step:
    """A step that adds noise to times."""
    given = {
        "reads": {"control-flow"},
        "measures": {"timestamps"},
        "writes": {"timestamps"},
        "currency": "metric",
    }
    return step(
        "times", **(given | {"event": DiscreteLaplace(scale=7200.0, sensitivity=7200)} | more)
    )


def enriched(*written: str, **more: object) -> Step:
    """A step that adds columns to cases that were made, from noisy answers about the source."""
    given = {
        "measures": {"control-flow", *written},
        "reads": {"control-flow"},
        "writes": set(written),
        "event": DiscreteLaplace(scale=4.0),
        "enriches": True,
    }
    return step("enriched", **(given | more))


WHOLE = DP.model_copy(
    update={"epsilon": 1.5, "over": ("control-flow", "timestamps", "Age")},
)


def reasons(goals: list[object], steps: list[Step], released: set[str]) -> str:
    """All causes in one text; empty when everything is derived."""
    return "\n".join(str(cause) for cause in derive(goals, steps, released, Facts()).causes)


def test_charged_noise_gives_dp() -> None:
    """Nothing raw reaches the release: derived, at the cost of the noise."""
    derivation = derive([DP], [counts()], set(), Facts())
    assert (derivation.claims[0].cost.epsilon, derivation.claims[0].naive.delta) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("steps", "released", "cause"),
    [
        ([], set(), "raw control-flow would reach"),
        ([counts(generates=False)], {"Age"}, "Age would be released raw"),
        (
            [counts(generates=False, writes={"control-flow"})],
            set(),
            "metadata would be released raw",
        ),
        ([counts(event=DiscreteLaplace(scale=0.5))], set(), "more than 1"),
        ([counts(event=NonPrivate(reason="x"))], set(), "more than 1"),
        ([counts(proof="published")], set(), "only published"),
        ([counts(reads={"Age"})], set(), "raw Age would reach"),
        ([kanon(), counts()], set(), "after kanon changed it"),
        ([counts(), counts()], set(), "more than 1"),
    ],
)
def test_dp_is_refused(steps: list[Step], released: set[str], cause: str) -> None:
    """Each condition of rule 1, taken away alone, voids the claim."""
    assert cause in reasons([DP], steps, released)


def test_enriched_cases_are_private_as_a_whole() -> None:
    """What was measured on the source, for cases that were made of noisy answers about it."""
    steps = [counts(), enriched("timestamps"), enriched("Age")]
    (claim,) = derive([WHOLE], steps, {"timestamps", "Age"}, Facts()).claims
    assert claim.cost.epsilon == pytest.approx(1.5, rel=1e-4)
    (through, *_) = claim.derivation
    assert set(through.mechanisms) == {"counts", "enriched"}


def test_what_is_measured_of_a_log_that_stands_still_is_raw() -> None:
    """Times were noised since; what nobody proved still saw those of the source."""
    drawn = {"measures": {"timestamps", "Age"}, "proof": "published"}
    steps = [times(stability=None), enriched("Age", **drawn)]
    said = reasons([METRIC], steps, {"timestamps", "Age"})
    assert "enriched reads timestamps otherwise than through the order of events" in said


@pytest.mark.parametrize(
    ("steps", "released", "cause"),
    [
        # No step has made cases: what is added shows how many events the source's have.
        ([enriched("timestamps"), enriched("Age")], set(), "raw control-flow would reach"),
        ([enriched("timestamps", reads=set())], set(), "control-flow and metadata would reach"),
        # Cases are made after: what was added is gone.
        ([enriched("Age"), counts(), enriched("timestamps")], set(), "Age does not exist"),
        # Cases that were made have no raw times: whoever reads some reads the source's.
        (
            [counts(), enriched("timestamps"), enriched("Age", reads={"cost"})],
            set(),
            "raw cost would reach the released Age",
        ),
        (
            [counts(), enriched("Age", reads={"timestamps"}), enriched("timestamps")],
            set(),
            "raw timestamps would reach the released Age",
        ),
        # Noise that nobody proved, or that is charged for less than units.
        (
            [counts(), enriched("timestamps", proof="published"), enriched("Age")],
            set(),
            "raw control-flow and timestamps would reach",
        ),
        (
            [counts(), enriched("timestamps", currency="metric"), enriched("Age")],
            set(),
            "charged for metric privacy",
        ),
        # Noise on what one case more can change without bound.
        ([kanon(), counts(), enriched("timestamps"), enriched("Age")], set(), "after kanon"),
        # Released beside what is covered.
        ([counts(), enriched("timestamps"), enriched("Age")], {"cost"}, "cost cannot be released"),
        (
            [counts(), enriched("timestamps"), enriched("Age"), enriched("cost", currency="local")],
            {"cost"},
            "charged for local privacy",
        ),
        # All noise counts.
        ([counts(), *[enriched("timestamps", "Age")] * 3], set(), "cost epsilon 1.7"),
    ],
)
def test_a_whole_log_is_refused(steps: list[Step], released: set[str], cause: str) -> None:
    """Each condition, taken away alone."""
    assert cause in reasons([WHOLE], steps, {"timestamps", "Age", *released})


def test_columns_are_measured_as_the_source_has_them() -> None:
    """Two steps that enrich do not read each other: the second one measures the log."""
    steps = [counts(), enriched("Age", reads=set()), enriched("timestamps", measures={"Age"})]
    (claim,) = derive([WHOLE], steps, {"timestamps", "Age"}, Facts()).claims
    flow = follow_columns([*map(flow_step, steps)], {"timestamps", "Age"}, Facts())
    assert flow.columns["timestamps"].measured == {0, 2}
    assert flow.columns["Age"].measured == {0, 1}
    assert claim.cost.epsilon == pytest.approx(1.5, rel=1e-4)


def test_post_processing_is_free() -> None:
    """A step that reads only noised columns changes neither cost nor claim."""
    again = step("tidy", reads={"control-flow"}, writes={"control-flow"})
    assert reasons([DP], [counts(), again], set()) == ""


def test_k_after_dp_counts_rows() -> None:
    """k-anonymity after noise cannot satisfy k over cases."""
    assert "k would count released rows" in reasons([KANON], [counts(), kanon()], set())


def test_later_writer_breaks_k() -> None:
    """A step that writes the control flow after k-anonymisation takes the guarantee away."""
    shuffle = step("shuffle", reads={"control-flow"}, writes={"control-flow"})
    assert "last written by shuffle" in reasons([KANON], [kanon(), shuffle], set())


NEAR = TCloseness(kind="t-closeness", t=0.2, attribute="Age")

VARIED = LDiversity(kind="l-diversity", l=2, attribute="timestamps")


def closeness(column: str = "Age", **more: object) -> Step:
    """A step that lets values change places between classes."""
    given = {
        "reads": {"control-flow", column},
        "writes": {column},
        "stability": None,
        "goals": (0,),
    }
    return step("closeness", **(given | more))


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([kanon(goals=()), closeness()], ""),
        ([closeness()], ""),
        ([closeness(), kanon(goals=())], "kanon changes which cases form a class after closeness"),
        (
            [closeness(), step("coarse", reads={"Age"}, writes={"Age"})],
            "Age is last written by coarse",
        ),
        ([closeness(goals=(1,))], "which does not bring about t-closeness"),
        ([closeness(proof="published")], "only published"),
        ([counts(), closeness()], "t-closeness would count released rows"),
        ([], "Age is last written by no step"),
    ],
)
def test_claims_on_values_in_classes(steps: list[Step], cause: str) -> None:
    """The last writer of the attribute serves the goal, after the last writer of the control flow,
    on real cases.
    """
    found = reasons([NEAR], steps, {"Age"})
    assert cause in found
    assert bool(cause) == bool(found)


def test_cycle_times_void_a_claim_over_timestamps() -> None:
    """Whichever comes last: one claim or the other is not derived, and values that read times void
    it as well.
    """
    assert "timestamps is last written by times" in reasons(
        [VARIED, METRIC], [closeness("timestamps"), times()], {"timestamps"}
    )
    after = reasons(
        [METRIC, VARIED], [times(), closeness("timestamps", goals=(1,))], {"timestamps"}
    )
    assert "closeness runs after a noisy release: l-diversity would count" in after
    mixed = closeness(reads={"control-flow", "Age", "timestamps"}, goals=(1,))
    assert "closeness reads timestamps otherwise" in reasons(
        [METRIC, NEAR], [mixed, times()], {"timestamps", "Age"}
    )


def test_what_is_promised_about_probabilities_is_not_measured() -> None:
    """The basis of a claim says how it is known."""
    random = NEAR.model_copy(update={"distance": "stochastic", "t": 1.5})
    claims = derive([NEAR, random], [closeness(goals=(0, 1))], {"Age"}, Facts()).claims
    assert [claim.basis for claim in claims] == ["derived and measured", "derived"]


def test_times_given_control_flow() -> None:
    """k-anonymity first, noise on times after: two claims side by side, the second conditional."""
    derivation = derive([KANON, METRIC], [kanon(), times()], {"timestamps"}, Facts())
    assert derivation.causes == ()
    assert derivation.claims[1].given == ConditionedOn(columns=("control-flow", "metadata"))


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([kanon()], "raw timestamps would reach"),
        (
            [kanon(reads={"control-flow", "timestamps"}), times()],
            "kanon reads timestamps otherwise",
        ),
        (
            [kanon(), times(reads={"control-flow", "timestamps"}, measures=set())],
            "raw timestamps would reach",
        ),
        ([kanon(), times(event=DiscreteLaplace(scale=3600.0, sensitivity=7200))], "more than 1"),
        ([kanon(), times(), step("stamp", reads={"timestamps"}, writes={"timestamps"})], ""),
        ([times(), kanon(reads={"control-flow", "timestamps"})], ""),
    ],
)
def test_claims_on_times(steps: list[Step], cause: str) -> None:
    """A step that reads raw times voids the claim; one that reads noised times does not."""
    found = reasons([METRIC], steps, {"timestamps"})
    assert cause in found
    assert bool(cause) == bool(found)


GIVEN = DP.model_copy(
    update={"epsilon": 1.5, "over": ("timestamps", "Age"), "neighbours": "bounded"},
)


def drawn(*written: str, **more: object) -> Step:
    """A step that draws columns on a flow that is taken as known."""
    return enriched(*written, **({"measures": set(written), "goals": (1,)} | more))


def test_values_drawn_on_a_known_flow() -> None:
    """k-anonymity first, then times and values drawn anew: the second claim takes the flow and what
    else is released as known, and neither times nor values.
    """
    released = {"timestamps", "Age", "ward"}
    steps = [kanon(), drawn("timestamps"), drawn("Age")]
    derivation = derive([KANON, GIVEN], steps, released, Facts())
    assert derivation.causes == ()
    claim = derivation.claims[1]
    assert claim.given == ConditionedOn(columns=("control-flow", "metadata", "ward"))
    said = [reason.columns for reason in claim.derivation[:2]]
    assert said == [("Age", "timestamps")] * 2
    # Both steps are paid for.
    assert claim.cost.epsilon == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([kanon(), drawn("timestamps"), drawn("Age")], ""),
        ([kanon(), drawn("timestamps", "Age")], ""),
        ([kanon(), drawn("timestamps")], "raw Age would reach the released ones without noise"),
        # Noise for a unit more or less hides no other values of it.
        (
            [kanon(), drawn("timestamps"), enriched("Age", goals=(1,))],
            "enriched draws noise for one unit more or less",
        ),
        ([counts(), drawn("timestamps", "Age")], "counts draws noise for one unit more or less"),
        # A flow that was made by what is to be hidden.
        ([kanon(reads={"control-flow", "Age"}), drawn("timestamps", "Age")], "kanon reads Age"),
        ([kanon(), drawn("timestamps", "Age", reads={"control-flow", "timestamps"})], "raw "),
        (
            [kanon(), drawn("timestamps", "Age"), step("w", reads={"Age"}, writes={"ward"})],
            "",
        ),
        (
            [step("w", reads={"Age"}, writes={"ward"}), kanon(), drawn("timestamps", "Age")],
            "w reads Age, and writes ward",
        ),
        (
            [kanon(), drawn("timestamps", "Age", event=DiscreteLaplace(scale=0.5))],
            "more than 1.5",
        ),
        ([kanon(), drawn("timestamps", "Age", proof="published")], "only published"),
    ],
)
def test_claims_on_values_drawn_on_a_known_flow(steps: list[Step], cause: str) -> None:
    found = reasons([KANON, GIVEN], steps, {"timestamps", "Age", "ward"})
    assert cause in found
    assert bool(cause) == bool(found)


def test_who_takes_the_flow_as_known_gives_no_claim_about_presence() -> None:
    """Its noise hides values; that somebody's cases are there shows by the flow."""
    whole = reasons([WHOLE], [kanon(), drawn("timestamps", "Age")], {"timestamps", "Age"})
    assert "raw control-flow would reach the released timestamps" in whole


def test_unconditional_dp_over_times_needs_no_raw_control_flow() -> None:
    """Noise on times that keeps the rows of the log is no DP over times without the control
    flow.
    """
    goal = DifferentialPrivacy(kind="differential-privacy", epsilon=1.0, over=("timestamps",))
    assert "raw control-flow would reach the released timestamps" in reasons(
        [goal], [times(currency="unit")], {"timestamps"}
    )


def test_plan_survives_json(dp_policy: Policy) -> None:
    """A plan read back from its JSON is the same plan."""
    plan = make_plan(dp_policy)
    assert plan == type(plan).model_validate_json(plan.model_dump_json(by_alias=True))
