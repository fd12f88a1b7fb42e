"""Treatments of attributes: drop, keep, pseudonymise, generalise."""

from pathlib import Path

import polars as pl

from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.attributes.redact import Redact, RedactParams, Treatment, pseudonyms
from cloakwork.mechanisms.generalisation import ancestors
from cloakwork.mechanisms.steps import Decision, MapCases
from cloakwork.noise import reproducible, secret
from contracts.sample_logs import log_of

TREE = {
    "hospital": {"surgery": ["cardiac", "hand"], "medicine": {"inner": ["liver", "kidney"]}},
    "pharmacy": ["pills"],
}


def treated(values: pl.Series, seed: int | None = None, **treatment: object) -> pl.DataFrame:
    """The case attributes after one treatment of ``case:x``."""
    log = log_of([["a"]] * len(values))
    given = EventLog(log.events, log.cases.with_columns(values.alias("case:x")), log.offsets)
    rules = RedactParams(
        treatments=(Treatment(attribute="case:x", **treatment),) if treatment else ()
    )
    noise = secret() if seed is None else reproducible(seed)
    action = Redact().rewrite(rules, Decision(pl.DataFrame()), noise.stream())
    assert isinstance(action, MapCases)
    return action.apply(given).cases


def test_what_no_rule_names_is_dropped() -> None:
    """Unknown attributes never leave."""
    assert "case:x" not in treated(pl.Series([1, 2])).columns


def test_the_most_specific_rule_decides() -> None:
    """An attribute's own name beats any glob, a longer glob a shorter one."""
    rules = RedactParams(
        treatments=tuple(
            Treatment(attribute=name, treatment=treatment)
            for name, treatment in [("*", "keep"), ("case:*", "drop"), ("case:x", "pseudonymise")]
        )
    )
    assert [rules.treatment_of(name).treatment for name in ("case:x", "case:y", "z")] == [
        "pseudonymise",
        "drop",
        "keep",
    ]


def test_pseudonyms_are_fresh_unless_linked(own_home: Path) -> None:
    """The same value has one pseudonym in a release, another in the next; a linked one stays, and
    its key is private.
    """
    values = pl.Series(["ann", "bob", "ann", None])
    one, two = (treated(values, treatment="pseudonymise")["case:x"].to_list() for _ in range(2))
    assert (one[0], one[3]) == (one[2], None)
    assert len({*one, *two} - {None}) == 4
    linked = [
        treated(values, treatment="pseudonymise", link="d")["case:x"].to_list() for _ in range(2)
    ]
    assert linked[0] == linked[1]
    (key,) = (own_home / "pseudonym-keys").iterdir()
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_pseudonym_says_nothing_without_its_key() -> None:
    """Letters only, one length, different under another key."""
    (one,), (two,) = (pseudonyms(pl.Series(["4711"]), key * 32).to_list() for key in (b"a", b"b"))
    assert one != two
    assert one.isalpha()
    assert one.islower()
    assert (len(one), len(two)) == (26, 26)


def test_bins_are_half_open() -> None:
    """What falls in no interval, or is no number, becomes nothing."""
    values = pl.Series([-1.0, 0, 17.9, 18, 64, 65, float("nan"), None])
    expected = [None, "[0, 18)", "[0, 18)", "[18, 65)", "[18, 65)", None, None, None]
    assert expected == treated(values, treatment="generalise", bins=(0, 18, 65))["case:x"].to_list()
    assert treated(pl.Series(["7", "x"]), treatment="generalise", bins=(0, 18))[
        "case:x"
    ].to_list() == ["[0, 18)", None]


def test_hierarchy_releases_the_group_at_a_depth() -> None:
    """Depth 0 is the root; values above the asked depth take their lowest group; unknown ones
    become nothing.
    """
    assert {
        value: group
        for value, group in ancestors(TREE, 2).items()
        if value in ("cardiac", "liver", "pills")
    } == {"cardiac": "surgery", "liver": "medicine", "pills": "pharmacy"}
    assert {"*"} == set(ancestors(TREE, 0).values())
    result = treated(
        pl.Series(["liver", "moon", None]), treatment="generalise", hierarchy=TREE, level=1
    )
    assert result["case:x"].to_list() == ["hospital", None, None]
