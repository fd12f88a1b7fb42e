"""The policy language, version 1: what a compliance team may write.

These models are the judge of a policy; ``schemas/privacy-policy-v1.json`` is generated from them.
Every field carries the sentence that an author reads in the editor.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from cloakwork.budget import Cost, epsilon_of_advantage
from cloakwork.facts import CASE, UNIX_EPOCH, Facts, Unit, Window, unit_name
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.policy.globs import MOST_GLOBS, Decisive, decisive, is_glob, matches
from cloakwork.quantities import (
    LARGEST,
    LEAST_EPSILON,
    LONGEST,
    MOST_BUDGET,
    MOST_EPSILON,
    MOST_UNITS,
    SHORTEST,
    Duration,
    Frozen,
    Number,
    Probability,
    Value,
)

API_VERSION: Final = "cloakwork/v1"
MOST_GUARANTEES: Final = 100
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2200

Role = Literal[
    "identifier", "control-flow", "timestamp", "quasi-identifier", "sensitive", "insensitive"
]
Treatment = Literal["keep", "drop", "pseudonymise", "generalise"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Reason = Annotated[str, Field(min_length=3)]
Whole = Annotated[int, Field(strict=True)]
Figure = Annotated[Number, Field(ge=-LARGEST, le=LARGEST)]
Flag = Annotated[bool, Field(strict=True)]
MechanismName = Annotated[
    str, Field(min_length=1, max_length=200, description="Name or glob, such as kanon/*")
]


def _instant(value: Any) -> Any:
    if isinstance(value, str | datetime):
        return value
    raise ValueError("must be an instant with its time zone, such as 2014-01-01T00:00:00Z")


def _ends_are_instants(value: Any) -> Any:
    if isinstance(value, dict):
        for end in ("start", "end"):
            if end in value and not isinstance(value[end], str | datetime):
                raise ValueError(
                    f"{end} must be an instant with its time zone, such as 2014-01-01T00:00:00Z"
                )
    return value


def _of_our_time(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year < LAST_YEAR:
        raise ValueError(f"must lie in the years from {FIRST_YEAR} to {LAST_YEAR - 1}")
    return value


def _ends_of_our_time(window: Window) -> Window:
    for end, value in (("start", window.start), ("end", window.end)):
        if not FIRST_YEAR <= value.year < LAST_YEAR:
            raise ValueError(f"{end} must lie in the years from {FIRST_YEAR} to {LAST_YEAR - 1}")
    return window


Instant = Annotated[AwareDatetime, BeforeValidator(_instant), AfterValidator(_of_our_time)]
Span = Annotated[Window, BeforeValidator(_ends_are_instants), AfterValidator(_ends_of_our_time)]


class Metadata(Frozen):
    """Who is responsible for the policy, what it is for, and which dataset's budget it draws on."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9._-]*$",
            max_length=100,
            description="Short name in lower case",
        ),
    ]
    version: Annotated[
        str,
        Field(
            pattern=r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$",
            description="Semantic version, for example 1.0.0",
        ),
    ]
    owner: Annotated[
        str,
        Field(min_length=1, description="Who answers for the policy, for example a mail address"),
    ]
    purpose: Annotated[str, Field(min_length=1, description="What the release is for")]
    dataset: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            description="Identity of the dataset; overlapping extracts share it",
        ),
    ]
    legal_basis: Annotated[
        str | None, Field(alias="legalBasis", description="For example GDPR Art. 9(2)(j)")
    ] = None
    description: Annotated[
        str | None, Field(description="Anything else that a reader should know")
    ] = None


class AttributeRule(Frozen):
    """What happens to one attribute, or to all that match a glob."""

    role: Annotated[
        Role | None,
        Field(
            description="What the attribute is; control-flow and timestamp name the log's two main columns"
        ),
    ] = None
    treatment: Annotated[
        Treatment | None,
        Field(
            description="What happens to the values; without one they are released where a guarantee covers them, else dropped"
        ),
    ] = None
    hierarchy: Annotated[
        dict[str, Value] | None,
        Field(description="Generalisation tree: {group: {subgroup: [value, ...]}}"),
    ] = None
    level: Annotated[
        Whole,
        Field(
            ge=0,
            le=40,
            description="Depth of the groups to release; 0 is the root, values that lie higher take their lowest group",
        ),
    ] = 1
    bins: Annotated[
        tuple[Figure, ...] | None,
        Field(
            min_length=2, description="Edges of intervals, ascending; values outside are dropped"
        ),
    ] = None
    domain: Annotated[
        tuple[Value, ...] | None,
        Field(min_length=1, description="All values that may occur, declared public"),
    ] = None
    range: Annotated[
        tuple[Figure, ...] | None,
        Field(
            min_length=2,
            max_length=2,
            description="Least and largest number that may occur, declared public",
        ),
    ] = None
    link: Annotated[
        Flag, Field(description="Give one value the same pseudonym in every release of the dataset")
    ] = False

    @property
    def _may_coarsen(self) -> bool:
        return self.treatment == "generalise" or (
            self.role == "quasi-identifier" and self.treatment in (None, "keep")
        )

    @field_validator("bins")
    @classmethod
    def _ascending(cls, bins: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if bins and list(bins) != sorted(set(bins)):
            raise ValueError("must ascend, without repeating an edge")
        return bins

    @model_validator(mode="after")
    def _coherent(self) -> "AttributeRule":
        if self.role is None and self.treatment is None:
            raise ValueError("needs a role or a treatment")
        if self.treatment == "generalise" and (self.hierarchy is None) == (self.bins is None):
            raise ValueError("treatment generalise needs either a hierarchy or bins")
        if self.hierarchy is not None and self.bins is not None:
            raise ValueError("needs a hierarchy or bins, not both")
        if not self._may_coarsen and not (self.hierarchy is None and self.bins is None):
            name = "bins" if self.hierarchy is None else "hierarchy"
            raise ValueError(
                f"{name} belongs to treatment: generalise, or to role: quasi-identifier"
            )
        if self.range is not None and (self.domain is not None or self.range[0] >= self.range[1]):
            raise ValueError("range must be two ascending numbers, and stands in place of a domain")
        if self.link and self.treatment != "pseudonymise":
            raise ValueError("link belongs to treatment: pseudonymise")
        if self.treatment in ("pseudonymise", "generalise") and self.role in (
            "control-flow",
            "timestamp",
        ):
            raise ValueError(f"treatment must be keep or drop where the role is {self.role}")
        return self


def _is_empty(value: Any) -> bool:
    """Later fields are left out where they say nothing: a policy keeps its digest."""
    return not value


class Limit(Frozen):
    """A budget: epsilon and delta, or the guessing advantage that they come to."""

    epsilon: Annotated[
        Number | None,
        Field(
            ge=LEAST_EPSILON,
            le=MOST_BUDGET,
            description="Differential privacy's epsilon; smaller is more private",
        ),
    ] = None
    delta: Annotated[
        Probability,
        Field(
            ge=0,
            lt=1,
            description="Probability that may escape the bound of epsilon, for example 1.0e-6; 0, or at least 1e-20",
        ),
    ] = 0.0
    guessing_advantage: Annotated[
        Number | None,
        Field(
            gt=0,
            lt=1,
            description="Largest rise of an attacker's probability that somebody is in the log",
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> "Limit":
        if (self.epsilon is None) == (self.guessing_advantage is None):
            raise ValueError("needs either epsilon or guessing_advantage")
        self.cost()  # refuses an advantage that leaves no epsilon beside its delta
        return self

    def cost(self) -> Cost:
        """The limit as epsilon and delta."""
        if self.guessing_advantage is not None:
            return Cost(
                epsilon=epsilon_of_advantage(self.guessing_advantage, self.delta), delta=self.delta
            )
        assert self.epsilon is not None  # noqa: S101 - the validator holds
        return Cost(epsilon=self.epsilon, delta=self.delta)


class Total(Limit):
    """What all releases of the dataset together may cost; metric and local privacy may be capped
    separately.
    """

    metric: Annotated[
        Limit | None, Field(description="Separate total for metric privacy per value")
    ] = None
    local: Annotated[
        Limit | None, Field(description="Separate total for local differential privacy per value")
    ] = None


class ProfileShare(Frozen):
    """What a DP profile of the log may cost: a part of what the guarantee of differential privacy
    allows.
    """

    epsilon: Annotated[
        Number,
        Field(ge=LEAST_EPSILON, le=MOST_EPSILON, description="Its part of the guarantee's epsilon"),
    ]
    delta: Annotated[
        Probability,
        Field(
            ge=0,
            lt=1,
            description="Its part of the guarantee's delta; without one no activities are selected",
        ),
    ] = 0.0
    activities_per_case: Annotated[
        Whole,
        Field(
            ge=1,
            le=10_000,
            description="How many activities of a case count when activities are selected",
        ),
    ] = 8


class Budget(Frozen):
    """What one release and all releases of the dataset may cost."""

    release: Annotated[Limit | None, Field(description="Most that one release may cost")] = None
    total: Annotated[
        Total | None, Field(description="Most that all releases of the dataset may cost together")
    ] = None
    books: Annotated[
        dict[Name, Limit],
        Field(
            description="Totals by protected unit (case, or an attribute) that are kept apart from each other: none counts "
            "what releases that protect another unit listed here cost, and they do not add up to one person's risk",
            exclude_if=_is_empty,
        ),
    ] = {}
    composition: Annotated[
        Literal["basic", "tight"], Field(description="How releases of the dataset add up")
    ] = "basic"


class Mechanisms(Frozen):
    """Which mechanisms the planner may use; names may be globs such as ``kanon/*``."""

    allow: Annotated[
        tuple[MechanismName, ...],
        Field(description="Mechanisms that may be used; all unless given"),
    ] = ("*",)
    deny: Annotated[
        tuple[MechanismName, ...],
        Field(description="Mechanisms that may not be used, allowed or not"),
    ] = ()
    prefer: Annotated[
        tuple[MechanismName, ...], Field(description="Tried first, in this order")
    ] = ()
    parameters: Annotated[
        dict[str, dict[str, Value]], Field(description="Options by mechanism name")
    ] = {}
    accept_unproven: Annotated[
        Flag,
        Field(
            description="Run mechanisms whose guarantee is only published; they never satisfy a guarantee"
        ),
    ] = False

    def allows(self, name: str) -> bool:
        """Whether the policy lets the planner use the mechanism ``name``."""
        return any(matches(glob, name) for glob in self.allow) and not any(
            matches(glob, name) for glob in self.deny
        )


class Assume(Frozen):
    """Public facts: known to everybody, printed with every claim, enforced on the log by dropping
    and truncating.
    """

    alphabet: Annotated[
        tuple[Name, ...] | None,
        Field(min_length=1, description="All activities that may be released"),
    ] = None
    units_at_most: Annotated[
        Whole | None,
        Field(ge=1, le=MOST_UNITS, description="Upper bound on the number of units in the log"),
    ] = None
    cases_per_unit: Annotated[
        dict[Name, Annotated[Whole, Field(ge=1, le=MOST_UNITS)]],
        Field(
            description="By attribute, the most cases of the whole dataset that one value of it has: "
            "converts what releases that protect cases cost into what they cost one such unit",
            exclude_if=_is_empty,
        ),
    ] = {}
    longest_case: Annotated[
        Whole | None,
        Field(ge=1, le=1_000_000, description="Most events of a case; longer cases are truncated"),
    ] = None
    longest_gap: Annotated[
        Duration | None,
        Field(
            ge=SHORTEST,
            le=LONGEST,
            description="Longest time between two events of a case, for example 30d; from 1ms to 36525d",
        ),
    ] = None
    window: Annotated[
        Span | None,
        Field(
            description="Span of time in which cases start; others are moved to its edge; years from 1900 to 2199"
        ),
    ] = None
    epoch: Annotated[
        Instant,
        Field(description="Instant from which case starts are counted; years from 1900 to 2199"),
    ] = UNIX_EPOCH
    grid: Annotated[
        Duration,
        Field(
            ge=SHORTEST,
            le=timedelta(days=366),
            description="Step to which times are rounded before noise; from 1ms to 366d",
            json_schema_extra={"default": "1s"},
        ),
    ] = timedelta(seconds=1)


def _exposures(value: Any) -> Any:
    """Read ``expose`` as a mapping, or as a list of {column, reason}."""
    if isinstance(value, list):
        pairs = [
            (item.get("column"), item.get("reason")) if isinstance(item, dict) else (item, None)
            for item in value
        ]
        return {column: reason if reason is not None else "" for column, reason in pairs}
    return value


class Exposure(Frozen):
    """One column that stays uncovered, and why that is acceptable."""

    column: Annotated[Name, Field(description="The column, or the attribute by name")]
    reason: Annotated[
        Reason, Field(description="Why it is acceptable that nothing protects this column")
    ]


Exposures = Annotated[
    dict[Name, Reason],
    BeforeValidator(_exposures, json_schema_input_type=dict[Name, Reason] | tuple[Exposure, ...]),
]


class Output(Frozen):
    """How the release is written."""

    format: Annotated[
        Literal["xes", "xes.gz", "csv", "csv.gz", "parquet"],
        Field(description="File format of the released log"),
    ] = "xes.gz"
    report: Annotated[
        tuple[Literal["html", "json"], ...], Field(description="Formats of the internal report")
    ] = (
        "html",
        "json",
    )


def _unit(value: Any) -> Any:
    if isinstance(value, dict) and type(value.get("max_cases", 1)) is not int:
        raise ValueError("max_cases must be a whole number")
    return {} if value == "case" else value


class Spec(Frozen):
    """What must be guaranteed, for whom, with which budget, by which mechanisms, about which
    attributes.
    """

    unit: Annotated[
        Unit,
        BeforeValidator(_unit, json_schema_input_type=Literal["case"] | Unit),
        Field(
            description="Whom the guarantees protect: case, or {attribute, max_cases} where a person may own several cases",
            json_schema_extra={"default": "case"},
        ),
    ] = Unit()
    attributes: Annotated[
        dict[Name, AttributeRule],
        Field(
            description="What happens to each attribute, by its name in the log or by a glob; the exact name wins"
        ),
    ]
    guarantees: Annotated[
        tuple[Guarantee, ...],
        Field(
            min_length=1,
            max_length=MOST_GUARANTEES,
            description="What every release must guarantee, proved or measured",
        ),
    ]
    budget: Annotated[Budget, Field(description="What a release, and all of them, may cost")] = (
        Budget()
    )
    profile: Annotated[
        ProfileShare | None,
        Field(
            description="Noisy figures of the log that planning may read, with their own part of the budget"
        ),
    ] = None
    mechanisms: Annotated[Mechanisms, Field(description="Which mechanisms may be used")] = (
        Mechanisms()
    )
    assume: Annotated[
        Assume, Field(description="Facts that are public anyway; printed with every claim")
    ] = Assume()
    expose: Annotated[
        Exposures,
        Field(description="Columns that stay uncovered by any guarantee, each with a reason"),
    ] = {}
    output: Annotated[Output, Field(description="How the release is written")] = Output()

    @field_validator("attributes")
    @classmethod
    def _few_globs(cls, attributes: dict[str, AttributeRule]) -> dict[str, AttributeRule]:
        if (count := sum(map(is_glob, attributes))) > MOST_GLOBS:
            raise ValueError(
                f"must hold at most {MOST_GLOBS} globs, for each is compared with all others; it has {count:,}"
            )
        return attributes

    @model_validator(mode="after")
    def _names_and_columns_differ(self) -> "Spec":
        for name, rule in self.attributes.items():
            if name in (CONTROL_FLOW, TIMESTAMPS, METADATA):
                raise ValueError(
                    f"an attribute cannot be called '{name}': that is the name of a column"
                )
            if rule.role in ("control-flow", "timestamp") and name.startswith("case:"):
                raise ValueError(
                    f"role {rule.role} belongs to an attribute of events, not to '{name}'"
                )
        return self

    @model_validator(mode="after")
    def _books_name_units(self) -> "Spec":
        own = unit_name(self.unit)
        if self.unit.attribute == CASE:
            raise ValueError(
                "unit.attribute cannot be 'case': that names the unit that is one case"
            )
        if CASE in self.assume.cases_per_unit:
            raise ValueError(
                "assume.cases_per_unit names attributes that tell persons apart, and 'case' is none"
            )
        if self.budget.books and own not in self.budget.books:
            raise ValueError(f"budget.books lacks '{own}', the unit that this policy protects")
        bound = self.assume.cases_per_unit.get(own)
        if bound is not None and bound < self.unit.max_cases:
            raise ValueError(f"assume.cases_per_unit of '{own}' is less than unit.max_cases")
        return self


class Policy(Frozen):
    """A privacy policy, version 1."""

    api_version: Annotated[
        Literal["cloakwork/v1"],
        Field(alias="apiVersion", description="Version of the policy language"),
    ]
    kind: Annotated[Literal["PrivacyPolicy"], Field(description="What the document is")]
    metadata: Annotated[
        Metadata, Field(description="Who is responsible, what for, and about which dataset")
    ]
    spec: Annotated[Spec, Field(description="What must be guaranteed, and how")]

    def rule(self, attribute: str) -> AttributeRule | None:
        """The rule for one attribute: its own name first, then the smallest glob that it fits; None
        when undeclared.
        """
        return self._decisive().rule(attribute)

    def rule_of(self, name_or_glob: str) -> AttributeRule | None:
        """The rule that a policy has for a name or a glob as a policy writes them; None when
        undeclared.
        """
        return self._decisive().rule_of(name_or_glob)

    def _decisive(self) -> Decisive[AttributeRule]:
        return decisive(self, self.spec, lambda: self.spec.attributes)

    def attribute_with(self, role: Role) -> str | None:
        """The attribute that the policy gives ``role`` by name, if any."""
        return next(
            (name for name, rule in self.spec.attributes.items() if rule.role == role), None
        )

    def column(self, attribute: str) -> str:
        """The column that an attribute's values belong to: ``control-flow``, ``timestamps``, or the
        attribute itself.
        """
        if attribute in (CONTROL_FLOW, TIMESTAMPS, METADATA):
            return attribute
        rule = self.rule_of(attribute)
        return {"control-flow": CONTROL_FLOW, "timestamp": TIMESTAMPS}.get(
            rule.role or "" if rule else "", attribute
        )

    def goals(self) -> tuple[Guarantee, ...]:
        """The guarantees, over columns instead of attribute names."""
        return tuple(self._over_columns(goal) for goal in self.spec.guarantees)

    def _over_columns(self, goal: Guarantee) -> Guarantee:
        if "over" in type(goal).model_fields:
            return goal.model_copy(update={"over": tuple(self.column(name) for name in goal.over)})
        attribute = getattr(goal, "attribute", None)
        return (
            goal
            if attribute is None
            else goal.model_copy(update={"attribute": self.column(attribute)})
        )

    def facts(self) -> Facts:
        """The declared public facts, all that planning may read."""
        assume = self.spec.assume
        rules = self.spec.attributes.items()
        return Facts(
            unit=self.spec.unit,
            domains={name: rule.domain for name, rule in rules if rule.domain is not None},
            ranges={
                name: (rule.range[0], rule.range[1])
                for name, rule in rules
                if rule.range is not None
            },
            **{name: getattr(assume, name) for name in Assume.model_fields},
        )


KNOWN_MECHANISMS: Final = frozenset(
    {
        "bound",
        "pripel",
        "dfg/laplace",
        *(
            f"variants/{name}"
            for name in ("adaptive", "threshold", "prefix-tree", "sacofa", "amun", "libra")
        ),
        *(f"variants/{name}" for name in ("travag", "ddpm", "markov")),
        *(f"variants/{name}-published" for name in ("prefix-tree", "sacofa", "amun", "libra")),
        *(
            f"kanon/{name}"
            for name in ("pretsa", "best-first", "a-star", "optimal", "auto", "generalise")
        ),
        *(f"kanon/{name}" for name in ("tlkc", "closeness", "fill")),
        *(f"timestamps/{name}" for name in ("laplace", "histogram")),
        *(f"attributes/{name}" for name in ("redact", "drop", "generalise", "pseudonymise")),
        *(f"attributes/{name}" for name in ("randomised-response", "bounded-laplace", "histogram")),
    }
)
"""Every mechanism name that a policy of version 1 may speak of, built in this version or not."""


def describe_version(policy: Policy) -> str:
    """Name and version as people cite them: ``hospital-process-discovery 1.0.0``."""
    return f"{policy.metadata.name} {policy.metadata.version}"
