"""What every rule of derivation reads: the steps, the flow of columns, the declared facts, and how to cite them."""

from collections.abc import Iterable
from dataclasses import dataclass

from cloakwork.budget import Currency
from cloakwork.facts import Facts
from cloakwork.log.limits import Limits, size_text
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.flow import Flow
from cloakwork.plan.model import Step
from cloakwork.privacy_event import Composed, PrivacyEvent


@dataclass(frozen=True, slots=True)
class Premises:
    """``flow``: of the columns through ``steps``. ``released``: the columns that leave the house. ``profile``: what some facts
    were measured by, with noise that is part of the cost."""

    steps: tuple[Step, ...]
    flow: Flow
    released: frozenset[str]
    facts: Facts
    profile: Profile | None = None

    def events(self, currency: Currency) -> PrivacyEvent:
        """All that is charged to ``currency``, as one event."""
        before = [self.profile.params.event()] if self.profile is not None and currency == "unit" else []
        return Composed(events=(*before, *(step.event for step in self.steps if step.currency == currency)))

    def writer_of(self, column: str) -> int:
        """The index of the step that wrote ``column`` last; asked only of columns that a step wrote."""
        writer = self.flow.columns[column].writer
        assert writer is not None  # noqa: S101 - see above
        return writer

    def names_of(self, indexes: Iterable[int]) -> str:
        """The mechanisms of the steps ``indexes``, as people list them."""
        return joined(self.steps[index].mechanism for index in sorted(indexes))


def unit_assumptions(facts: Facts) -> tuple[str, ...]:
    """Who is protected, and the declared bounds on what one unit contributes."""
    unit = facts.unit
    if unit.attribute is None:
        stated = ["the protected unit is one case; a person with several cases is protected case by case"]
    else:
        stated = [f"the protected unit is {unit}; a case without '{unit.attribute}' is a unit of its own"]
        stated.append(f"that the log's cases have '{unit.attribute}' at all is taken as known")
    if facts.units_at_most is not None:
        source = "by the DP profile, with a margin" if "units_at_most" in facts.measured else "declared"
        stated.append(f"the log holds at most {facts.units_at_most:,} units ({source})")
    return (*stated, *bounds(facts))


def bounds(facts: Facts) -> tuple[str, ...]:
    """What is taken as known of the log's form."""
    stated = [
        "the file is a well-formed log, every value of its declared type; one that is not is refused, whoever is in it",
        file_limits(),
    ]
    if facts.alphabet is not None:
        known = "were selected by the DP profile" if "alphabet" in facts.measured else "are public"
        stated.append(f"{len(facts.alphabet)} activities {known}; events of any other are dropped")
    if facts.longest_case is not None:
        stated.append(f"cases are cut after {facts.longest_case} events")
    return tuple(stated)


def file_limits() -> str:
    """What the reader's limits on whole files make of a claim's domain."""
    limits = Limits()
    return (
        f"the file is within its reader's limits (at most {size_text(limits.unpacked_size)} unpacked, "
        f"{limits.unpack_ratio} times its packed size and {limits.attributes:,} attributes, unless raised by whoever "
        "ran the release); one that is not is refused, whoever is in it"
    )


def joined(names: Iterable[str]) -> str:
    """Names in alphabetical order, as people list them.

    >>> joined(["timestamps", "control-flow"])
    'control-flow and timestamps'
    """
    return " and ".join(sorted(names))
