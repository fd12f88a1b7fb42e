"""Layers of a directly-follows graph."""

from hypothesis import given
from hypothesis import strategies as st

from cloakwork.report.drawings import BEGIN, END, WIDEST, layers_of

NAMES = st.sampled_from("abcdefghij")


def test_layers_lead_from_the_beginning_to_the_end():
    links = [(BEGIN, "a"), ("a", "b"), ("b", END), ("a", "c"), ("c", "b"), ("b", "a"), ("b", "b")]
    assert layers_of(links) == [[BEGIN], ["a"], ["c"], ["b"], [END]]


def test_wide_layers_are_parted():
    links = [(BEGIN, "a"), *(("a", name) for name in "bcdef")]
    assert [len(names) for names in layers_of(links)] == [1, 1, 3, 2, 1]


@given(st.lists(st.tuples(NAMES | st.just(BEGIN), NAMES | st.just(END)), max_size=15, unique=True))
def test_every_activity_has_one_place(links):
    layers = layers_of(links)
    placed = [name for names in layers for name in names]
    assert sorted(placed) == sorted({BEGIN, END, *(name for link in links for name in link)})
    assert max(map(len, layers)) <= WIDEST
    assert (layers[0], layers[-1]) == ([BEGIN], [END])
