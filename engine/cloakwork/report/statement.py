"""The privacy statement: what a release claims, signed, as an in-toto Statement v1 in a DSSE envelope.

The statement names the digests of the released log and of its plan (its *subjects*). The log in turn carries a stamp
that points back at the statement, and neither can hold the digest of the other. The knot is cut between statement and
predicate: the log's stamp holds the SHA-256 of the canonical JSON of the *predicate* alone, which knows no digest of the
log; the statement, made afterwards, holds the predicate and the digest of the stamped log.

Nothing here comes from the raw log: no figure, no file name, and no digest of it (a plain digest confirms a guess).
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.accounting.charge import Charge
from cloakwork.budget import Cost, Currency
from cloakwork.facts import Unit
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, LocalDP, MetricPrivacy
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.plan.budget import terms
from cloakwork.plan.model import Claim, Exposure, Plan, Unproven
from cloakwork.policy.model import Policy
from cloakwork.quantities import Duration, Frozen, format_duration
from cloakwork.report.dsse import canonical, read_json

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:cloakwork:privacy-statement:v1"
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
    """A column that leaves the house under no guarantee, in plain words, with the policy's reason."""

    column: str
    says: Annotated[str, Field(description="What a reader of the log learns from it")]
    reason: str


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
    sentence: Annotated[str, Field(description="The guarantee in one plain sentence")]
    basis: Literal["derived", "derived and measured"]
    given: Annotated[tuple[str, ...], Field(description="Columns that the claim takes as known")] = ()
    neighbours: Annotated[str | None, Field(description="Which two logs must be hard to tell apart")] = None
    currency: Currency | None = None
    cost: Annotated[Price | None, Field(description="The accountant's figure")] = None
    naive: Annotated[Price | None, Field(description="The plain sum of all its events")] = None
    derivation: Annotated[tuple[str, ...], Field(description="Why it holds, one sentence each")]
    assumptions: Annotated[tuple[str, ...], Field(description="Public facts and circumstances that it rests on")] = ()


class UnprovenGoal(Frozen):
    """A guarantee that was asked for and is not given: the policy let an unproven mechanism run in its place."""

    guarantee: Guarantee
    mechanism: str
    sentence: Annotated[str, Field(description="What is not guaranteed, in one plain sentence")]
    published: Annotated[str, Field(description="What the literature claims for the mechanism")]
    cost: Annotated[Price, Field(description="What can be derived for it; epsilon null where nothing bounds it")]
    why: Annotated[tuple[str, ...], Field(description="Why the published claim is not derived, one sentence each")]


class Spent(Frozen):
    """What this release takes from the dataset's budget in one currency; the total is what the policy declares.

    Currency ``none``: the release has no bound in terms of differential privacy, and draws on no budget.
    """

    currency: Currency | Literal["none"]
    cost: Price
    shift: Annotated[Duration | None, Field(description="For metric privacy: how far one value may move")] = None
    total: Annotated[Price | None, Field(description="What all releases of the dataset together may cost")] = None
    unit: Annotated[str | None, Field(description="Whose book it stands in: case, or an attribute")] = None
    apart_from: Annotated[
        tuple[str, ...],
        Field(
            description="Units whose books are kept apart: they count nothing of this, and their totals do not add up "
            "with this one to one person's risk"
        ),
    ] = ()
    cases_per_unit: Annotated[
        dict[str, int], Field(description="Declared: the most cases of the dataset that one unit owns, by attribute")
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
    """What a release claims about itself: the predicate of the signed statement, version 1."""

    unproven: Annotated[
        tuple[UnprovenGoal, ...], Field(description="UNPROVEN: guarantees asked for and not given, before all else")
    ] = ()
    exposed: Annotated[tuple[ExposedColumn, ...], Field(description="Columns under no guarantee, first")]
    guarantees: tuple[Guaranteed, ...]
    unit: Annotated[Unit, Field(description="Whom the guarantees protect")]
    budget: tuple[Spent, ...]
    policy: PolicyReference
    engine: Annotated[str, Field(description="Version of Cloakwork")]
    release: Annotated[str, Field(description="Identity of the release in the ledger")]
    ledger_entry: Annotated[
        Digest | None, Field(description="Digest of the ledger's entry: a ledger that lacks it has lost entries")
    ] = None
    issued: Annotated[AwareDatetime, Field(description="When the release was made, UTC")]
    stamp: Annotated[
        Stamp, Field(description="How the log carries this statement's digest inside; CSV has no room for it")
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

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = STATEMENT_TYPE
    subject: Annotated[tuple[Subject, ...], Field(min_length=1)]
    predicate_type: Annotated[Literal["urn:cloakwork:privacy-statement:v1"], Field(alias="predicateType")] = (
        PREDICATE_TYPE
    )
    predicate: PrivacyStatement

    def digests(self) -> dict[str, str]:
        """SHA-256 in hex by file name."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


def state(
    plan: Plan, release_id: str, *, private: bool, ledger_entry: str | None = None, issued: datetime | None = None
) -> PrivacyStatement:
    """What a release of ``plan`` claims; ``issued`` is now unless given."""
    return PrivacyStatement(
        unproven=tuple(_not_given(item) for item in plan.unproven),
        exposed=tuple(_exposed(exposure, plan) for exposure in plan.exposed),
        guarantees=tuple(_guaranteed(claim) for claim in plan.claims),
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


def predicate_digest(predicate: PrivacyStatement) -> str:
    """SHA-256 (hex) of the predicate's canonical JSON: what the log's stamp holds."""
    return hashlib.sha256(canonical(_as_json(predicate))).hexdigest()


def payload(predicate: PrivacyStatement, files: dict[str, str]) -> bytes:
    """The statement about ``files`` (name to SHA-256 in hex) as canonical JSON, ready to be signed."""
    subjects = tuple(Subject(name=name, digest=Sha256(sha256=digest)) for name, digest in sorted(files.items()))
    return in_canonical_form(Statement(subject=subjects, predicate=predicate))


def in_canonical_form(statement: Statement) -> bytes:
    """The bytes that are signed: the same for the same statement."""
    return canonical(_as_json(statement))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_plain_words(column: str, treatment: str = "keep") -> str:
    """What a column that was treated so tells whoever reads the released log."""
    standard = {
        CONTROL_FLOW: "which activities happened in each case, in which order, and how often each course of events occurs",
        TIMESTAMPS: "when each event happened",
        METADATA: "how many cases and events there are, which values are missing, and which rows belong together",
    }
    treated = {
        "generalise": f"which of the policy's groups each value of '{column}' falls into",
        "pseudonymise": f"which rows share a value of '{column}' and how often each occurs, under another name",
    }
    return standard.get(column) or treated.get(treatment, f"the true values of '{column}'")


def _stamp_of(family: Literal["xes", "csv", "parquet"]) -> Stamp:
    return "none" if family == "csv" else family


def _as_json(model: Frozen) -> JsonValue:
    return read_json(model.model_dump_json(by_alias=True).encode())


def _exposed(exposure: Exposure, plan: Plan) -> ExposedColumn:
    treatments = (item.treatment for item in plan.attributes if exposure.column in (item.column, item.attribute))
    says = in_plain_words(exposure.column, next(treatments, "keep"))
    return ExposedColumn(column=exposure.column, says=says, reason=exposure.reason)


def _not_given(item: Unproven) -> UnprovenGoal:
    return UnprovenGoal(
        guarantee=item.guarantee,
        mechanism=item.mechanism,
        sentence=item.sentence(),
        published=item.published,
        cost=Price(epsilon=None) if item.cost is None else Price.of(item.cost),
        why=item.why,
    )


def _guaranteed(claim: Claim) -> Guaranteed:
    return Guaranteed(
        guarantee=claim.guarantee,
        sentence=claim.sentence,
        basis=claim.basis,
        given=claim.given,
        neighbours=_neighbours(claim.guarantee),
        currency=claim.currency,
        cost=claim.cost and Price.of(claim.cost),
        naive=claim.naive and Price.of(claim.naive),
        derivation=claim.derivation,
        assumptions=claim.assumptions,
    )


def _neighbours(guarantee: Guarantee) -> str | None:
    """Which two logs an attacker can hardly tell apart; None where the guarantee does not compare logs."""
    match guarantee:
        case DifferentialPrivacy(neighbours="unbounded"):
            return "two logs that differ by everything one protected unit contributes (unbounded)"
        case DifferentialPrivacy():
            return "two logs with the same order of events that differ in the times of one protected unit (bounded)"
        case MetricPrivacy(shift=shift):
            return f"two logs that differ in one value of one event, by at most {format_duration(shift)}"
        case LocalDP(per=per):
            return f"two logs that differ in the contribution of one {per}"
    return None


def _spent(charge: Charge, policy: Policy) -> Spent:
    declared = terms(policy)
    total = next((limit for currency, limit in declared.totals.items() if currency == charge.currency), None)
    own = charge.currency == "unit"
    if own and charge.unit is not None and charge.unit in declared.books:
        total = declared.books[charge.unit]
    return Spent(
        currency=charge.currency,
        cost=Price.of(charge.cost),
        shift=charge.shift,
        total=None if total is None else Price.of(total),
        unit=charge.unit,
        apart_from=tuple(sorted(declared.books.keys() - {charge.unit})) if own else (),
        cases_per_unit=dict(declared.cases_per_unit) if own else {},
    )


def _reference(plan: Plan) -> PolicyReference:
    metadata = plan.policy.metadata
    shared = {name: getattr(metadata, name) for name in PolicyReference.model_fields if name != "digest"}
    return PolicyReference(digest=plan.policy_digest, **shared)
