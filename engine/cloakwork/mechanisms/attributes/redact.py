"""Treat attributes: drop, keep, pseudonymise or generalise them, as the policy says. Treatments are
not guarantees.
"""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import polars as pl
from pydantic import JsonValue

from cloakwork.base.facts import Facts
from cloakwork.base.files import home, secret_made_once
from cloakwork.base.globs import rule_resolver
from cloakwork.base.lineage import Lineage
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen, Number
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import MeetsNoGoal, Proof, Theorem
from cloakwork.mechanisms.generalisation import groups_at, intervals
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Stream

STANDARD = (CASE_ID, ACTIVITY, TIMESTAMP)


class Treatment(Frozen):
    """What is done to the attributes that match ``attribute`` (a name or a glob); *protect*:
    nothing more, another step has made its values what a guarantee says.

    ``hierarchy``: nested groups, released at depth ``level`` (0 is the whole tree's name, deeper is
    finer); ``bins``: ascending edges of half-open intervals; ``link``: the dataset whose pseudonyms
    stay the same, if any.
    """

    attribute: str
    treatment: Literal["keep", "drop", "pseudonymise", "generalise", "protect"]
    hierarchy: dict[str, JsonValue] | None = None
    level: int = 1
    bins: tuple[Number, ...] | None = None
    link: str | None = None


class RedactParams(Frozen):
    """Treatments by attribute; the most specific one that matches an attribute decides, and what
    none matches goes.
    """

    treatments: tuple[Treatment, ...] = ()

    def treatment_of(self, attribute: str) -> Treatment | None:
        """The treatment of one attribute: by its own name, else by the smallest glob that fits."""
        resolver = rule_resolver(
            self, self.treatments, lambda: {rule.attribute: rule for rule in self.treatments}
        )
        return resolver.rule(attribute)


class Redact(MeetsNoGoal[RedactParams]):
    """Apply the policy's treatments to every attribute other than the case id, the activity and the
    time.

    Pseudonyms are keyed HMACs (RFC 2104, SHA-256, 128 bits): a fresh key for each release and
    column, destroyed afterwards, unless the policy asks for linkage. How often a pseudonym occurs
    still shows.
    """

    name: ClassVar[str] = "attributes/redact"
    action: ClassVar[str] = "drop or change attributes"
    alone: ClassVar[str] = (
        "dropping, pseudonymising and generalising are treatments, not guarantees"
    )
    summary: ClassVar[str] = "Drops, keeps, pseudonymises or generalises attributes."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Dropped attributes are absent from the release. Kept, "
        "pseudonymised and generalised ones are exposed: a treatment is not a guarantee.",
        "by construction",
    )
    Params = RedactParams

    def step(self, params: RedactParams, facts: Facts) -> RewriteStep:
        """What is kept in any form is read raw and written raw; what is protected stays the
        protecting step's.
        """
        kept = frozenset(
            rule.attribute
            for rule in params.treatments
            if rule.treatment not in ("drop", "protect")
        )
        return RewriteStep(
            lineage=Lineage(reads=kept, writes=kept), rewrite=partial(self.rewrite, params)
        )

    def rewrite(
        self,
        params: RedactParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Treat case attributes, then event attributes."""

        def treat(log: EventLog) -> EventLog:
            events = log.events.select(_treat_columns(log.events, params, stream))
            cases = log.cases.select(_treat_columns(log.cases, params, stream))
            return replace(log, events=events, cases=cases)

        return MapCases(treat, together="case")


def _treat_columns(
    table: pl.DataFrame,
    params: RedactParams,
    stream: Stream,
) -> Iterator[pl.Series]:
    """The columns of ``table`` that stay, each as its treatment leaves it."""
    for name in table.columns:
        rule = params.treatment_of(name)
        values = values_of(table, name)
        if name in STANDARD or (rule and rule.treatment in ("keep", "protect")):
            yield values.alias(name)
        elif rule and rule.treatment == "pseudonymise":
            # One key for each column of the release, whichever batch its values lie in.
            key = stream.key(name) if rule.link is None else _linked_key(rule.link, name)
            yield pseudonyms(values, key).alias(name)
        elif rule and rule.treatment == "generalise":
            # Each value's interval, or its group; null where none fits.
            if rule.bins is not None:
                coarser = intervals(values, rule.bins)
            else:
                coarser = groups_at(values, rule.hierarchy or {}, rule.level)
            yield coarser.alias(name)


def pseudonyms(values: pl.Series, key: bytes) -> pl.Series:
    """A keyed pseudonym of 26 letters for each value; nulls stay null."""
    # Each distinct value once: pseudonyms repeat as often as their values.
    distinct = values.drop_nulls().unique()
    digests = [hmac.digest(key, str(value).encode(), "sha256") for value in distinct.to_list()]
    # The first 122 bits as letters: no number is found in a pseudonym.
    names = []
    for digest in digests:
        number = int.from_bytes(digest[:16], "big")
        letters = []
        # Digits to the base 26, the least first; 26 of them hold 122 bits.
        for _ in range(26):
            number, digit = divmod(number, 26)
            letters.append(chr(ord("a") + digit))
        names.append("".join(letters))
    return values.replace_strict(
        distinct, pl.Series(names, dtype=pl.String), default=None, return_dtype=pl.String
    )


def _linked_key(dataset: str, attribute: str) -> bytes:
    """The key of one dataset and attribute: in the configuration folder, never in a release."""
    from os import urandom

    # One key for an attribute of events and of cases: the same person may stand in both.
    owner = f"{dataset}\n{attribute.removeprefix(CASE_PREFIX)}"
    name = hashlib.sha256(owner.encode()).hexdigest()[:32]
    path = home() / "pseudonym-keys" / f"{name}.key"
    return secret_made_once(path, lambda: urandom(32), length=32)
