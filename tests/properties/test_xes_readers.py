"""The fast XES reader equals the full parser, or declines; and what is written is read back."""

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloakwork.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log, write_log, xes_fast
from cloakwork.log.formats.xes_fast import Declined, fast_chunks
from cloakwork.log.formats.xes_full import full_chunks
from cloakwork.log.formats.xes_values import Conflicting
from conftest import runs
from log_equality import assert_same_log, read_by

SETTINGS = settings(
    max_examples=runs(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# What XML 1.0 can say, with the troublesome characters drawn often.
XML_TEXT = st.text(
    st.one_of(
        st.sampled_from(list("<>&\"'/ =;#x\t\n\ré😀\u2028\x85\ufffd")),
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
    ),
    max_size=14,
)
KEYS = st.sampled_from(["x", "y z", "cost:total", "é", "a&b", ACTIVITY, TIMESTAMP, "case:odd"])
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


def _zoned(moment: datetime, zone: str) -> str:
    return moment.isoformat() + zone


TIMES = st.builds(
    _zoned, MOMENTS, st.sampled_from(["Z", "+00:00", "+02:00", "-11:30", "+0530", ""])
)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "string": XML_TEXT,
    "id": XML_TEXT,
    "int": st.integers(-(2**63), 2**63 - 1).map(str),
    "float": st.floats().map(str),
    "boolean": st.sampled_from(["true", "false", "True", "0", "1"]),
    "date": TIMES,
}


@st.composite
def attributes(draw: st.DrawFn) -> str:
    """One attribute element, written plainly or not."""
    key = draw(KEYS)
    kind = "date" if key == TIMESTAMP else draw(st.sampled_from(sorted(VALUES)))
    value = draw(VALUES[kind])
    plain = draw(st.integers(0, 9)) > 0
    quoted = quoteattr(
        value, {"\n": "&#10;", "\t": "&#9;", "\r": "&#13;", '"': "&quot;"} if plain else {}
    )
    parts = [f"key={quoteattr(key)}", f"value={quoted}"]
    blank = draw(st.sampled_from(["", " ", "\n"]))
    if draw(st.integers(0, 19)) == 0:
        parts.reverse()
    nested = (
        ""
        if plain
        else draw(st.sampled_from(["", '<string key="n" value="1"/>', "<!-- <event> -->"]))
    )
    end = f">{nested}</{kind}>" if nested or draw(st.integers(0, 29)) == 0 else f"{blank}/>"
    after = draw(st.sampled_from(["", "\n", "\r\n\t"]))
    return f"<{kind} {' '.join(parts)}{end}{after}"


def _element(name: str, inner: list[str], apart: str) -> str:
    return f"<{name}>{apart}{''.join(inner)}</{name}>{apart}"


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A well-formed XES file."""
    apart = draw(st.sampled_from(["", "\n", "\r\n\t", " "]))
    event = st.lists(attributes(), max_size=4).map(lambda inner: _element("event", inner, apart))
    part = st.one_of(
        event,
        event,
        attributes(),
        st.sampled_from(["<event/>", "<!-- c -->", "<list key='l'/>", ""]),
    )
    trace = st.lists(part, max_size=5).map(lambda inner: _element("trace", inner, apart))
    outside = st.sampled_from(["", "<event/>", "<!-- <trace> -->", '<string key="s" value="t"/>'])
    traces = draw(st.lists(st.one_of(trace, trace, trace, trace, outside), max_size=5))
    head = draw(
        st.sampled_from(
            ["", '<?xml version="1.0"?>\n', "\ufeff", '<?xml version="1.0" encoding="utf-8" ?>']
        )
    )
    opening = draw(
        st.sampled_from(
            ["<log>", '<log xmlns="http://www.xes-standard.org/">\n', "<log><!-- <trace> -->"]
        )
    )
    return (head + opening + draw(outside) + "".join(traces) + "</log>").encode()


def _both(path: Path) -> tuple[EventLog | None, EventLog | LogError]:
    """What the fast reader gives (None: declined), and what the full parser gives or why it
    refuses.
    """
    try:
        fast = read_by(fast_chunks, path)
    except (Declined, Conflicting, LogError):
        fast = None
    try:
        return fast, read_by(full_chunks, path)
    except LogError as refusal:
        return fast, refusal


def _agree(path: Path) -> bool:
    """Check the property for one file; whether the fast reader took it."""
    fast, full = _both(path)
    if fast is not None:
        assert not isinstance(full, LogError), full
        assert_same_log(full, fast)
    return fast is not None


@pytest.fixture(params=[24, 97, 1 << 20])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read in chunks of so many bytes, so that every construct meets a chunk's end."""
    monkeypatch.setattr(xes_fast, "CHUNK", request.param)
    return int(request.param)


@SETTINGS
@given(content=logs())
def test_fast_equals_full_or_declines(content: bytes, chunks: int, tmp_path: Path) -> None:
    """On every well-formed file, in chunks of any size."""
    path = tmp_path / "log.xes"
    path.write_bytes(content)
    _agree(path)


def test_the_last_of_several_kinds_of_value_counts(tmp_path: Path) -> None:
    """Also where a kind comes again after another: one row's runs interleave."""
    yes, day = '<boolean key="x" value="true"/>', '<date key="x" value="2000-01-01T00:00:00Z"/>'
    path = tmp_path / "log.xes"
    path.write_text(f"<log><trace><event>{yes}{day}{yes}</event></trace></log>", "utf-8")
    assert read_log(path).events["x"].to_list() == ["true"]
    path.write_text(f"<log><trace><event>{day}{yes}{day}</event></trace></log>", "utf-8")
    assert read_log(path).events["x"].to_list() == ["2000-01-01T00:00:00Z"]


PIECES = (
    b"\" ' < > & / /> </event> <event> <trace> </trace> </log> ]]> <!-- --> <![CDATA[ <?x?> &amp; "
    b"&#0; &#xD800; x: = <log> <event/> <trace/>"
).split()
PIECES += [b"<!DOCTYPE x>", b"<string key=", b" value=", b'<string key="k" value="v"/>']
PIECES += [bytes([code]) for code in b"\0\x0b\xff\xc3 \n\r"]
# What is no character, half of a pair, longer than it need be, or a blank to some only.
PIECES += [b"\xef\xbf\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xc2\xa0", b"\xe2\x80\xa8"]
PLAIN = (Path(__file__).parents[1] / "logs" / "edge" / "all-types.xes").read_bytes()
PLAIN += (Path(__file__).parents[1] / "logs" / "edge" / "entities.xes").read_bytes()
PLAIN = PLAIN.replace(b"</log>\n" + PLAIN[: PLAIN.index(b"<trace>")], b"", 1)


@SETTINGS
@given(seed=st.integers(0, 2**32 - 1))
def test_no_damage_makes_the_readers_disagree(seed: int, chunks: int, tmp_path: Path) -> None:
    """A plain file with a few pieces inserted, removed or exchanged: what the fast reader takes,
    the full one takes alike.
    """
    chance = random.Random(seed)
    content = PLAIN
    for _ in range(chance.randint(1, 3)):
        tokens = [match.start() for match in re.finditer(rb'["<>/&\n]', content)]
        start = chance.choice(
            [chance.choice(tokens), chance.randrange(len(content))]
        ) + chance.randint(0, 1)
        end = start + chance.choice([0, 0, 0, 1, 2, 9])
        content = content[:start] + chance.choice([*PIECES, b""]) + content[end:]
    path = tmp_path / "log.xes"
    path.write_bytes(content)
    _agree(path)


def test_the_fast_reader_takes_the_undamaged_file(chunks: int, tmp_path: Path) -> None:
    """Otherwise the test above would test nothing."""
    path = tmp_path / "log.xes"
    path.write_bytes(PLAIN)
    assert _agree(path)


@st.composite
def event_logs(draw: st.DrawFn) -> EventLog:
    """An event log with attributes of every type, in time order."""
    lengths = draw(st.lists(st.integers(1, 4), max_size=5))
    count = sum(lengths)

    def column(name: str, values: st.SearchStrategy[object], dtype: pl.DataType) -> pl.Series:
        return pl.Series(
            name, draw(st.lists(st.none() | values, min_size=count, max_size=count)), dtype=dtype
        )

    start = draw(MOMENTS.filter(lambda moment: moment.year < 9000)).replace(tzinfo=UTC)
    times = pl.Series(
        TIMESTAMP,
        [start + timedelta(microseconds=7 * row) for row in range(count)],
        dtype=TIME_TYPE,
    )
    events = pl.DataFrame(
        [
            pl.Series(
                ACTIVITY, draw(st.lists(XML_TEXT, min_size=count, max_size=count)), dtype=pl.String
            ),
            times,
            column("text", XML_TEXT, pl.String()),
            column("whole", st.integers(-(2**63), 2**63 - 1), pl.Int64()),
            column("decimal", st.floats(allow_nan=False), pl.Float64()),
            column("truth", st.booleans(), pl.Boolean()),
            column("moment", MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)), TIME_TYPE),
        ]
    )
    cases = pl.DataFrame(
        {CASE_ID: [str(row) for row in range(len(lengths))]}, schema={CASE_ID: pl.String}
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    kept = [
        series.name
        for series in events
        if series.null_count() < len(series) or series.name in {ACTIVITY, TIMESTAMP}
    ]
    return EventLog(events.select(kept), cases, offsets)


@SETTINGS
@given(log=event_logs())
def test_what_is_written_as_xes_is_read_back(log: EventLog, tmp_path: Path) -> None:
    """Every value, exactly; by the fast reader, for that is what the writer is plain for."""
    path = tmp_path / "log.xes"
    write_log(log, path, "xes")
    if log.cases.height:
        read_by(fast_chunks, path)
    back = read_log(path)
    order = log.events.columns
    assert sorted(order) == sorted(back.events.columns)
    assert_same_log(log, EventLog(back.events.select(order), back.cases, back.offsets))


@SETTINGS
@given(log=event_logs())
def test_what_is_written_as_parquet_is_read_back(log: EventLog, tmp_path: Path) -> None:
    """Every value, exactly."""
    path = tmp_path / "log.parquet"
    write_log(log, path, "parquet")
    assert_same_log(log, read_log(path))


@SETTINGS
@given(log=event_logs())
def test_csv_keeps_every_text(log: EventLog, tmp_path: Path) -> None:
    """Types are guessed from the values and the empty text is a missing one; texts otherwise
    survive.
    """
    path = tmp_path / "log.csv.gz"
    write_log(log, path, "csv")
    back = read_log(path)
    expected = log.events.select(pl.when(pl.col(ACTIVITY) != "").then(ACTIVITY), TIMESTAMP)
    assert expected.to_dict(as_series=False) == back.events.select(ACTIVITY, TIMESTAMP).to_dict(
        as_series=False
    )
