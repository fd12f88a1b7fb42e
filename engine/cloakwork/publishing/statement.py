"""The privacy statement: what a release claims, signed, as an in-toto Statement v1 in a DSSE
envelope.

The statement names the digests of the released log and of its plan (its *subjects*). The log in
turn carries a stamp that points back at the statement, and neither can hold the digest of the
other. The knot is cut between statement and predicate: the log's stamp holds the SHA-256 of the
canonical JSON of the *predicate* alone, which knows no digest of the log; the statement, made
afterwards, holds the predicate and the digest of the stamped log.

Nothing here comes from the raw log: no figure, no file name, and no digest of it (a plain digest
confirms a guess).

What is claimed are records. The sentences beside them (``Prose``) are for readers of the JSON
alone: they are not compared, and whoever shows a statement shows ``in_own_words`` of it.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.accounting.charge import Charge
from cloakwork.budget import Cost, Currency
from cloakwork.facts import Unit
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.plan.budget import ledger_terms
from cloakwork.plan.claims import Assumption, Caveat, ConditionedOn, ExposureReason, Reason
from cloakwork.plan.model import Claim, Plan, UnprovenClaim
from cloakwork.plan.sentences import (
    assumption_in_words,
    claim_sentence,
    column_in_words,
    exposure_in_words,
    reason_in_words,
    unproven_sentence,
)
from cloakwork.policy.model import Policy
from cloakwork.publishing.dsse import canonical, read_json
from cloakwork.publishing.released import ReleasedColumn, given_by_name, names_of
from cloakwork.quantities import Duration, Frozen
from cloakwork.records import PROSE, Prose, without_prose

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:cloakwork:privacy-statement:v2"
NOT_PRIVATE: Final = "reproducible: NOT PRIVATE"
FAMILY: Final[dict[str, Literal["xes", "csv", "parquet"]]] = {
    "xes": "xes",
    "xes.gz": "xes",
    "csv": "csv",
    "csv.gz": "csv",
    "parquet": "parquet",
}
"""What kind of file each output format is, packed or not."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Stamp = Literal["xes", "parquet", "none"]


class ExposedColumn(Frozen):
    """A column that is released without protection, and why."""

    column: Annotated[
        str,
        Field(description="control-flow, timestamps, metadata, or the policy's name or pattern"),
    ]
    names: Annotated[
        tuple[str, ...], Field(description="The actual attributes that it stands for")
    ] = ()
    treatment: Annotated[str, Field(description="What was done to the values")]
    why: ExposureReason
    says: Annotated[Prose, Field(description="What a reader of the log learns from it")]
    reason: Annotated[Prose, Field(description="Why it is released without protection, in words")]


class Price(Frozen):
    """Epsilon and delta; epsilon null stands for "no bound"."""

    epsilon: Annotated[float, Field(ge=0)] | None
    delta: Annotated[float, Field(ge=0, le=1)] = 0.0

    @classmethod
    def of(cls, cost: Cost) -> "Price":
        """A cost as JSON can say it."""
        return cls(epsilon=None if cost.epsilon == float("inf") else cost.epsilon, delta=cost.delta)


class Guaranteed(Frozen):
    """One guarantee that the release carries, how it is known and what it rests on."""

    guarantee: Guarantee
    sentence: Annotated[Prose, Field(description="The guarantee in plain words")]
    basis: Literal["derived", "derived and measured"]
    given: Annotated[
        ConditionedOn | None, Field(description="What the claim takes as known, by actual names")
    ] = None
    neighbours: Annotated[
        str | None, PROSE, Field(description="Which two logs must be hard to tell apart")
    ] = None
    currency: Currency | None = None
    cost: Annotated[Price | None, Field(description="The accountant's figure")] = None
    naive: Annotated[Price | None, Field(description="The plain sum of all its events")] = None
    derivation: Annotated[tuple[Reason, ...], Field(description="Why it holds")]
    because: Annotated[tuple[str, ...], PROSE, Field(description="Why it holds, in words")]
    assumptions: Annotated[
        tuple[Assumption, ...], Field(description="Public facts that it rests on")
    ] = ()
    assuming: Annotated[
        tuple[str, ...], PROSE, Field(description="What it rests on, in words")
    ] = ()


class UnprovenGoal(Frozen):
    """A guarantee that was asked for and is not given: the policy let an unproven mechanism run in
    its place.
    """

    guarantee: Guarantee
    mechanism: str
    sentence: Annotated[Prose, Field(description="What is not guaranteed, in one plain sentence")]
    published: Annotated[Prose, Field(description="What the literature claims for the mechanism")]
    cost: Annotated[
        Price, Field(description="What can be derived for it; epsilon null where nothing bounds it")
    ]
    why: Annotated[
        tuple[str, ...],
        PROSE,
        Field(description="Why the published claim is not derived, in words"),
    ]


class Spent(Frozen):
    """What this release takes from the dataset's budget in one currency; the total is what the
    policy declares.

    Currency ``none``: the release has no bound in terms of differential privacy, and draws on no
    budget.
    """

    currency: Currency | Literal["none"]
    cost: Price
    shift: Annotated[
        Duration | None, Field(description="For metric privacy: how far one value may move")
    ] = None
    total: Annotated[
        Price | None, Field(description="What all releases of the dataset together may cost")
    ] = None
    unit: Annotated[
        str | None, Field(description="Whose book it stands in: case, or an attribute")
    ] = None
    apart_from: Annotated[
        tuple[str, ...],
        Field(
            description="Units whose books are kept apart: they count nothing of this, and their totals do not add up "
            "with this one to one person's risk"
        ),
    ] = ()
    cases_per_unit: Annotated[
        dict[str, int],
        Field(
            description="Declared: the most cases of the dataset that one unit owns, by attribute"
        ),
    ] = {}


class PolicyReference(Frozen):
    """Which policy asked for the release."""

    name: str
    version: str
    digest: str
    dataset: str
    owner: str
    purpose: str
    legal_basis: Annotated[str | None, Field(alias="legalBasis")] = None


class PrivacyStatement(Frozen):
    """What a release claims about itself: the predicate of the signed statement, version 2."""

    unproven: Annotated[
        tuple[UnprovenGoal, ...],
        Field(description="UNPROVEN: guarantees asked for and not given, before all else"),
    ] = ()
    exposed: Annotated[
        tuple[ExposedColumn, ...], Field(description="Columns under no guarantee, first")
    ]
    guarantees: tuple[Guaranteed, ...]
    caveats: Annotated[tuple[Caveat, ...], Field(description="What the guarantees leave open")] = ()
    released: Annotated[
        tuple[ReleasedColumn, ...], Field(description="What the log holds, by actual names")
    ]
    unit: Annotated[Unit, Field(description="Whom the guarantees protect")]
    budget: tuple[Spent, ...]
    policy: PolicyReference
    engine: Annotated[str, Field(description="Version of Cloakwork")]
    release: Annotated[str, Field(description="Identity of the release in the ledger")]
    ledger_entry: Annotated[
        Digest | None,
        Field(description="Digest of the ledger's entry: a ledger that lacks it has lost entries"),
    ] = None
    issued: Annotated[AwareDatetime, Field(description="When the release was made, UTC")]
    stamp: Annotated[
        Stamp,
        Field(
            description="How the log carries this statement's digest inside; CSV has no room for it"
        ),
    ]
    mark: Annotated[
        Literal["reproducible: NOT PRIVATE"] | None,
        Field(description="Present when the noise can be reproduced: the release protects nobody"),
    ] = None


class Sha256(Frozen):
    """A digest in in-toto's form."""

    sha256: Digest


class Subject(Frozen):
    """One file that the statement speaks of."""

    name: str
    digest: Sha256


class Statement(Frozen):
    """An in-toto Statement v1 with a privacy statement as its predicate."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = (
        STATEMENT_TYPE
    )
    subject: Annotated[tuple[Subject, ...], Field(min_length=1)]
    predicate_type: Annotated[
        Literal["urn:cloakwork:privacy-statement:v2"], Field(alias="predicateType")
    ] = PREDICATE_TYPE
    predicate: PrivacyStatement

    def digests(self) -> dict[str, str]:
        """SHA-256 in hex by file name."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


def state(
    plan: Plan,
    release_id: str,
    *,
    released: tuple[ReleasedColumn, ...],
    private: bool,
    ledger_entry: str | None = None,
    issued: datetime | None = None,
) -> PrivacyStatement:
    """What a release of ``plan`` claims that holds the attributes ``released``; ``issued`` is now
    unless given.
    """
    return PrivacyStatement(
        unproven=tuple(_not_given(item) for item in plan.unproven),
        exposed=tuple(_exposed(plan, released)),
        guarantees=tuple(_guaranteed(claim, plan, released) for claim in plan.claims),
        caveats=plan.warnings,
        released=released,
        unit=plan.facts.unit,
        budget=tuple(_spent(charge, plan.policy) for charge in plan.charges),
        policy=_reference(plan),
        engine=plan.engine,
        release=release_id,
        ledger_entry=ledger_entry,
        issued=issued or datetime.now(UTC).replace(microsecond=0),
        stamp=_stamp_of(FAMILY[plan.policy.spec.output.format]),
        mark=None if private else NOT_PRIVATE,
    )


def in_own_words(predicate: PrivacyStatement, plan: Plan) -> PrivacyStatement:
    """The same records, every sentence written anew from them: what may be shown of a statement
    that somebody else made.

    ``plan``: the statement's, in this engine's words too (``plan.prove.with_own_sentences``); it words
    what is unproven.
    """
    unproven = {(item.mechanism, item.guarantee): _not_given(item) for item in plan.unproven}
    return predicate.model_copy(
        update={
            "unproven": tuple(
                unproven.get((item.mechanism, item.guarantee)) or without_prose(item)
                for item in predicate.unproven
            ),
            "exposed": tuple(_reworded_exposure(item) for item in predicate.exposed),
            "guarantees": tuple(_reworded(item) for item in predicate.guarantees),
        }
    )


def predicate_digest(predicate: PrivacyStatement) -> str:
    """SHA-256 (hex) of the predicate's canonical JSON: what the log's stamp holds."""
    return hashlib.sha256(canonical(_as_json(predicate))).hexdigest()


def payload(predicate: PrivacyStatement, files: dict[str, str]) -> bytes:
    """The statement about ``files`` (name to SHA-256 in hex) as canonical JSON, ready to be signed."""
    subjects = tuple(
        Subject(name=name, digest=Sha256(sha256=digest)) for name, digest in sorted(files.items())
    )
    return in_canonical_form(Statement(subject=subjects, predicate=predicate))


def in_canonical_form(statement: Statement) -> bytes:
    """The bytes that are signed: the same for the same statement."""
    return canonical(_as_json(statement))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp_of(family: Literal["xes", "csv", "parquet"]) -> Stamp:
    return "none" if family == "csv" else family


def _as_json(model: Frozen) -> JsonValue:
    return read_json(model.model_dump_json(by_alias=True).encode())


def _exposed(plan: Plan, released: tuple[ReleasedColumn, ...]) -> Iterator[ExposedColumn]:
    """The columns without protection; an attribute that the log lacks is not released, and not
    listed.
    """
    treatments = {
        name: item.treatment
        for item in reversed(plan.attributes)
        for name in (item.column, item.attribute)
    }
    for exposure in plan.exposed:
        names = names_of(exposure.column, plan, released)
        if names or exposure.column in (CONTROL_FLOW, TIMESTAMPS, METADATA):
            yield _reworded_exposure(
                ExposedColumn(
                    column=exposure.column,
                    names=names,
                    treatment=treatments.get(exposure.column, "keep"),
                    why=exposure.why,
                    says="",
                    reason="",
                )
            )


def _reworded_exposure(item: ExposedColumn) -> ExposedColumn:
    says = column_in_words(item.column, item.treatment, item.names)
    return item.model_copy(update={"says": says, "reason": exposure_in_words(item.why)})


def _not_given(item: UnprovenClaim) -> UnprovenGoal:
    return UnprovenGoal(
        guarantee=item.guarantee,
        mechanism=item.mechanism,
        sentence=unproven_sentence(item),
        published=item.published,
        cost=Price(epsilon=None) if item.cost is None else Price.of(item.cost),
        why=item.why,
    )


def _guaranteed(claim: Claim, plan: Plan, released: tuple[ReleasedColumn, ...]) -> Guaranteed:
    return _reworded(
        Guaranteed(
            guarantee=claim.guarantee,
            sentence="",
            basis=claim.basis,
            given=given_by_name(claim.given, plan, released),
            currency=claim.currency,
            cost=claim.cost and Price.of(claim.cost),
            naive=claim.naive and Price.of(claim.naive),
            derivation=claim.derivation,
            because=(),
            assumptions=claim.assumptions,
        )
    )


def _reworded(item: Guaranteed) -> Guaranteed:
    return item.model_copy(
        update={
            "sentence": claim_sentence(item.guarantee, item.given),
            "neighbours": item.guarantee.compared_logs(),
            "because": tuple(reason_in_words(reason) for reason in item.derivation),
            "assuming": tuple(assumption_in_words(assumption) for assumption in item.assumptions),
        }
    )


def _spent(charge: Charge, policy: Policy) -> Spent:
    declared = ledger_terms(policy)
    total = next(
        (limit for currency, limit in declared.totals.items() if currency == charge.currency), None
    )
    own = charge.currency == "unit"
    if own and charge.unit is not None and charge.unit in declared.books:
        total = declared.books[charge.unit]
    return Spent(
        currency=charge.currency,
        cost=Price.of(charge.cost),
        shift=charge.shift,
        total=None if total is None else Price.of(total),
        unit=charge.unit,
        apart_from=declared.apart_from(charge.unit) if own else (),
        cases_per_unit=dict(declared.cases_per_unit) if own else {},
    )


def _reference(plan: Plan) -> PolicyReference:
    metadata = plan.policy.metadata
    shared = {
        name: getattr(metadata, name) for name in PolicyReference.model_fields if name != "digest"
    }
    return PolicyReference(digest=plan.policy_digest, **shared)
