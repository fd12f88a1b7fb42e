"""Limits: how they are written, what is dropped instead of refused, and that feeding a parser is
linear.
"""

from datetime import date
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import cloakwork
from cloakwork.errors import LogError
from cloakwork.log.formats import read_log
from cloakwork.log.formats.xes_full import Feeder
from cloakwork.log.limits import Limits, current_limits, parse_limits, refuse_unpacked

XES = (
    '<log><trace><string key="concept:name" value="1"/>'
    '<event><string key="concept:name" value="a"/>{}</event></trace>'
    '<trace><string key="concept:name" value="2"/>'
    '<event><string key="concept:name" value="b"/></event></trace></log>'
)
LONG = "x" * 300
SMALL = Limits(value_size=200)


def files(folder: Path) -> list[Path]:
    """The same log in each format, one value of 300 bytes in it; both XES readers meet it."""
    (folder / "plain.xes").write_text(XES.format(f'<string key="note" value="{LONG}"/>'))
    (folder / "odd.xes").write_text(XES.format(f"<!-- --><string key='note' value='{LONG}'/>"))
    (folder / "log.csv").write_text(
        f"case_id,activity,timestamp,note\n1,a,2024-03-01,{LONG}\n2,b,2024-03-01,n\n"
    )
    pl.read_csv(folder / "log.csv").write_parquet(folder / "log.parquet")
    return [folder / name for name in ("plain.xes", "odd.xes", "log.csv", "log.parquet")]


def test_limits_as_people_write_them() -> None:
    assert parse_limits("") == Limits()
    assert parse_limits(" value-size=64MiB, attributes = 20000,") == Limits(
        value_size=64 << 20, attributes=20_000
    )


@pytest.mark.parametrize(
    "text", ["value-size", "values=3", "attributes=0", "attributes=-1", "attributes=1e3", "a=b=c"]
)
def test_limits_that_cannot_be_read_are_one_line(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOAKWORK_LIMITS", text)
    with pytest.raises(LogError) as refusal:
        current_limits()
    assert str(refusal.value).startswith("CLOAKWORK_LIMITS: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("field", ["value_size", "attributes", "unpacked_size", "unpack_ratio"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**{field: 0})


def test_the_environment_raises_and_lowers_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a log is read."""
    for path in files(tmp_path):
        assert read_log(path).events["note"].drop_nulls()[0] == LONG
        monkeypatch.setenv("CLOAKWORK_LIMITS", "value-size=200")
        with pytest.raises(LogError, match="value-size"):
            read_log(path)
        monkeypatch.delenv("CLOAKWORK_LIMITS")


def test_what_exceeds_them_case_by_case_can_be_dropped(tmp_path: Path) -> None:
    """The value is missing; all else is as without the limit."""
    for path in files(tmp_path):
        whole, cut = read_log(path), read_log(path, limits=SMALL, on_excess="drop")
        assert cut.events["concept:name"].to_list() == whole.events["concept:name"].to_list()
        found = cut.events["note"].to_list() if "note" in cut.events.columns else [None, None]
        assert found[0] is None
        assert "values over the size limit, left out: 1" in cut.notes


def test_no_value_of_one_case_stops_a_differentially_private_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str
) -> None:
    """With or without the case that holds it there is a release; under k-anonymity alone the file
    is refused.
    """
    from conftest import EXAMPLES

    text = read_log(EXAMPLES / "hospital.csv.gz").to_polars().head(200)
    text = text.with_columns(
        pl.when(pl.int_range(pl.len()) == 7)
        .then(pl.lit(LONG))
        .otherwise("concept:name")
        .alias("concept:name")
    )
    path = tmp_path / "log.parquet"
    text.write_parquet(path)
    monkeypatch.setenv("CLOAKWORK_LIMITS", "value-size=200")
    private = cloakwork.make_plan(cloakwork.load_policy("policies/dp-control-flow.yaml"))
    assert cloakwork.apply(private, path, ledger=ledger).log.cases.height >= 0
    grouped = cloakwork.make_plan(cloakwork.load_policy("policies/kanon-control-flow.yaml"))
    with pytest.raises(LogError, match="value-size"):
        cloakwork.apply(grouped, path, ledger=ledger)


def test_claims_name_the_limits_on_whole_files() -> None:
    """They bound the claim's domain."""
    plan = cloakwork.make_plan(cloakwork.load_policy("policies/dp-control-flow.yaml"))
    stated = [record.kind for claim in plan.claims for record in claim.assumptions]
    assert "within-limits" in stated


def test_parquet_that_stands_for_far_more_rows_is_refused(tmp_path: Path) -> None:
    """Equal values take no room in the file."""
    path = tmp_path / "log.parquet"
    count = 6_000_000
    columns = {name: pl.repeat(1, count, dtype=pl.Int8) for name in ("case_id", "activity")}
    pl.select(**columns, timestamp=pl.repeat(date(2024, 3, 1), count)).write_parquet(path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(LogError, match="unpack-ratio"):
        read_log(path)


class Counting(SimpleNamespace):
    """A parser that never finds the end of its token, and counts what it must read again each
    time.
    """

    CurrentByteIndex, CurrentLineNumber = 0, 1

    def Parse(self, data: bytes, _last: bool) -> None:  # noqa: N802 -- expat's name
        self.fed += len(data)
        self.read += self.fed


def test_feeding_a_parser_is_linear_whatever_its_version() -> None:
    """A token of 1,000 pieces: a parser that begins it anew each time it is fed reads it over
    twice, not 500 times.
    """
    parser = Counting(fed=0, read=0)
    feeder = Feeder(Path("x"), parser, None)  # type: ignore[arg-type]
    for _ in range(1000):
        feeder.feed(b"x" * 1000)
    feeder.feed(b"", last=True)
    assert parser.fed == 10**6
    assert parser.read <= 4 * 10**6


def test_an_endless_token_is_refused_before_it_is_held() -> None:
    parser = Counting(fed=0, read=0)
    feeder = Feeder(Path("x"), parser, Limits(value_size=1000))  # type: ignore[arg-type]
    with pytest.raises(LogError, match="value-size"):
        for _ in range(10):
            feeder.feed(b"x" * (1 << 20))
    assert parser.fed <= 3 << 20


def test_a_device_without_a_size_is_refused_in_one_line() -> None:
    """Of /dev/zero no ratio can be told."""
    with pytest.raises(LogError, match="the limit"):
        refuse_unpacked(Path("log.csv"), 1 << 40, 0, Limits(unpacked_size=1 << 50), "it unpacks to")
