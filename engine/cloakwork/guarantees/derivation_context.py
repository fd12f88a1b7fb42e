"""What every rule of derivation reads: the steps, the flow of columns, the declared facts, and how
to cite them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cloakwork.base.costs import Composed, Currency, PrivacyEvent
from cloakwork.base.facts import CASE, Facts, Unit, unit_name
from cloakwork.guarantees.claims import Assumption, Source
from cloakwork.guarantees.claims.assumptions import (
    CasesOfWindow,
    CasesTruncated,
    KnownActivities,
    ProtectsEachCase,
    ProtectsEachUnit,
    UnitsAtMost,
    WellFormed,
    WithinLimits,
)
from cloakwork.guarantees.flow import Flow
from cloakwork.log.limits import Limits
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Step


@dataclass(frozen=True, slots=True)
class DerivationContext:
    """What rules of derivation read.

    ``flow``: of the columns through ``steps``. ``released``: the columns that are released.
    ``profile``: what some facts were measured by, with noise that is part of the cost.
    """

    steps: tuple[Step, ...]
    flow: Flow
    released: frozenset[str]
    facts: Facts
    profile: Profile | None = None

    def events(self, currency: Currency) -> PrivacyEvent:
        """All that is charged to ``currency``, as one event."""
        events = [step.event for step in self.steps if step.currency == currency]
        if self.profile is not None and currency == "unit":
            events = [self.profile.params.event(), *events]
        return Composed(events=tuple(events))

    @property
    def inserts(self) -> bool:
        """Whether a step inserts events."""
        return any(step.lineage.inserts for step in self.steps)

    def writer_of(self, column: str) -> int:
        """The index of the step that wrote ``column`` last; asked only of columns that a step
        wrote.
        """
        writer = self.flow.columns[column].writer
        assert writer is not None  # noqa: S101 - see above
        return writer

    def mechanism_writing(self, column: str) -> str:
        """The mechanism of the step that wrote ``column`` last; as ``writer_of``."""
        return self.steps[self.writer_of(column)].mechanism

    def names_of(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """The mechanisms of the steps ``indexes``, in alphabetical order."""
        return tuple(sorted({self.steps[index].mechanism for index in indexes}))


def unit_assumptions(facts: Facts, *, counted: bool = False) -> tuple[Assumption, ...]:
    """Who is protected, and the declared bounds on what one unit contributes.

    ``counted``: the claim says how many units there are, and a case without one adds none.
    """
    return (
        _unit_assumption(facts.unit, counted=counted),
        *_count_assumption(facts),
        *form_assumptions(facts),
    )


def _unit_assumption(unit: Unit, *, counted: bool) -> Assumption:
    if unit.attribute is None:
        return ProtectsEachCase()
    return ProtectsEachUnit(
        attribute=unit.attribute,
        max_cases=unit.max_cases,
        cases_without="no-unit" if counted else "own-unit",
    )


def _count_assumption(facts: Facts) -> Iterator[Assumption]:
    if facts.units_at_most is not None:
        source: Source = "profile" if "units_at_most" in facts.measured else "declared"
        yield UnitsAtMost(units=facts.units_at_most, source=source)


def form_assumptions(facts: Facts) -> Iterator[Assumption]:
    """What is taken as known of the log's form."""
    yield WellFormed()
    yield _file_limits()
    if facts.alphabet is not None:
        source: Source = "profile" if "alphabet" in facts.measured else "declared"
        yield KnownActivities(count=len(facts.alphabet), source=source)
    if facts.release_window is not None:
        recorded = unit_name(facts.unit) == CASE
        yield CasesOfWindow(window=facts.release_window, recorded=recorded)
    if facts.longest_case is not None:
        yield CasesTruncated(events=facts.longest_case)


def _file_limits() -> WithinLimits:
    """The reader's limits on whole files, unless somebody raises them."""
    limits = Limits()
    return WithinLimits(
        unpacked_size=limits.unpacked_size,
        unpack_ratio=limits.unpack_ratio,
        attributes=limits.attributes,
    )
