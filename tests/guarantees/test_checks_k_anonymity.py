"""The independent checker, against a count in plain Python."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import EventLog
from contracts.sample_logs import courses_of, log_of
from guarantees.measuring import require, smallest_group

VARIANTS = KAnonymity(kind="k-anonymity", k=2)
PREFIXES = KAnonymity(kind="k-anonymity", k=2, scope="prefixes")
SEQUENCES = st.lists(st.text("abc", max_size=4), max_size=20)


@given(SEQUENCES)
def test_counts_variants_and_prefixes_as_python_does(sequences: list[str]) -> None:
    """Every variant; every prefix of every case, the empty one included."""
    log = log_of(sequences)
    variants = Counter(courses_of(log))
    prefixes = Counter(
        sequence[:length] for sequence in courses_of(log) for length in range(len(sequence) + 1)
    )
    assert min(variants.values(), default=None) == smallest_group(log, VARIANTS)
    assert min(prefixes.values(), default=None) == smallest_group(log, PREFIXES)


def test_a_short_variant_may_hide_behind_a_longer_one_as_a_prefix() -> None:
    """One case of a beside two of ab."""
    log = log_of(["a", "ab", "ab"])
    assert smallest_group(log, VARIANTS) == 1
    assert smallest_group(log, PREFIXES) == 2


def test_empty_log_holds() -> None:
    """There is nobody to single out."""
    require(log_of([]), VARIANTS)
    assert smallest_group(log_of([]), PREFIXES) is None


def test_a_broken_guarantee_says_what_was_seen() -> None:
    """The guarantee's sentence, and the observed size."""
    with pytest.raises(
        GuaranteeBroken, match=r"the smallest group holds 1 released cases.*2-anonymity"
    ):
        require(log_of(["a", "b", "b"]), VARIANTS)
    require(log_of(["b", "b"]), VARIANTS)


def test_attributes_tell_classes_apart() -> None:
    """Case attributes and event attributes alike; missing is a value, and so it is where no case
    has the attribute.
    """
    log = log_of(["ab", "ab", "ab", "ab"])
    log = EventLog(
        log.events.with_columns(ward=pl.Series(["x", None, "x", None, "x", "y", "x", "y"])),
        log.cases.with_columns(pl.Series("case:Age", [40, 40, None, None])),
        log.offsets,
    )
    assert (
        smallest_group(log, KAnonymity(kind="k-anonymity", k=2, over=("control-flow", "ward"))) == 2
    )
    assert (
        smallest_group(
            log, KAnonymity(kind="k-anonymity", k=2, over=("control-flow", "ward", "case:Age"))
        )
        == 2
    )
    assert smallest_group(log, KAnonymity(kind="k-anonymity", k=2, over=("case:row",))) == 1
    assert smallest_group(log, KAnonymity(kind="k-anonymity", k=2, over=("case:Name",))) == 4
    with pytest.raises(GuaranteeBroken, match="no column 'timestamps'"):
        smallest_group(log, KAnonymity(kind="k-anonymity", k=2, over=("timestamps",)))


def test_counts_distinct_units() -> None:
    """Three cases of one person are one unit; cases without the attribute are none."""
    log = log_of(["a"] * 5 + ["b"] * 2)
    owners = pl.Series("case:Person", ["p", "p", "p", "q", "q", None, None])
    log = EventLog(log.events, log.cases.with_columns(owners), log.offsets)
    units = KAnonymity(kind="k-anonymity", k=2, count="units")
    assert smallest_group(log, units, Unit(attribute="case:Person", max_cases=3)) == 0
    assert smallest_group(log, units) == 2
    assert (
        smallest_group(
            log.keep_cases(pl.Series([0, 1, 2]).to_numpy()), units, Unit(attribute="case:Person")
        )
        == 1
    )
