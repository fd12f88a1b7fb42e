"""Whole logs, attributes and times made of noisy answers: one case more or less, or one value,
changes no other case's values; and what such noise does not protect.
"""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from pydantic import JsonValue

from cloakwork import read_log
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.measured import enriched, measured_cases
from cloakwork.engines.noised import codes_of
from cloakwork.errors import PlanImpossible
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.base import Gives, Offer, PartOfGoal
from cloakwork.mechanisms.registry import OfPackage, Package
from cloakwork.mechanisms.steps import Enrichment, Listed, PublicValues
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.mechanisms.timestamps.tables import offered_params
from cloakwork.noise import reproducible
from cloakwork.plan.choose import step_of
from cloakwork.plan.planner import derive, make_plan
from cloakwork.run.prepare import _with_source_texts
from cloakwork.testing.contract_logs import log_of
from plan.conftest import policy_of
from plan.toy_parts import NORM, PartParams, ToyTimes, with_toys

DOMAINS = [("5", "7"), ("5", "5.0"), ("5.0", "05"), ("5", "05"), (5, "5"), (5, 7.0), ("5.00", "5")]


def measured_codes(log: EventLog, domain: tuple[object, ...]) -> list[int]:
    """Of each case, in their order, what attributes/histogram counts ``drug`` as."""
    prepared = _with_source_texts(log, ["drug"])
    cases = measured_cases(prepared, CaseRows(("drug",)), reproducible(1)).cases
    attribute = MeasuredAttribute(name="drug", domain=domain)
    found = attribute.codes(cases.columns["drug"])
    order = reproducible(1).permutation(len(cases))
    return [int(found[place]) for place in np.argsort(order)]


def local_codes(log: EventLog, domain: tuple[object, ...]) -> list[int]:
    """Of each event, what attributes/randomised-response starts from."""
    prepared = _with_source_texts(log, ["drug"])
    return codes_of(prepared.events["drug"].alias(""), PublicValues(domain=domain)).tolist()


def frame(values: list[object], kind: pl.DataType | None = None) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "case:concept:name": [f"c{row}" for row in range(len(values))],
            "concept:name": ["a"] * len(values),
            "time:timestamp": [None] * len(values),
            "drug": pl.Series(values, dtype=kind),
        }
    )


@pytest.mark.parametrize("found", [measured_codes, local_codes])
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_decimal_with_many_digits_changes_no_other_value(tmp_path, domain, found):
    """Its column stays text, where it would be one of floats."""
    path, kind = tmp_path / "log.parquet", pl.Decimal(30, 2)

    def codes(*more: Decimal) -> list[int]:
        frame([Decimal("5.00"), Decimal("7.00"), *more], kind).write_parquet(path)
        return found(read_log(path), domain)[:2]

    assert codes() == codes(Decimal("1234567890123456789.12"))


@pytest.mark.parametrize("found", [measured_codes, local_codes])
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_missing_value_changes_no_other_one_of_a_pandas_table(domain, found):
    """Beside it whole numbers are floats."""
    whole = EventLog.from_polars(frame([5, 7, 9]))
    floats = EventLog.from_polars(frame([5.0, 7.0, None]))
    assert found(whole, domain)[:2] == found(floats, domain)[:2]


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (("x", 10.5, True), ["x", "10.5", "true"]),
        ((True, 1), ["true", "1"]),
        ((2**63, 1), [str(2**63), "1"]),
        (("x", None), ["x", None]),
        ((1, 2.5), [1.0, 2.5]),
        ((True, False), [True, False]),
    ],
)
def test_a_domain_of_several_types_stops_no_run(domain, values):
    """Its values are released as texts."""
    listed = Listed(np.arange(len(domain)), domain)
    log = enriched(log_of([["a"] * len(domain)]), Enrichment({"drug": listed}))
    assert log.events["drug"].to_list() == values


def trace(key: str, value: str) -> str:
    return (
        f'<trace><event><string key="concept:name" value="a"/>'
        f'<{key} key="drug" value="{value}"/></event></trace>'
    )


@pytest.mark.parametrize("suffix", ["xes", "csv"])
@pytest.mark.parametrize("kind", ["date", "time"])
def test_a_text_changes_no_day_beside_it(tmp_path, suffix, kind):
    """A column of times becomes one of text; days are those that are written, not those in UTC."""
    path = tmp_path / f"log.{suffix}"
    days = ("2024-01-31T23:30:00-05:00", "2024-02-01T00:30:00+01:00", "2024-02-03T00:00:00Z")
    low, high = (19_753, 19_759) if kind == "date" else (19_753 * 86_400, 19_759 * 86_400)
    attribute = MeasuredAttribute(name="drug", range=(low, high), type=kind, fineness=1)

    def codes(*more: str) -> list[int]:
        if suffix == "csv":
            header = "case:concept:name,concept:name,time:timestamp,drug"
            rows = [
                f"c{row},a,2024-01-01T00:00:00Z,{day}" for row, day in enumerate((*days, *more))
            ]
            path.write_text("\n".join([header, *rows]))
        else:
            dated = [trace("date", day) for day in days]
            path.write_text(f"<log>{''.join([*dated, *(trace('string', x) for x in more)])}</log>")
        prepared = _with_source_texts(read_log(path), ["drug"])
        cases = measured_cases(prepared, CaseRows(("drug",)), reproducible(1)).cases
        found = attribute.codes(cases.columns["drug"])
        order = reproducible(1).permutation(len(cases))
        return [int(found[place]) for place in np.argsort(order)]

    alone = codes()
    assert codes("unknown") == [*alone, -1]
    assert -1 not in alone
    if kind == "date":
        assert alone == [0, 1, 3]


BOUNDED = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-6, over=(TIMESTAMPS,), neighbours="bounded"
)


class BoundedTimes(ToyTimes):
    """Times for raw cases, by noise for a case more or less: half of what other times need."""

    proof = "kernel"
    gives = (Gives("differential-privacy", TIMESTAMPS),)

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PartParams]:
        return Offer(PartParams(columns=(TIMESTAMPS,), sigma=4.0 * NORM), "noisy means")


def test_sums_over_cases_give_no_privacy_between_logs_of_other_times():
    """Other times of a unit are one case less and one more: the claim was over half the move."""
    mechanism = OfPackage(BoundedTimes(), Package("toy/times", "toys 1.0"))
    policy = policy_of(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": CONTROL_FLOW},
            "time:timestamp": {"role": "timestamp"},
            "*": {"treatment": "drop"},
        },
        guarantees=[BOUNDED.model_dump(mode="json")],
        expose={CONTROL_FLOW: "public anyway", "metadata": "public anyway"},
        mechanisms={"allow": ["bound", "attributes/*", "toy/times"]},
    )
    with pytest.raises(PlanImpossible, match="one unit more or less"):
        make_plan(policy, catalogue=with_toys(mechanism))


def test_our_own_tables_give_none_either():
    """Steps that no planner made."""
    facts = Facts()
    params = offered_params(PartOfGoal((TIMESTAMPS,), 0.1, 0.0), facts)
    step = step_of(TimestampHistogram(), params, facts, why="test", goals=(0,))
    found = derive([BOUNDED], [step], {TIMESTAMPS}, facts)
    assert not found.claims
    assert "one unit more or less" in found.causes[0].reason


def test_no_value_is_locally_private_that_says_which_cases_stay():
    """Of two cases of ward a one is released, of one of a and one of b both are."""
    policy = policy_of(
        unit={"attribute": "case:ward", "max_cases": 1},
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": CONTROL_FLOW},
            "case:ward": {"role": "sensitive", "domain": ["a", "b"]},
            "*": {"treatment": "drop"},
        },
        guarantees=[{"kind": "local-dp", "epsilon": 1.0, "over": ["case:ward"]}],
        expose={CONTROL_FLOW: "public anyway", "metadata": "public anyway"},
    )
    with pytest.raises(PlanImpossible, match="which cases are released follows from raw case:ward"):
        make_plan(policy)
