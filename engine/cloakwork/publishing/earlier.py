"""The statement and the plan of a release of version 0.1.0 (format v1), as they are read today.

The models here do not depend on today's plan or statement. They are strict about what
verification relies on, and lenient about everything else.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
)

from cloakwork.base.errors import VerificationFailed
from cloakwork.publishing.dsse import canonical
from cloakwork.publishing.folder import PLAN_FILE, STATEMENT_FILE

EARLIER_TYPE: Final = "urn:cloakwork:privacy-statement:v1"
EARLIER_ENGINE: Final = "0.1.0"
"""The only version that made releases in this format; advisories go by it whatever the release
says.
"""

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Parameters = dict[str, JsonValue]

_FIGURE: Final = (int, float)
_RELIED_ON: Final[dict[str, dict[str, type | tuple[type, ...]]]] = {
    "k-anonymity": {"k": int, "over": list, "scope": str, "count": str},
    "t-closeness": {"t": _FIGURE, "attribute": str, "distance": str, "classes": str},
    "l-diversity": {"l": _FIGURE, "attribute": str, "variety": str, "classes": str},
    "confidence-bound": {"L": int, "K": int, "C": _FIGURE, "background": str},
    "differential-privacy": {"epsilon": _FIGURE, "delta": _FIGURE, "over": list, "neighbours": str},
    "metric-privacy": {"epsilon": _FIGURE, "shift": str, "over": list},
    "local-dp": {"epsilon": _FIGURE, "over": list, "per": str},
}
"""What each kind of guarantee must say, and of which type."""
_NO_STRENGTH: Final = ("kind", "over", "attribute")


_UNRELEASED: Final = ("drop", "replace")
"""Treatments after which no value of an attribute is released."""


class _LenientModel(BaseModel):
    """Reads the fields that are relied on and ignores the others."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False
    )


class EarlierUnit(_LenientModel):
    """Whom the guarantees protect."""

    attribute: str | None = None
    max_cases: int = 1

    def __str__(self) -> str:
        if self.attribute is None:
            return "case"
        return f"'{self.attribute}' (at most {self.max_cases} cases each)"


class EarlierGuarantee(_LenientModel):
    """One guarantee with its sentence; ``guarantee`` holds kind and parameters as they stand."""

    guarantee: _Parameters
    sentence: str
    basis: str
    given: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The guarantee's kind."""
        return str(self.guarantee["kind"])

    def short_description(self) -> str:
        """Kind, columns and parameters in a few words."""
        over = self.guarantee.get("over") or [self.guarantee.get("attribute")]
        columns = over if isinstance(over, list) else [over]
        parameters = [
            f"{name} {value}"
            for name, value in self.guarantee.items()
            if name not in _NO_STRENGTH and value is not None
        ]
        over_columns = " and ".join(str(column) for column in columns)
        return f"{self.kind} over {over_columns} ({', '.join(parameters)})"

    @field_validator("guarantee")
    @classmethod
    def _relied_on(cls, guarantee: _Parameters) -> _Parameters:
        kind = guarantee.get("kind")
        if not isinstance(kind, str) or kind not in _RELIED_ON:
            raise ValueError(f"{kind!a} is no kind of guarantee")
        for name, sort in _RELIED_ON[kind].items():
            value = guarantee.get(name)
            if not isinstance(value, sort) or isinstance(value, bool):
                raise ValueError(f"a {kind} guarantee needs '{name}'")
        return guarantee


class EarlierExposed(_LenientModel):
    """A column under no guarantee, and what it tells."""

    column: str
    says: str
    reason: str


class EarlierCost(_LenientModel):
    """Epsilon (null: no bound) and delta."""

    epsilon: float | None
    delta: float = 0.0


class EarlierSpentBudget(_LenientModel):
    """What the release took from a budget."""

    currency: str
    cost: EarlierCost
    shift: str | None = None


class EarlierPolicy(_LenientModel):
    """Which policy asked for the release."""

    name: str
    version: str
    digest: str
    dataset: str


class EarlierUnproven(_LenientModel):
    """What was asked for and is not guaranteed."""

    sentence: str
    why: tuple[str, ...] = ()


class EarlierStatement(_LenientModel):
    """The predicate of a v1 statement."""

    unproven: tuple[EarlierUnproven, ...] = ()
    exposed: tuple[EarlierExposed, ...]
    guarantees: tuple[EarlierGuarantee, ...]
    unit: EarlierUnit
    window: None = None
    budget: tuple[EarlierSpentBudget, ...]
    policy: EarlierPolicy
    engine: str
    release: str
    ledger_entry: _Digest | None = None
    issued: AwareDatetime
    stamp: Literal["xes", "parquet", "none"]
    mark: str | None = None


class _Sha256(_LenientModel):
    sha256: _Digest


class _Subject(_LenientModel):
    name: str
    digest: _Sha256


class EarlierEnvelope(_LenientModel):
    """The in-toto statement around a v1 predicate; ``raw`` is the predicate as it was signed."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[tuple[_Subject, ...], Field(min_length=1)]
    predicate_type: Annotated[
        Literal["urn:cloakwork:privacy-statement:v1"], Field(alias="predicateType")
    ]
    predicate: EarlierStatement

    def digests(self) -> dict[str, str]:
        """SHA-256 in hex by file name."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


class _Treated(_LenientModel):
    attribute: str
    column: str
    treatment: str


class _Step(_LenientModel):
    mechanism: str


class _Claim(_LenientModel):
    guarantee: _Parameters
    sentence: str


class _Rule(_LenientModel):
    treatment: str | None = None
    hierarchy: JsonValue = None
    level: int = 1


class _Output(_LenientModel):
    format: str


class _Spec(_LenientModel):
    attributes: dict[str, _Rule]
    output: _Output


class _PlannedPolicy(_LenientModel):
    metadata: dict[str, JsonValue]
    spec: _Spec


class EarlierPlan(_LenientModel):
    """A v1 plan, as far as it is relied on."""

    format: Literal["cloakwork/plan/v1"]
    engine: str
    policy: _PlannedPolicy
    policy_digest: str
    attributes: tuple[_Treated, ...]
    steps: tuple[_Step, ...]
    claims: tuple[_Claim, ...]
    exposed: tuple[dict[str, str], ...]

    @property
    def released(self) -> frozenset[str]:
        """The columns that were released in some form."""
        return frozenset(
            item.column for item in self.attributes if item.treatment not in _UNRELEASED
        )

    def releases(self, attribute: str) -> bool:
        """Whether an attribute of that very name was to be released; only ``*`` and ``?`` are globs
        here.
        """
        rules = {item.attribute: item.treatment not in _UNRELEASED for item in self.attributes}
        if attribute in rules:
            return rules[attribute]
        fitting = [name for name in rules if fnmatchcase(attribute, name.replace("[", "[[]"))]
        return bool(fitting) and rules[max(fitting, key=len)]


@dataclass(frozen=True, slots=True)
class SignedEarlier:
    """A v1 statement that was read: its model, and its predicate as it was signed."""

    envelope: EarlierEnvelope
    raw: JsonValue


def is_earlier(value: JsonValue) -> bool:
    """Whether a payload is a statement of version 0.1.0."""
    return isinstance(value, dict) and value.get("predicateType") == EARLIER_TYPE


def read_earlier(value: JsonValue, content: bytes) -> SignedEarlier:
    """A v1 statement from its parsed payload; raises VerificationFailed where what is relied on is
    not there.
    """
    if canonical(value) != content:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not in canonical form"])
    try:
        envelope = EarlierEnvelope.model_validate(value)
    except ValidationError as error:
        raise VerificationFailed(
            [f"{STATEMENT_FILE}: is not a statement of version 0.1.0: {_first_fault(error)}"]
        ) from error
    return SignedEarlier(envelope, value["predicate"] if isinstance(value, dict) else None)


def read_earlier_plan(content: bytes) -> EarlierPlan:
    """A v1 plan from the bytes of its file; raises VerificationFailed where what is relied on is
    not there.
    """
    try:
        return EarlierPlan.model_validate_json(content)
    except ValidationError as error:
        raise VerificationFailed(
            [f"{PLAN_FILE}: is not a plan of version 0.1.0: {_first_fault(error)}"]
        ) from error


def _first_fault(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(key) for key in first["loc"])
    return f"{field}: {first['msg']}"
