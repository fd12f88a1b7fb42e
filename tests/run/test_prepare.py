"""What a log is given before the first step."""

from types import SimpleNamespace

from cloakwork.base.lineage import CONTROL_FLOW, Lineage
from cloakwork.run import prepare


def planned(*lineages, released=()):
    steps = [SimpleNamespace(lineage=lineage) for lineage in lineages]
    return SimpleNamespace(steps=steps, releases=lambda name: name in released)


def test_what_is_measured_is_read_as_the_characters_of_the_source():
    """But for what the source's own values are released of: a column that is made anew is released
    too, and its source's type follows from the values of all cases.
    """
    age, kind = frozenset({"age"}), frozenset({"kind"})
    measures = Lineage(measures=age | kind | {CONTROL_FLOW}, writes=frozenset({CONTROL_FLOW}))
    assert prepare._read_as_text(planned(measures)) == {"age", "kind"}
    assert prepare._read_as_text(planned(measures, released=("age",))) == {"kind"}
    enriches = Lineage(measures=age | {CONTROL_FLOW}, writes=age, enriches=True)
    assert prepare._read_as_text(planned(enriches, released=("age",))) == {"age"}
    both = planned(measures, enriches, released=("age", "kind"))
    assert prepare._read_as_text(both) == {"age"}
