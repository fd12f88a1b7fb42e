"""Releases of version 0.1.0 (statement and plan in format v1), as far as they can be verified
today.

The models here do not depend on today's plan or statement: lenient about texts and about what is
not relied on, strict about what is. What a v1 release claims is not derived again, since that takes
the version that made it. Verified are its signature and digests (as for any release), that
statement, plan and stamp say the same, and whatever can be measured on the released file, by the
meaning that the claim had then.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
)

from cloakwork.advisories import TIME, Traits, is_pattern
from cloakwork.errors import LogError, VerificationFailed
from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.publishing.dsse import canonical
from cloakwork.publishing.folder import PLAN_FILE, STATEMENT_FILE, Check

EARLIER_TYPE: Final = "urn:cloakwork:privacy-statement:v1"
EARLIER_ENGINE: Final = "0.1.0"
"""The only version that made releases in this format; advisories go by it whatever the release
says.
"""
NOTE: Final = "its claims are in the format of 0.1.0, and are not derived again here"

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


class _Read(BaseModel):
    """Reads what is relied on and lets the rest be."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, allow_inf_nan=False
    )


class EarlierUnit(_Read):
    """Whom the guarantees protect."""

    attribute: str | None = None
    max_cases: int = 1

    def __str__(self) -> str:
        return (
            "case"
            if self.attribute is None
            else f"'{self.attribute}' (at most {self.max_cases} cases each)"
        )


class EarlierGuarantee(_Read):
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

    def brief(self) -> str:
        """Kind, columns and parameters in a few words."""
        over = self.guarantee.get("over") or [self.guarantee.get("attribute")]
        columns = (
            " and ".join(str(column) for column in over) if isinstance(over, list) else str(over)
        )
        shown = {
            name: value
            for name, value in self.guarantee.items()
            if name not in _NO_STRENGTH and value is not None
        }
        return f"{self.kind} over {columns} ({', '.join(f'{name} {value}' for name, value in shown.items())})"

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


class EarlierExposed(_Read):
    """A column under no guarantee, and what it tells."""

    column: str
    says: str
    reason: str


class EarlierPrice(_Read):
    """Epsilon (null: no bound) and delta."""

    epsilon: float | None
    delta: float = 0.0


class EarlierSpent(_Read):
    """What the release took from a budget."""

    currency: str
    cost: EarlierPrice
    shift: str | None = None


class EarlierPolicy(_Read):
    """Which policy asked for the release."""

    name: str
    version: str
    digest: str
    dataset: str


class EarlierUnproven(_Read):
    """What was asked for and is not guaranteed."""

    sentence: str
    why: tuple[str, ...] = ()


class EarlierStatement(_Read):
    """The predicate of a v1 statement."""

    unproven: tuple[EarlierUnproven, ...] = ()
    exposed: tuple[EarlierExposed, ...]
    guarantees: tuple[EarlierGuarantee, ...]
    unit: EarlierUnit
    budget: tuple[EarlierSpent, ...]
    policy: EarlierPolicy
    engine: str
    release: str
    ledger_entry: _Digest | None = None
    issued: AwareDatetime
    stamp: Literal["xes", "parquet", "none"]
    mark: str | None = None


class _Sha256(_Read):
    sha256: _Digest


class _Subject(_Read):
    name: str
    digest: _Sha256


class EarlierEnvelope(_Read):
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


class _Treated(_Read):
    attribute: str
    column: str
    treatment: str


class _Step(_Read):
    mechanism: str


class _Claim(_Read):
    guarantee: _Parameters
    sentence: str


class _Rule(_Read):
    treatment: str | None = None
    hierarchy: JsonValue = None
    level: int = 1


class _Output(_Read):
    format: str


class _Spec(_Read):
    attributes: dict[str, _Rule]
    output: _Output


class _PlannedPolicy(_Read):
    metadata: dict[str, JsonValue]
    spec: _Spec


class EarlierPlan(_Read):
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
        dropped = ("drop", "replace")
        return frozenset(item.column for item in self.attributes if item.treatment not in dropped)

    def releases(self, attribute: str) -> bool:
        """Whether an attribute of that very name was to be released; only ``*`` and ``?`` are globs
        here.
        """
        rules = {
            item.attribute: item.treatment not in ("drop", "replace") for item in self.attributes
        }
        if attribute in rules:
            return rules[attribute]
        fitting = [name for name in rules if fnmatchcase(attribute, name.replace("[", "[[]"))]
        return bool(fitting) and rules[max(fitting, key=len)]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A v1 statement that was read: its model, and its predicate as it was signed."""

    envelope: EarlierEnvelope
    raw: JsonValue


def is_earlier(value: JsonValue) -> bool:
    """Whether a payload is a statement of version 0.1.0."""
    return isinstance(value, dict) and value.get("predicateType") == EARLIER_TYPE


def read_earlier(value: JsonValue, content: bytes) -> Earlier:
    """A v1 statement from its parsed payload; raises VerificationFailed where what is relied on is
    not there.
    """
    if canonical(value) != content:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not in canonical form"])
    try:
        envelope = EarlierEnvelope.model_validate(value)
    except ValidationError as error:
        raise VerificationFailed(
            [f"{STATEMENT_FILE}: is not a statement of version 0.1.0: {_first(error)}"]
        ) from error
    return Earlier(envelope, value["predicate"] if isinstance(value, dict) else None)


def read_earlier_plan(content: bytes) -> EarlierPlan:
    """A v1 plan from the bytes of its file; raises VerificationFailed where what is relied on is
    not there.
    """
    try:
        return EarlierPlan.model_validate_json(content)
    except ValidationError as error:
        raise VerificationFailed(
            [f"{PLAN_FILE}: is not a plan of version 0.1.0: {_first(error)}"]
        ) from error


_ROLES: Final = {TIMESTAMPS: TIME}
"""The column that advisories know by its standard name."""


def traits_of(statement: EarlierStatement, plan: EarlierPlan) -> Traits:
    """What advisories go by."""
    words = [text for each in statement.guarantees for text in (each.sentence, *each.assumptions)]
    return Traits(
        engine=EARLIER_ENGINE,
        guarantees=tuple(each.guarantee for each in statement.guarantees),
        mechanisms=tuple(step.mechanism for step in plan.steps),
        rules={_ROLES.get(item.column, item.attribute): item.treatment for item in plan.attributes},
        unit=statement.unit.attribute or "",
        shallow=tuple(
            name
            for name, rule in plan.policy.spec.attributes.items()
            if rule.treatment == "generalise"
            and rule.hierarchy is not None
            and _shortest(rule.hierarchy) < rule.level
        ),
        words="\n".join(words),
    )


def read_as_pattern(log: EventLog, plan: EarlierPlan) -> str | None:
    """What the released ``log`` holds because a name was read as a pattern; None where it does not
    show.

    An attribute whose own name is a pattern may hold the values of any other. Times that the plan
    drops, and attributes that none of its rules releases, can have come in no other way.
    """
    names = log.columns
    if pattern := next((name for name in names if is_pattern(name)), None):
        return f"the log holds {pattern!a}, a name that was read as a pattern"
    timed = TIMESTAMPS not in plan.released and TIMESTAMP in log.events.columns
    if timed and log.events[TIMESTAMP].null_count() < log.events.height:
        return "the log holds times, which the plan drops"
    standard = (CASE_ID, ACTIVITY, TIMESTAMP)
    stranger = next(
        (name for name in names if name not in standard and not plan.releases(name)), None
    )
    return None if stranger is None else f"the log holds {stranger!a}, which the plan drops"


def same_claims(statement: EarlierStatement, plan: EarlierPlan) -> Iterator[Check]:
    """Whether statement and plan say the same about policy, guarantees and exposed columns."""
    said: dict[str, tuple[Any, Any]] = {
        "guarantees": (
            [(each.guarantee, each.sentence) for each in statement.guarantees],
            [(claim.guarantee, claim.sentence) for claim in plan.claims],
        ),
        "exposed": (
            [(each.column, each.reason) for each in statement.exposed],
            [(each.get("column"), each.get("reason")) for each in plan.exposed],
        ),
        "policy": (
            (
                statement.policy.digest,
                statement.policy.name,
                statement.policy.version,
                statement.policy.dataset,
            ),
            (
                plan.policy_digest,
                *(plan.policy.metadata.get(name) for name in ("name", "version", "dataset")),
            ),
        ),
        "engine": (statement.engine, plan.engine),
    }
    different = [name for name, (stated, planned) in said.items() if stated != planned]
    for name in different:
        yield Check(False, f"{STATEMENT_FILE}: '{name}' is not what {PLAN_FILE} says")
    if not different:
        yield Check(
            True, f"{PLAN_FILE}: policy, guarantees and exposed columns are the statement's"
        )


def same_stamp(log: Path, earlier: Earlier) -> Iterator[Check]:
    """Whether the stamp in the log names this statement, and says of guarantees and exposed columns
    what it says.
    """
    from cloakwork.publishing.stamp import read_stamp

    statement = earlier.envelope.predicate
    if statement.stamp == "none":
        yield Check(True, f"{log.name}: its format has no room for a stamp, as the statement says")
        return
    try:
        found = read_stamp(log)
    except LogError as error:
        yield Check(False, f"{log.name}: stamp: {str(error).partition(chr(10))[0]}")
        return
    wrong = list(_wrong_in(found, _expected(earlier)))
    for line in wrong:
        yield Check(False, f"{log.name}: stamp: {line}")
    if not wrong:
        yield Check(True, f"{log.name}: its stamp carries this statement's digest and guarantees")


def _expected(earlier: Earlier) -> Mapping[str, str]:
    statement = earlier.envelope.predicate
    digest = hashlib.sha256(canonical(earlier.raw)).hexdigest()
    said = {
        "cloakwork:statement": digest,
        "cloakwork:policy": statement.policy.name,
        "cloakwork:policy version": statement.policy.version,
        "cloakwork:policy digest": statement.policy.digest,
        "cloakwork:engine": statement.engine,
    }
    for number, each in enumerate(statement.guarantees, start=1):
        place = f"cloakwork:guarantees/cloakwork:guarantee{number}/cloakwork:"
        said |= {f"{place}kind": each.kind, f"{place}sentence": each.sentence}
    for number, column in enumerate(statement.exposed, start=1):
        place = f"cloakwork:exposed/cloakwork:exposed{number}/cloakwork:"
        said |= {f"{place}column": column.column, f"{place}tells": column.says}
    return said


def _wrong_in(found: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[str]:
    for place, text in expected.items():
        if place not in found:
            yield f"{place} is missing"
        elif found[place] != text:
            yield f"{place} says {found[place]!a}, the statement {text!a}"
    for place in found:
        if not place.startswith(("cloakwork:", "privacy:")):
            yield f"{place!a} does not belong there"


def _shortest(tree: JsonValue) -> int:
    """Edges from the root of a hierarchy to its value nearest to the root."""
    if isinstance(tree, dict) and tree:
        return 1 + min(_shortest(below) for below in tree.values())
    if isinstance(tree, list) and tree:
        return min(_shortest(item) if isinstance(item, dict) else 1 for item in tree)
    return 0 if tree in ({}, [], None) else 1


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
