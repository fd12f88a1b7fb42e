"""What planning may know: public facts that the policy declares, never what is counted on a log.

Among them are rules that every case of a process keeps (``assume.rules``). Each can be told from a
case's events so far: a case that breaks one has a first event that does, and whatever is cut off at
its end, it keeps those that it kept. So a case can be drawn event by event without ever breaking
one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AwareDatetime,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from cloakwork.base.quantities import IF_SAID, Described, Duration, Frozen
from cloakwork.base.text import listed, quoted

Label = Annotated[str, Field(min_length=1, max_length=200)]


class ProcessRules(Described):
    """Public rules of the process: nothing is charged for keeping them, and no drawn case breaks
    one.
    """

    starts_with: tuple[Label, ...] = ()
    """Each case begins with one of these activities"""

    at_most_once: tuple[Label, ...] = ()
    """Each of these happens at most once in a case"""

    before: tuple[tuple[Label, Label], ...] = ()
    """Pairs: the second never happens unless the first happened before it"""

    never_together: tuple[Annotated[tuple[Label, ...], Field(min_length=2)], ...] = ()
    """Groups of activities: no case has two of one group"""

    @model_validator(mode="after")
    def _hold_together(self) -> "ProcessRules":
        if not self.labels():
            raise ValueError("needs a rule: starts_with, at_most_once, before or never_together")
        for group in self.never_together:
            if len(set(group)) < len(group):
                raise ValueError(f"never_together names an activity twice: {listed(quoted(group))}")
        directly: dict[str, list[str]] = {}
        for a, b in self.before:
            directly.setdefault(b, []).append(a)
        for label in self.starts_with:
            if needed := _all_before(label, directly) - {label}:
                raise ValueError(
                    f"no case can begin with '{label}': before says that "
                    f"'{min(needed)}' comes first"
                )
        for label in self.labels():
            needed = _all_before(label, directly)
            if label in needed:
                raise ValueError(f"no case can have '{label}': by before it must follow itself")
            # Whatever a case with it begins with, two must come together that never do.
            together = {label, *needed}
            apart = self._never_with(together)
            if apart & together or (self.starts_with and apart.issuperset(self.starts_with)):
                raise ValueError(
                    f"no case can have '{label}': what must come with it, never_together rules out"
                )
        return self

    def labels(self) -> tuple[str, ...]:
        """All activities that a rule names, each once, in its order."""
        groups = (self.starts_with, self.at_most_once, *self.before, *self.never_together)
        return tuple(dict.fromkeys(label for group in groups for label in group))

    def keeps(self, variant: Sequence[str]) -> bool:
        """Whether a case with these activities, in this order, breaks no rule."""
        if self.starts_with and variant and variant[0] not in self.starts_with:
            return False
        first: dict[str, int] = {}
        for place, label in enumerate(variant):
            if first.setdefault(label, place) < place and label in self.at_most_once:
                return False
        if any(len(first.keys() & {*group}) > 1 for group in self.never_together):
            return False
        return all(first[b] > first.get(a, len(variant)) for a, b in self.before if b in first)

    def in_words(self) -> Iterator[str]:
        """Each rule as a clause."""
        if self.starts_with:
            yield f"each case begins with {listed(quoted(self.starts_with), 'or')}"
        if self.at_most_once:
            each = "each of " if len(self.at_most_once) > 1 else ""
            yield f"{each}{listed(quoted(self.at_most_once))} happens at most once in a case"
        for a, b in self.before:
            yield f"'{b}' never happens unless '{a}' happened before"
        for group in self.never_together:
            yield f"no case has two of {listed(quoted(group))}"

    def _never_with(self, labels: set[str]) -> set[str]:
        """The activities that never_together rules out beside ``labels``, whose own may be among
        them.
        """
        found: set[str] = set()
        for group in self.never_together:
            own = labels.intersection(group)
            if own:
                found.update(group if len(own) > 1 else own.symmetric_difference(group))
        return found


def _all_before(label: str, directly: Mapping[str, Sequence[str]]) -> set[str]:
    """All that must have happened before an activity, which is among them if it must follow itself;
    ``directly``: by one rule.
    """
    found: set[str] = set()
    ahead = [label]
    while ahead:
        for before in directly.get(ahead.pop(), ()):
            if before not in found:
                found.add(before)
                ahead.append(before)
    return found


UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

CASE: Final = "case"
"""The name of the unit that is one case."""

OF_EVENTS: Final = "event:"
"""Before the attribute, in the name of a unit that is all events of one value."""


RangeType = Literal["number", "integer", "date", "time"]
"""What a declared range is of; in ``Facts.ranges`` dates are days since 1970, and times seconds."""

FoundType = Literal["text", "integer"]
"""What values are that a release finds in the log, through noise."""


class Unit(Frozen):
    """Whom the guarantee protects: one case, or everybody who shares a value of ``attribute``.

    ``max_cases`` bounds how many cases one such unit keeps; a case without the attribute is a unit
    of its own under differential privacy, and none where units are counted. ``on_conflict``: what
    becomes of a case whose rows name two units. ``refuse``: the log is refused. ``split``: every
    case is split by unit, conflicting or not; its rows without the attribute become a case of their
    own. ``level``: ``event`` where the attribute names who performed each event, an employee: the
    unit is all events of one value, in whatever cases; an event without a value is nobody's.
    """

    attribute: str | None = None
    max_cases: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    on_conflict: Literal["refuse", "split"] = "refuse"
    level: Literal["case", "event"] = "case"

    @model_validator(mode="after")
    def _conflicts_of_units(self) -> "Unit":
        if self.attribute is None and self.on_conflict == "split":
            raise ValueError("on_conflict: split belongs to a unit with an attribute")
        if self.level == "case":
            return self
        if self.attribute is None or self.attribute.startswith("case:"):
            raise ValueError("level: event belongs to an attribute of events, such as org:resource")
        if self.max_cases != 1 or self.on_conflict == "split":
            raise ValueError(
                "max_cases and on_conflict belong to level: case; in how many cases one "
                f"'{self.attribute}' takes part at most is assume.cases_per_employee"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, plain: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Without defaults, so that digests of older policies stay what they were."""
        # Digests go by this text.
        found: dict[str, JsonValue] = plain(self)
        later = {("on_conflict", "refuse"), ("level", "case")}
        return {key: value for key, value in found.items() if (key, value) not in later}

    def __str__(self) -> str:
        if self.attribute is None:
            return "case"
        if self.level == "event":
            return f"'{self.attribute}' of events"
        return f"'{self.attribute}' (at most {self.max_cases} cases each)"


def unit_name(unit: Unit) -> str:
    """What the ledger's books call a unit: ``case``, or the attribute that identifies units; after
    ``event:`` where it names employees.

    One case has one id, so a unit named by the case id is the case.
    """
    if unit.level == "event":
        return f"{OF_EVENTS}{unit.attribute}"
    return CASE if unit.attribute in (None, "case:concept:name") else str(unit.attribute)


def unit_as_written(value: Any) -> Any:
    """A unit as a policy writes it: ``case``, or its fields."""
    # By type: to Python true is an int as well.
    if isinstance(value, dict) and type(value.get("max_cases", 1)) is not int:
        raise ValueError("max_cases must be a whole number")
    return {} if value == "case" else value


class Window(Frozen):
    """A span of time that the policy declares public; case starts are clamped into it."""

    start: AwareDatetime
    end: AwareDatetime

    @model_validator(mode="after")
    def _ordered(self) -> "Window":
        if self.end <= self.start:
            raise ValueError("end must lie after start")
        return self


SuggestedText = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Suggested(Described):
    """What a proposal took from the raw log, and who answers for it."""

    read_off: tuple[SuggestedText, ...] = ()
    """What was found in the log, in words"""

    confirmed_by: SuggestedText | None = None
    """Who confirms that this is publicly known"""

    confirmed_on: date | None = None
    """When that was confirmed"""

    chosen: SuggestedText | None = None
    """The form of release that was taken after reading figures of the log"""

    instead_of: SuggestedText | None = None
    """The form that was proposed, which follows from the answers alone"""

    @model_validator(mode="after")
    def _complete(self) -> "Suggested":
        if (self.confirmed_by is None) != (self.confirmed_on is None):
            raise ValueError("confirmed_by and confirmed_on stand together: who, and when")
        if (self.chosen is None) != (self.instead_of is None):
            raise ValueError("chosen and instead_of stand together")
        return self


class Facts(Frozen):
    """Declared public facts, printed with every claim as its assumptions.

    None means "not declared". ``units_at_most`` is an upper bound on the number of units in the
    log; ``cases_per_unit``, by attribute, a bound on the cases that one unit owns in the whole
    dataset (for the ledger's books); ``longest_case`` a bound on events per case (longer cases are
    truncated); ``longest_gap`` a bound on the time between two events of a case (longer gaps are
    clamped); ``time_zone`` the IANA name of the zone by whose clocks the process lives; ``rules``
    what every case of the process keeps (no drawn case breaks one); ``grid`` the step to which time
    is rounded before noise. ``domains``: all values that an attribute may have, by its name;
    ``ranges``: the least and the largest number, and ``types`` what those are that are no plain
    numbers. ``found``: attributes whose values are not declared, but may be found through noise.
    ``measured``:
    which of these facts nobody declared: they come from a DP profile, and are noisy.
    ``release_window``: the name of the window of a growing log whose cases alone are released;
    ``window`` is then its span. ``head_share``: the share of cases that the ten most frequent
    variants hold; only a profile tells, and only predictions use it. ``employees``: the attribute
    of events whose values are protected, where these are employees: mechanisms then protect single
    cases, ``unit``, by so much more that the events of one employee are. ``cases_per_employee``: an
    upper bound on the cases that hold these. ``suggested``: what of the policy came from the log.
    """

    unit: Unit = Unit()
    employees: Annotated[str | None, IF_SAID] = None
    cases_per_employee: Annotated[int | None, Field(ge=1), IF_SAID] = None
    alphabet: tuple[str, ...] | None = None
    units_at_most: Annotated[int, Field(ge=1)] | None = None
    cases_per_unit: Annotated[dict[str, Annotated[int, Field(ge=1)]], IF_SAID] = {}
    longest_case: Annotated[int, Field(ge=1)] | None = None
    window: Window | None = None
    longest_gap: Duration | None = None
    time_zone: Annotated[str | None, IF_SAID] = None
    epoch: AwareDatetime = UNIX_EPOCH
    rules: Annotated[ProcessRules | None, IF_SAID] = None
    grid: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(seconds=1)
    domains: dict[str, tuple[JsonValue, ...]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    types: Annotated[dict[str, RangeType], IF_SAID] = {}
    found: Annotated[dict[str, FoundType], IF_SAID] = {}
    measured: tuple[str, ...] = ()
    release_window: Annotated[str | None, IF_SAID] = None
    head_share: Annotated[float, Field(ge=0, le=1)] | None = None
    suggested: Annotated[Suggested | None, IF_SAID] = None

    @property
    def protected(self) -> Unit:
        """Whom the policy protects."""
        if self.employees is None:
            return self.unit
        return Unit(attribute=self.employees, level="event")

    def numeric_range(self, name: str) -> tuple[float, float] | None:
        """The declared range of an attribute of numbers; None of others."""
        # Dates and times have ranges in numbers, and are none.
        if self.types.get(name, "number") in ("date", "time"):
            return None
        return self.ranges.get(name)


# Generalisation trees: nested groups of values.

Place = tuple[str | int, ...]
"""The way to a value: names of groups, and numbers in lists."""


def leaves_of_tree(tree: Any, steps: Place) -> Iterator[tuple[Place, Any]]:
    """The values of a generalisation tree with their places; an empty group yields itself."""
    if isinstance(tree, dict) and tree:
        for group, below in tree.items():
            yield from leaves_of_tree(below, (*steps, group))
    elif isinstance(tree, list) and tree:
        for index, below in enumerate(tree):
            place = (*steps, index)
            if isinstance(below, dict):
                yield from leaves_of_tree(below, place)
            else:
                yield place, below
    else:
        yield steps, tree
