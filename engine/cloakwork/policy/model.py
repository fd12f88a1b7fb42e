"""The policy language, version 1: what a compliance team may write.

These models are the judge of a policy; ``schemas/privacy-policy-v1.json`` is generated from them.
Every field carries the sentence that an author reads in the editor.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cloakwork.base.costs import Cost, epsilon_of_advantage
from cloakwork.base.facts import CASE, Facts, Suggested, Unit, unit_as_written, unit_name
from cloakwork.base.globs import MOST_GLOBS, RuleResolver, is_glob, matches, rule_resolver
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import START
from cloakwork.base.notebook_html import InNotebooks
from cloakwork.base.quantities import (
    DATASET_PATTERN,
    IF_SAID,
    LEAST_EPSILON,
    MOST_BUDGET,
    MOST_EPSILON,
    Described,
    Number,
    Probability,
    Value,
)
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.log.formats.options import InputOptions
from cloakwork.policy.advice import Waiver
from cloakwork.policy.declared import (
    Assume,
    Boolean,
    Quantity,
    RangeEnd,
    ShortName,
    ValueType,
    WholeNumber,
    Windows,
    coherent_type,
    number_of_end,
)

Role = Literal[
    "identifier",
    "case-id",
    "control-flow",
    "timestamp",
    "quasi-identifier",
    "sensitive",
    "insensitive",
]
Treatment = Literal["keep", "drop", "pseudonymise", "generalise"]


class AttributeRule(Described):
    """What happens to one attribute, or to all that match a glob."""

    role: Role | None = None
    """What the attribute is; control-flow and timestamp name the log's two main columns, case-id
    the column of a table that tells cases apart
    """

    treatment: Treatment | None = None
    """What happens to the values; without one they are released where a guarantee covers them, else
    dropped
    """

    hierarchy: dict[str, Value] | None = None
    """Generalisation tree: {group: {subgroup: [value, ...]}}"""

    level: Annotated[WholeNumber, Field(ge=0, le=40)] = 1
    """Depth of the groups to release; 0 is the root, values that lie higher take their lowest group
    """

    bins: Annotated[tuple[Quantity, ...] | None, Field(min_length=2)] = None
    """Edges of intervals, ascending; values outside are dropped"""

    domain: Annotated[tuple[Value, ...] | None, Field(min_length=1)] = None
    """All values that may occur, declared public"""

    range: Annotated[tuple[RangeEnd, ...] | None, Field(min_length=2, max_length=2)] = None
    """Least and largest number, day or instant that may occur, declared public"""

    type: Annotated[ValueType | None, IF_SAID] = None
    """What the numbers of a range are, integer or number; or what values are that find_values
    finds, text or integer
    """

    find_values: Annotated[Boolean, IF_SAID] = False
    """Where no domain is public: find the values that many cases have, through noise that the
    guarantee pays for
    """

    link: Boolean = False
    """Give one value the same pseudonym in every release of the dataset"""

    def value_type(self) -> Any:
        """What its values are, of a range or where they are found; None of others."""
        return coherent_type(self.type, self.range, finds=self.find_values)

    @field_validator("bins")
    @classmethod
    def _ascending(cls, bins: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if bins and list(bins) != sorted(set(bins)):
            raise ValueError("must ascend, without repeating an edge")
        return bins

    @model_validator(mode="after")
    def _coherent(self) -> "AttributeRule":
        if self.role is None and self.treatment is None:
            raise ValueError("needs a role, such as role: insensitive, or a treatment")
        if self.role == "case-id" and self.treatment not in (None, "drop"):
            raise ValueError("treatment must be drop where the role is case-id: cases are renamed")
        # Groups: one kind of them, and only where values are made coarser.
        if self.treatment == "generalise" and (self.hierarchy is None) == (self.bins is None):
            raise ValueError("treatment generalise needs either a hierarchy or bins")
        if self.hierarchy is not None and self.bins is not None:
            raise ValueError("needs a hierarchy or bins, not both")
        # k-anonymity makes a kept quasi-identifier coarser, so that one may have groups as well.
        may_coarsen = self.treatment == "generalise" or (
            self.role == "quasi-identifier" and self.treatment in (None, "keep")
        )
        if not may_coarsen and not (self.hierarchy is None and self.bins is None):
            name = "bins" if self.hierarchy is None else "hierarchy"
            raise ValueError(
                f"{name} belongs to treatment: generalise, or to role: quasi-identifier"
            )
        # Public values: one way of declaring them, with a type that goes with it.
        if self.range is not None and self.domain is not None:
            raise ValueError("range stands in place of a domain; give one of them")
        type_ = coherent_type(self.type, self.range, finds=self.find_values)
        if self.range is not None and number_of_end(self.range[0]) >= number_of_end(self.range[1]):
            what = {"date": "days", "time": "instants"}.get(str(type_), "numbers")
            raise ValueError(f"range must be two ascending {what}, the least first")
        if self.find_values and (self.domain is not None or self.range is not None):
            raise ValueError("find_values stands in place of a domain or a range; give one of them")
        if self.link and self.treatment != "pseudonymise":
            raise ValueError("link belongs to treatment: pseudonymise")
        # The two main columns are covered by guarantees, not by a treatment of single values.
        if self.treatment in ("pseudonymise", "generalise") and self.role in (
            "control-flow",
            "timestamp",
        ):
            raise ValueError(f"treatment must be keep or drop where the role is {self.role}")
        return self


class Limit(Described):
    """A budget: epsilon and delta, or the guessing advantage that they come to."""

    epsilon: Annotated[Number | None, Field(ge=LEAST_EPSILON, le=MOST_BUDGET)] = None
    """Differential privacy's epsilon; smaller is more private"""

    delta: Annotated[Probability, Field(ge=0, lt=1)] = 0.0
    """Probability that may escape the bound of epsilon, for example 1.0e-6; 0, or at least 1e-20"""

    guessing_advantage: Annotated[Number | None, Field(gt=0, lt=1)] = None
    """Largest rise of an attacker's probability that somebody is in the log"""

    @model_validator(mode="after")
    def _one_of(self) -> "Limit":
        # Neither would set no limit, and both could contradict each other.
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

    metric: Limit | None = None
    """Separate total for metric privacy per value"""

    local: Limit | None = None
    """Separate total for local differential privacy per value"""


class ProfileShare(Described):
    """What a DP profile of the log may cost: a part of what the guarantee of differential privacy
    allows.
    """

    epsilon: Annotated[Number, Field(ge=LEAST_EPSILON, le=MOST_EPSILON)]
    """Its part of the guarantee's epsilon"""

    delta: Annotated[Probability, Field(ge=0, lt=1)] = 0.0
    """Its part of the guarantee's delta; without one no activities are selected"""

    activities_per_case: Annotated[WholeNumber, Field(ge=1, le=10_000)] = 8
    """How many activities of a case count when activities are selected"""


ATTRIBUTES: Final = "attributes"

Weight = Annotated[Number, Field(gt=0, le=1e6)]

PartName = Literal["control-flow", "timestamps", "attributes"]
"""Parts of a log that mechanisms of one guarantee serve; ``attributes``: all that it covers."""


class Budget(Described):
    """What one release and all releases of the dataset may cost."""

    release: Limit | None = None
    """Most that one release may cost"""

    total: Total | None = None
    """Most that all releases of the dataset may cost together"""

    books: Annotated[dict[ShortName, Limit], IF_SAID] = {}
    """Totals by protected unit (case, or an attribute) that are kept apart from each other: none
    counts what releases that protect another unit listed here cost, and they do not add up to one
    person's risk
    """

    shares: Annotated[dict[PartName, Weight], IF_SAID] = {}
    """How a guarantee over control-flow and more columns is shared out: weights of control-flow,
    timestamps and attributes, which need not add up to 1; a part's noise falls with the root of its
    share
    """

    windows: Annotated[Windows | None, IF_SAID] = None
    """For a log that grows: each release is made of the cases that start in one window, which apply
    --window names. Where the unit is the case, each window has the total to itself
    """

    composition: Literal["basic", "tight"] = "basic"
    """How releases of the dataset add up"""


_COLUMN_OF_ROLE: Final[dict[str, str]] = {"control-flow": CONTROL_FLOW, "timestamp": TIMESTAMPS}
API_VERSION: Final = "cloakwork/v1"
MOST_GUARANTEES: Final = 100

Reason = Annotated[str, Field(min_length=3)]
MechanismName = Annotated[
    str, Field(min_length=1, max_length=200, description="Name or glob, such as kanon/*")
]


class Metadata(Described):
    """Who is responsible for the policy, what it is for, and which dataset's budget it draws on."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
    """Short name in lower case"""

    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")]
    """Semantic version, for example 1.0.0"""

    owner: Annotated[str, Field(min_length=1)]
    """Who answers for the policy, for example a mail address"""

    purpose: Annotated[str, Field(min_length=1)]
    """What the release is for"""

    dataset: Annotated[str, Field(pattern=DATASET_PATTERN)]
    """Identity of the dataset; overlapping extracts share it"""

    legal_basis: Annotated[str | None, Field(alias="legalBasis")] = None
    """For example GDPR Art. 9(2)(j)"""

    description: str | None = None
    """Anything else that a reader should know"""

    suggested: Annotated[Suggested | None, IF_SAID] = None
    """What 'cloakwork policy suggest' took from the log, and who confirmed it"""


class Mechanisms(Described):
    """Which mechanisms the planner may use; names may be globs such as ``kanon/*``."""

    allow: tuple[MechanismName, ...] = ("*",)
    """Mechanisms that may be used; all unless given"""

    deny: tuple[MechanismName, ...] = ()
    """Mechanisms that may not be used, allowed or not"""

    prefer: tuple[MechanismName, ...] = ()
    """Tried first, in this order"""

    parameters: dict[str, dict[str, Value]] = {}
    """Options by mechanism name; 'cloakwork mechanisms NAME' lists them"""

    accept_unproven: Boolean = False
    """Run mechanisms whose guarantee is only published; they never satisfy a guarantee"""

    def allows(self, name: str) -> bool:
        """Whether the policy lets the planner use the mechanism ``name``."""
        is_allowed = any(matches(glob, name) for glob in self.allow)
        is_denied = any(matches(glob, name) for glob in self.deny)
        # What is denied stays denied, whatever allows it.
        return is_allowed and not is_denied


LogFormat = Literal["xes", "xes.gz", "csv", "csv.gz", "parquet"]


class LogForm(Described):
    """How the file of a log is written."""

    format: LogFormat = "xes.gz"
    """Its format"""

    options: Annotated[InputOptions | None, IF_SAID] = None
    """Of a table with columns of its own names: what reads it"""


class Output(Described):
    """How the release is written."""

    format: Literal[LogFormat, "auto"] = "xes.gz"
    """File format of the released log; auto: that of the log that comes in, of CSV with its names
    of columns and its delimiter, where that is XES, CSV or Parquet
    """

    report: tuple[Literal["html", "json"], ...] = (
        "html",
        "json",
    )
    """Formats of the internal report"""


class Spec(Described):
    """What must be guaranteed, for whom, with which budget, by which mechanisms, about which
    attributes.
    """

    unit: Annotated[
        Unit,
        BeforeValidator(unit_as_written, json_schema_input_type=Literal["case"] | Unit),
        Field(json_schema_extra={"default": "case"}),
    ] = Unit()
    """Whom the guarantees protect: case, or {attribute, max_cases} where a person may own several
    cases, or {attribute, level: event} for employees, whom an attribute of events names
    """

    attributes: dict[ShortName, AttributeRule]
    """What happens to each attribute, by its name in the log or by a glob; the exact name wins"""

    guarantees: Annotated[tuple[Guarantee, ...], Field(min_length=1, max_length=MOST_GUARANTEES)]
    """What every release must guarantee, proved or measured"""

    budget: Budget = Budget()
    """What a release, and all of them, may cost"""

    profile: ProfileShare | None = None
    """Noisy figures of the log that planning may read, with their own part of the budget"""

    mechanisms: Mechanisms = Mechanisms()
    """Which mechanisms may be used"""

    assume: Assume = Assume()
    """Facts that are public anyway; printed with every claim"""

    expose: dict[ShortName, Reason] = {}
    """Columns that stay uncovered by any guarantee, each with a reason"""

    waivers: Annotated[tuple[Waiver, ...], Field(max_length=100), IF_SAID] = ()
    """Advice of 'cloakwork policy lint' that somebody answers for, until a day"""

    input: Annotated[InputOptions | None, IF_SAID] = None
    """How the log is read: columns, encoding, times"""

    output: Output = Output()
    """How the release is written"""

    @field_validator("attributes")
    @classmethod
    def _few_globs(cls, attributes: dict[str, AttributeRule]) -> dict[str, AttributeRule]:
        count = sum(map(is_glob, attributes))
        if count > MOST_GLOBS:
            raise ValueError(
                f"must hold at most {MOST_GLOBS} globs, "
                f"for each is compared with all others; it has {count:,}"
            )
        return attributes

    @model_validator(mode="after")
    def _names_and_columns_differ(self) -> "Spec":
        # Guarantees name columns and attributes alike, so no attribute may have a column's name.
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
    def _part_of_activity_has_no_rule(self) -> "Spec":
        name = self.input and self.input.activity_with
        if not name:
            return self
        rules = [key for key, rule in self.attributes.items() if matches(key, name)]
        # What drops all that is left says nothing of it.
        if "*" in rules and self.attributes["*"].treatment == "drop":
            rules.remove("*")
        named = {self.unit.attribute}
        for goal in self.guarantees:
            named |= {*getattr(goal, "over", ())}
            named |= {getattr(goal, each, None) for each in ("attribute", "employees")}
        if rules or name in named:
            raise ValueError(
                f"'{name}' is read as part of the activity (input.activity_with): leave out "
                "what the policy says of it beside that, under attributes, unit or guarantees"
            )
        return self

    @model_validator(mode="after")
    def _books_name_units(self) -> "Spec":
        own = unit_name(self.unit)
        if self.unit.attribute == CASE:
            raise ValueError(
                "unit.attribute cannot be 'case': that names the unit that is one case"
            )
        if self.assume.cases_per_employee is not None and self.unit.level == "case":
            raise ValueError(
                "assume.cases_per_employee belongs to employees as the unit: "
                "unit: {attribute: ..., level: event}"
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


class Policy(InNotebooks, Described):
    """A privacy policy, version 1."""

    api_version: Annotated[Literal["cloakwork/v1"], Field(alias="apiVersion")]
    """Version of the policy language"""

    kind: Literal["PrivacyPolicy"]
    """What the document is"""

    metadata: Metadata
    """Who is responsible, what for, and about which dataset"""

    spec: Spec
    """What must be guaranteed, and how"""

    def rule(self, attribute: str) -> AttributeRule | None:
        """The rule for one attribute: its own name first, then the smallest glob that it fits; None
        when undeclared.
        """
        return self._rule_resolver().rule(attribute)

    def rule_name(self, attribute: str) -> str | None:
        """The name or glob whose rule decides about one attribute; None when undeclared."""
        return self._rule_resolver().name(attribute)

    def rule_of(self, name_or_glob: str) -> AttributeRule | None:
        """The rule that a policy has for a name or a glob as a policy writes them; None when
        undeclared.
        """
        return self._rule_resolver().rule_of(name_or_glob)

    def _rule_resolver(self) -> RuleResolver[AttributeRule]:
        return rule_resolver(self, self.spec, lambda: self.spec.attributes)

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
        if rule is None or rule.role is None:
            return attribute
        return _COLUMN_OF_ROLE.get(rule.role, attribute)

    def goals(self) -> tuple[Guarantee, ...]:
        """The guarantees, over columns instead of attribute names; each k-anonymity with the
        employees that it protects, if these are the policy's unit or its own.
        """
        goals = []
        for goal in self.spec.guarantees:
            update: dict[str, object] = {}
            if isinstance(goal, KAnonymity):
                own = self.spec.unit if goal.unit is None else goal.unit
                update["unit"] = own if own.level == "event" else None
            if "over" in type(goal).model_fields:
                update["over"] = tuple(self.column(name) for name in goal.over)
            elif (attribute := getattr(goal, "attribute", None)) is not None:
                update["attribute"] = self.column(attribute)
            goals.append(goal.model_copy(update=update))
        return tuple(goals)

    def form_of_release(self, found: LogForm | None, *, starts: bool) -> LogForm:
        """How the log is written, with ``starts`` or not; with ``auto`` as it came in."""
        stated = self.spec.output.format
        form = (found or LogForm()) if stated == "auto" else LogForm(format=stated)
        if not starts:
            return form
        options = (form.options or InputOptions()).model_copy(update={"starts": START})
        return form.model_copy(update={"options": options})

    def facts(self) -> Facts:
        """The declared public facts, all that planning may read."""
        rules = self.spec.attributes.items()
        unit = self.spec.unit
        # Ends as numbers, whatever they are of: days and instants count from 1970.
        ends = {name: tuple(map(number_of_end, rule.range)) for name, rule in rules if rule.range}
        types = {name: rule.value_type() for name, rule in rules}
        return Facts(
            unit=Unit() if unit.level == "event" else unit,
            employees=unit.attribute if unit.level == "event" else None,
            domains={name: rule.domain for name, rule in rules if rule.domain is not None},
            ranges={name: (low, high) for name, (low, high) in ends.items()},
            types={name: types[name] for name in ends if types[name] != "number"},
            found={name: types[name] for name, rule in rules if rule.find_values},
            suggested=self.metadata.suggested,
            **{
                name: getattr(self.spec.assume, name)
                for name in Assume.model_fields
                if name in Facts.model_fields
            },
        )


def describe_version(policy: Policy) -> str:
    """Name and version as people cite them: ``hospital-process-discovery 1.0.0``."""
    return f"{policy.metadata.name} {policy.metadata.version}"
