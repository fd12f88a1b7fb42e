"""The privacy statement: what a release claims, signed, as an in-toto Statement v1 in a DSSE
envelope.

The statement names the digests of the released log and of its plan (its *subjects*). The log in
turn holds a stamp that points back at the statement, and neither can hold the digest of the
other. So the log's stamp holds the SHA-256 of the canonical JSON of the *predicate* alone, which
contains no digest of the log. The statement is made afterwards: it holds the predicate and the
digest of the stamped log.

Nothing here comes from the raw log: no figure, no file name, and no digest of it (a plain digest
confirms a guess).

What is claimed are records. ``from_plan`` makes them, and the sentences beside them.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.base.costs import Cost, Currency, PrivacyEvent
from cloakwork.base.facts import Unit
from cloakwork.base.quantities import Described, Duration, Frozen
from cloakwork.base.records import PROSE, Prose
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import Assumption, Caveat, ConditionedOn, ExposureReason, Reason
from cloakwork.policy.load import shipped
from cloakwork.publishing.keys import canonical, read_json

# What in-toto and readers of the JSON know the statement by.
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

Scope = Literal["case", "event"]
"""Whether cases or events have an attribute."""

Treatment = Literal["keep", "pseudonymise", "generalise", "protect", "replace"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Stamp = Literal["xes", "parquet", "sidecar", "none"]


class ReleasedColumn(Described):
    """One attribute of the released log, and the rule of the policy that released it."""

    name: str
    """As the released log names it; case attributes begin with case:"""

    scope: Scope
    """Whether cases or events have it"""

    treatment: Treatment
    """What was done to its values"""

    rule: str | None
    """The policy's name or pattern that it follows; null for case ids"""


class ExposedColumn(Described):
    """A column that is released without protection, and why."""

    column: str
    """control-flow, timestamps, metadata, or the policy's name or pattern"""

    names: tuple[str, ...] = ()
    """The actual attributes that it stands for"""

    treatment: str
    """What was done to the values"""

    why: ExposureReason
    says: Prose
    """What a reader of the log learns from it"""

    reason: Prose
    """Why it is released without protection, in words"""


class PublishedCost(Frozen):
    """Epsilon and delta; epsilon null stands for "no bound"."""

    epsilon: Annotated[float, Field(ge=0)] | None
    delta: Annotated[float, Field(ge=0, le=1)] = 0.0

    @classmethod
    def of(cls, cost: Cost) -> "PublishedCost":
        """A cost as JSON can say it."""
        return cls(epsilon=None if cost.epsilon == float("inf") else cost.epsilon, delta=cost.delta)


def published_cost(cost: Cost | None) -> PublishedCost | None:
    """As ``PublishedCost.of``; None where nothing is said."""
    return None if cost is None else PublishedCost.of(cost)


class StatedGuarantee(Described):
    """One guarantee of the release, how it is known and what it rests on."""

    guarantee: Guarantee
    sentence: Prose
    """The guarantee in plain words"""

    basis: Literal["derived", "derived and measured"]
    given: ConditionedOn | None = None
    """What the claim takes as known, by actual names"""

    neighbours: Annotated[str | None, PROSE] = None
    """Which two logs must be hard to tell apart"""

    currency: Currency | None = None
    cost: PublishedCost | None = None
    """The accountant's figure"""

    naive: PublishedCost | None = None
    """The plain sum of all its events"""

    derivation: tuple[Reason, ...]
    """Why it holds"""

    because: Annotated[tuple[str, ...], PROSE]
    """Why it holds, in words"""

    assumptions: tuple[Assumption, ...] = ()
    """Public facts that it rests on"""

    assuming: Annotated[tuple[str, ...], PROSE] = ()
    """What it rests on, in words"""


class UnprovenGoal(Described):
    """A guarantee that was asked for and is not given: the policy let an unproven mechanism run in
    its place.
    """

    guarantee: Guarantee
    mechanism: str
    sentence: Prose
    """What is not guaranteed, in one plain sentence"""

    published: Prose
    """What the literature claims for the mechanism"""

    cost: PublishedCost
    """What can be derived for it; epsilon null where nothing bounds it"""

    why: Annotated[tuple[str, ...], PROSE]
    """Why the published claim is not derived, in words"""


class RecordedStep(Described):
    """What one step really measured, as the kernel recorded it: no more than was planned."""

    step: Annotated[int, Field(ge=0)]
    """Its place among the steps of the plan, from 0"""

    mechanism: str
    planned: PrivacyEvent
    """The answers that its plan lists"""

    recorded: PrivacyEvent
    """The answers that were given, with the noise drawn"""


class SpentBudget(Described):
    """What this release takes from the dataset's budget in one currency; the total is what the
    policy declares.

    Currency ``none``: the release has no bound in terms of differential privacy, and draws on no
    budget.
    """

    currency: Currency | Literal["none"]
    cost: PublishedCost
    shift: Duration | None = None
    """For metric privacy: how far one value may move"""

    total: PublishedCost | None = None
    """What all releases of the dataset together may cost"""

    unit: str | None = None
    """Whose book it stands in: case, or an attribute"""

    apart_from: tuple[str, ...] = ()
    """Units whose books are kept apart: they count nothing of this, and their totals do not add up
    with this one to one person's risk
    """

    cases_per_unit: dict[str, int] = {}
    """Declared: the most cases of the dataset that one unit owns, by attribute"""

    window: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    """Of a growing log, the window that has the total to itself; absent where the total is that of
    the dataset, whatever the window
    """


class StatedWindow(Described):
    """The window of a growing log whose cases were released: those whose first event lies in it."""

    name: str
    start: AwareDatetime
    """Its first instant"""

    before: AwareDatetime
    """The first instant after it"""


class PolicyReference(Frozen):
    """Which policy asked for the release."""

    name: str
    version: str
    digest: str
    dataset: str
    owner: str
    purpose: str
    legal_basis: Annotated[str | None, Field(alias="legalBasis")] = None


class PrivacyStatement(Described):
    """What a release claims about itself: the predicate of the signed statement, version 2."""

    unproven: tuple[UnprovenGoal, ...] = ()
    """UNPROVEN: guarantees asked for and not given, before all else"""

    exposed: tuple[ExposedColumn, ...]
    """Columns under no guarantee, first"""

    guarantees: tuple[StatedGuarantee, ...]
    caveats: tuple[Caveat, ...] = ()
    """What the guarantees leave open"""

    released: tuple[ReleasedColumn, ...]
    """What the log holds, by actual names"""

    unit: Unit
    """Whom the guarantees protect"""

    window: StatedWindow | None = None
    """Which cases of a growing log were released; absent where all were"""

    budget: tuple[SpentBudget, ...]
    recorded: tuple[RecordedStep, ...] = ()
    """What each step that measures the log recorded; absent where none does"""

    policy: PolicyReference
    engine: str
    """Version of Cloakwork"""

    release: str
    """Identity of the release in the ledger"""

    ledger_entry: Digest | None = None
    """Digest of the ledger's entry: a ledger that lacks it has lost entries"""

    issued: AwareDatetime
    """When the release was made, UTC"""

    stamp: Stamp
    """How the log holds this statement's digest inside; CSV cannot hold it"""

    mark: Literal["reproducible: NOT PRIVATE"] | None = None
    """Present when the noise can be reproduced: the release protects nobody"""


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


def predicate_digest(predicate: PrivacyStatement) -> str:
    """SHA-256 (hex) of the predicate's canonical JSON: what the log's stamp holds."""
    # Written and read again, so that the digest is of what the JSON says.
    content = predicate.model_dump_json(by_alias=True, exclude=_left_out(predicate))
    return hashlib.sha256(canonical(read_json(content.encode()))).hexdigest()


def statement_payload(predicate: PrivacyStatement, files: dict[str, str]) -> bytes:
    """The statement about ``files`` as canonical JSON, ready to be signed.

    ``files``: SHA-256 in hex by name.
    """
    # By name, so that the order of the files changes no byte.
    subjects = tuple(
        Subject(name=name, digest=Sha256(sha256=digest)) for name, digest in sorted(files.items())
    )
    return canonical_bytes(Statement(subject=subjects, predicate=predicate))


def canonical_bytes(statement: Statement) -> bytes:
    """The bytes that are signed: the same for the same statement."""
    left_out = {"predicate": _left_out(statement.predicate)}
    content = statement.model_dump_json(by_alias=True, exclude=left_out)
    return canonical(read_json(content.encode()))


def _left_out(predicate: PrivacyStatement) -> set[str]:
    """What is not said: records where no step measures, a window where there is none."""
    absent = {"recorded": not predicate.recorded, "window": predicate.window is None}
    return {name for name, is_absent in absent.items() if is_absent}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- the published JSON Schemas, by which a document is checked before anything else reads it. The
# in-toto layer and the envelope around a statement have public schemas of their own.


PLAN_SCHEMA: Final = "plan-v2.json"
STATEMENT_SCHEMA: Final = "privacy-statement-v2.json"

Schema = Any
"""A schema that is ready to be asked."""

_LONGEST_PLACE: Final = 200


@lru_cache
def published_schema(file: str) -> Schema:
    """The schema in the file of that name in ``schemas/``."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    any_kind = Draft202012Validator.VALIDATORS["oneOf"]

    # A record names its own kind: only that one is tried, and its fault told.
    def one_kind(
        asked: Any,
        kinds: Any,
        value: Any,
        schema: Any,
    ) -> Any:
        tag = schema.get("discriminator")
        kind = value.get(tag["propertyName"]) if tag and isinstance(value, dict) else None
        if isinstance(kind, str) and kind in tag["mapping"]:
            return asked.descend(value, {"$ref": tag["mapping"][kind]})
        return any_kind(asked, kinds, value, schema)

    content = json.loads((shipped("schemas") / file).read_bytes())
    return extend(Draft202012Validator, {"oneOf": one_kind})(content)


def schema_fault(value: JsonValue, schema: Schema) -> str | None:
    """Where the value does not fit the schema, and by which of its rules; None where it fits."""
    try:
        fault = next(schema.iter_errors(value), None)
    except RecursionError:
        return "nested too deeply"
    return fault and f"{fault.json_path[:_LONGEST_PLACE]} breaks its rule '{fault.validator}'"
