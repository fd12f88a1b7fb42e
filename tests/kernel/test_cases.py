"""What a query sees: cases, by their own labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.kernel import Cases, Entries
from kernel.small import batch

VARIANTS = st.lists(st.lists(st.sampled_from("abc"), max_size=4).map(tuple), max_size=6)


def test_arrays_are_read_only():
    """A query cannot change what the next one sees."""
    cases = batch(["ab"])
    for array in (cases.codes, cases.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@given(VARIANTS)
def test_views_agree(variants):
    """Variants, lengths, and the case and place of every event."""
    cases = batch(variants)
    assert len(cases) == len(variants)
    assert cases.variants() == variants
    assert cases.lengths.tolist() == [len(variant) for variant in variants]
    flat = [(row, place) for row, each in enumerate(variants) for place in range(len(each))]
    assert list(zip(cases.case_of.tolist(), cases.place.tolist(), strict=True)) == flat


@given(VARIANTS, st.permutations("abcd"), st.integers(0, 4))
def test_labels_are_coded_by_the_querys_own_list(variants, labels, known):
    """And not by the alphabet of the batch; those left out are -1, or left away."""
    labels = labels[:known]
    cases, turned = batch(variants), batch(variants, alphabet="dcba")
    place = {label: code for code, label in enumerate(labels)}
    expected = [place.get(label, -1) for variant in variants for label in variant]
    assert cases.coded(labels).tolist() == turned.coded(labels).tolist() == expected
    within = [tuple(label for label in variant if label in place) for variant in variants]
    assert cases.within(labels).variants() == turned.within(labels).variants() == within
    domain = list(dict.fromkeys(variants))[::2]
    among = [domain.index(variant) if variant in domain else -1 for variant in variants]
    assert cases.among(domain).tolist() == among


@given(VARIANTS, st.data())
def test_cases_are_taken_in_any_order(variants, data):
    rows = data.draw(st.lists(st.integers(0, len(variants) - 1))) if variants else []
    taken = batch(variants).take(np.array(rows, np.int64))
    assert taken.variants() == [variants[row] for row in rows]


def test_an_empty_batch_is_a_batch():
    cases = Cases((), np.zeros(0, np.int64), np.zeros(1, np.int64))
    assert len(cases) == 0
    assert cases.variants() == []
    assert len(cases.coded(["a"])) == len(Entries.one_each(cases).case) == 0


def test_one_entry_each():
    """None where the code is negative, key 0 where there is none."""
    cases = batch(["a", "b", "c"])
    coded = Entries.one_each(cases, np.array([4, -1, 2]))
    assert (coded.case.tolist(), coded.code.tolist()) == ([0, 2], [4, 2])
    assert coded.value.tolist() == [1, 1]
    assert Entries.one_each(cases).code.tolist() == [0, 0, 0]
    named = Entries.of_variants(batch(["ab", "", "c"]), 8)
    assert (named.start.tolist(), named.stop.tolist()) == ([0, 2, 2], [2, 2, 3])
    assert named.value.tolist() == [8, 8, 8]
