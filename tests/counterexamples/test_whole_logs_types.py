"""One case more or less, or one value, changes no other case's values, whatever its type."""

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from cloakwork import read_log
from cloakwork.engines.measured import enriched, measured_of
from cloakwork.engines.noised import codes_of
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.steps import Enrichment, Listed, PublicValues
from cloakwork.noise import reproducible
from cloakwork.run.prepare import _with_source_texts
from cloakwork.testing.contract_logs import log_of

DOMAINS = [("5", "7"), ("5", "5.0"), ("5.0", "05"), ("5", "05"), (5, "5"), (5, 7.0), ("5.00", "5")]


def measured_codes(log: EventLog, domain: tuple[object, ...]) -> list[int]:
    """Of each case, in their order, what attributes/histogram counts ``drug`` as."""
    prepared = _with_source_texts(log, ["drug"])
    rows = CaseRows(("drug",)).of(prepared)
    cases = measured_of(rows, reproducible(1)).cases
    attribute = MeasuredAttribute(name="drug", domain=domain)
    found = attribute.codes(cases.columns["drug"])
    order = reproducible(1).permutation(rows.height)
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
        rows = CaseRows(("drug",)).of(prepared)
        found = attribute.codes(measured_of(rows, reproducible(1)).cases.columns["drug"])
        order = reproducible(1).permutation(rows.height)
        return [int(found[place]) for place in np.argsort(order)]

    alone = codes()
    assert codes("unknown") == [*alone, -1]
    assert -1 not in alone
    if kind == "date":
        assert alone == [0, 1, 3]
