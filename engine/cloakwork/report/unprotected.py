"""Who in a log is not protected: what follows from whom the guarantees are about, from what is
released, and from what the plan leaves open.

A guarantee is about one unit. Whoever is in the log and is no unit (staff, persons in values), or
is more than one (all cases of a person, a group), is not hidden by it.
"""

from collections.abc import Iterator
from typing import Final, Literal

from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.quantities import Frozen
from cloakwork.base.text import listed
from cloakwork.guarantees.claims import HoldsWindow
from cloakwork.plan.model import Plan
from cloakwork.policy.attribute_words import NAMED, PERSON, STAFF, WHO, names_one_of, words_of
from cloakwork.publishing.statement import PrivacyStatement

GroupKind = Literal["everybody", "several-cases", "other-persons", "staff", "in-values", "groups"]

_WITHOUT_NAMES: Final = frozenset({"case:concept:name", "concept:name", "time:timestamp"})
_TREATMENTS: Final = {
    "keep": "their names are released as they are",
    "pseudonymise": "pseudonyms stand for them, each for one person throughout the release",
    "generalise": "groups stand for them",
    "protect": "values are changed to protect a unit, and not each of these people",
    "replace": "other values stand for them",
}


class UnprotectedGroup(Frozen):
    """People whom no guarantee of the release protects; ``columns``: where they are seen."""

    kind: GroupKind
    who: str
    says: str
    columns: tuple[str, ...] = ()


def unprotected_groups(plan: Plan, statement: PrivacyStatement) -> tuple[UnprotectedGroup, ...]:
    """Everybody whom the statement's guarantees do not protect, the most concerned first."""
    return tuple(_groups(plan, statement))


def _groups(plan: Plan, statement: PrivacyStatement) -> Iterator[UnprotectedGroup]:
    if not statement.guarantees or statement.mark is not None:
        yield UnprotectedGroup(
            kind="everybody",
            who="Everybody in the log",
            says="the release guarantees nothing",
        )
        return
    yield from _of_unit(statement.unit, plan)
    unit = statement.unit.attribute
    whom = "one case" if unit is None else f"one '{unit}'"
    for name, treatment in _columns_of_staff(statement):
        yield UnprotectedGroup(
            kind="staff",
            who=f"Whoever is named in {name}",
            says=(
                f"{_TREATMENTS[treatment]}; each guarantee protects {whom}, so how often one of "
                "these people occurs, where, and with whom is not hidden"
            ),
            columns=(name,),
        )
    roles = {CONTROL_FLOW, METADATA, TIMESTAMPS} | _WITHOUT_NAMES
    kept = tuple(
        column.name
        for column in statement.released
        if column.treatment == "keep" and column.name not in roles
    )
    if kept:
        yield UnprotectedGroup(
            kind="in-values",
            who="Persons inside values",
            says=(
                f"values of {listed(kept)} are passed on as the source has them: whoever is named "
                "or described in one is told"
            ),
            columns=kept,
        )
    yield UnprotectedGroup(
        kind="groups",
        who="Groups",
        says=(
            "what is true of many at once (a ward, a firm, a family, a day) is what the release "
            "is made to tell; no guarantee about one unit hides it"
        ),
    )


def _of_unit(unit: Unit, plan: Plan) -> Iterator[UnprotectedGroup]:
    if unit.attribute is None:
        yield UnprotectedGroup(
            kind="several-cases",
            who="Persons with several cases",
            says=(
                "each guarantee protects one case by itself; what all cases of one person tell "
                "together is not hidden"
            ),
        )
        return
    yield UnprotectedGroup(
        kind="other-persons",
        who=f"Everybody whom '{unit.attribute}' does not name",
        says=f"the guarantees protect each '{unit.attribute}', and nobody else in the log",
    )
    if any(isinstance(caveat, HoldsWindow) for caveat in plan.warnings):
        yield UnprotectedGroup(
            kind="several-cases",
            who=f"Each '{unit.attribute}' with cases in several windows",
            says="the guarantees hold for each window; the costs of all of them add up",
        )


def _columns_of_staff(statement: PrivacyStatement) -> Iterator[tuple[str, str]]:
    """Released attributes whose names say that they name people who are not the unit."""
    for column in statement.released:
        words = words_of(column.name)
        # A word for a person counts only beside one that says that a name is meant.
        named = names_one_of(words, STAFF) or (
            names_one_of(words, PERSON) and names_one_of(words, NAMED)
        )
        is_unit = column.name == statement.unit.attribute
        # What tells of somebody, such as a country, names nobody.
        if named and not names_one_of(words, WHO) and not is_unit:
            yield column.name, column.treatment
