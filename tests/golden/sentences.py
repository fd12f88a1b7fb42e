"""Every sentence that a plan, a statement or a report can print about what is claimed, made from
the records themselves.

A new kind of record is found by itself: the members of the unions are listed here by their fields.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from cloakwork.base.costs import Cost
from cloakwork.base.facts import ProcessRules, Unit, Window
from cloakwork.guarantees import Guarantee, short_description
from cloakwork.guarantees.claims import (
    Assumption,
    Caveat,
    ConditionedOn,
    ExposureReason,
    Reason,
    TreatmentReason,
)
from cloakwork.plan.model import UnprovenClaim
from cloakwork.plan.sentences import (
    assumption_in_words,
    caveat_in_words,
    claim_sentence,
    column_in_words,
    exposure_in_words,
    reason_in_words,
    treatment_in_words,
    unproven_cost,
    unproven_sentence,
)

DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
WINDOW: Final = Window(start=DAY, end=datetime(2025, 1, 1, tzinfo=UTC))

SAMPLES: Final[dict[str, tuple[Any, ...]]] = {
    "attribute": ("case:age",),
    "attributes": (("case:age",), ("Age", "case:age")),
    "background": ("set", "multiset", "sequence", "relative"),
    "changed_by": ((), ("kanon/pretsa",), ("kanon/pretsa", "kanon/closeness")),
    "column": ("case:age",),
    "columns": (("case:age",), ("Age", "case:age")),
    "cost": (Cost(epsilon=1.0, delta=1e-6),),
    "count": (12, "cases", "units"),
    "delta": (0.0, 1e-6),
    "epoch": (DAY,),
    "epsilon": (1.0,),
    "events": (1, 3),
    "grid": (timedelta(seconds=1),),
    "longest": (timedelta(days=30),),
    "max_cases": (1, 5),
    "mechanism": ("kanon/pretsa",),
    "mechanisms": (("variants/threshold",), ("timestamps/laplace", "variants/markov")),
    "kept_apart": (("case", "case:patient"),),
    "object_type": ("order",),
    "over": (("control-flow",),),
    "precision": (None, timedelta(hours=1)),
    "reason": ("the partner needs it",),
    "shift": (timedelta(hours=1),),
    "t": (0.2, 2.0),
    "units": (10_000,),
    "window": (WINDOW,),
    "zone": ("Europe/Amsterdam",),
    "C": (0.5,),
    "K": (10,),
    "L": (1, 2),
    "k": (10,),
    "l": (3.0,),
}
"""Values to fill a field with, by its name; a field that chooses among words takes all of them."""

OWN: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("KnownRules", "rules"): (
        ProcessRules(starts_with=("Register",)),
        ProcessRules(
            starts_with=("Register", "Call"),
            at_most_once=("Bill", "Pay"),
            before=(("Bill", "Pay"),),
            never_together=(("Reject", "Pay"),),
        ),
    ),
    ("TCloseness", "attribute"): ("case:age", "Age", "timestamps"),
    ("LDiversity", "attribute"): ("case:age", "Age", "timestamps"),
    ("ConfidenceBound", "attribute"): (None, "case:age"),
    ("KAnonymity", "over"): (("control-flow",), ("control-flow", "case:age")),
    ("DifferentialPrivacy", "over"): (("control-flow",), ("timestamps",)),
    ("MetricPrivacy", "over"): (("timestamps",),),
    ("LocalDP", "over"): (("case:age",),),
    ("KAnonymity", "unit"): (None, Unit(attribute="org:resource", level="event")),
    ("ProtectsEachEmployee", "attribute"): ("org:resource",),
    ("ProtectsEachEmployee", "cases"): (None, 20),
    ("GroupOfCases", "attribute"): ("org:resource",),
    ("GroupOfCases", "cases"): (40,),
    ("NoiseForEmployees", "attribute"): ("org:resource",),
    ("NoiseForEmployees", "cases"): (40,),
    ("InsertedEventsCopy", "columns"): (
        ("Age",),
        ("Age", "case:age"),
        ("timestamps",),
        ("Age", "timestamps"),
    ),
    ("LeavesOutEvents", "columns"): (("control-flow",), ("control-flow", "timestamps")),
    ("NobodyKnows", "columns"): (("case:age",), ("Age", "timestamps")),
    ("WritesValuesLast", "column"): ("case:age", "timestamps"),
    ("CasesOfWindow", "window"): ("2026-10",),
    ("CasesOfWindow", "recorded"): (True, False),
    ("HoldsWindow", "window"): ("2026-10",),
    ("HoldsWindow", "tells_starts"): (True, False),
    ("HoldsWindow", "unit_attribute"): (None, "case:patient"),
    ("WithinLimits", "unpacked_size"): (8 << 30,),
    ("WithinLimits", "unpack_ratio"): (100,),
    ("WithinLimits", "attributes"): (10_000,),
    ("ReadOffLog", "what"): (("the roles and types of attributes",),),
    ("ReadOffLog", "by"): (None, "A. Officer"),
    ("ReadOffLog", "on"): (None, date(2026, 11, 26)),
    ("ChosenByFigures", "chosen"): ("whole-log-dp",),
    ("ChosenByFigures", "instead_of"): ("k-anonymity",),
}
"""The same for single fields of single models."""


def is_possible(record: Any) -> bool:
    """Whether a policy or a plan could hold the record, beyond what its model checks."""
    if record.kind == "read-off-log":
        return bool((record.by is None) == (record.on is None))
    if record.kind == "t-closeness":
        return bool((record.t > 1) == (record.distance == "stochastic"))
    if (
        record.kind == "confidence-bound"
        and record.missing == "sensitive"
        and record.attribute is None
    ):
        return False
    if record.kind == "k-anonymity" and record.employees is not None:
        return bool(record.over == ("control-flow",) and record.count == "units")
    if record.kind in ("confidence-bound", "knows-at-most"):
        return bool((record.background == "relative") == (record.precision is not None))
    return True


def members(union: Any) -> Iterator[type[BaseModel]]:
    """The models of a union, through any annotation."""
    if isinstance(union, type) and issubclass(union, BaseModel):
        yield union
    elif get_origin(union) in (Annotated, Union, UnionType):
        for part in get_args(union):
            yield from members(part)


def filled(model: type[BaseModel]) -> Iterator[Any]:
    """The model with every combination of values for its fields that it accepts."""
    fields = [name for name in model.model_fields if name != "kind"]
    kind = (
        {"kind": get_args(model.model_fields["kind"].annotation)[0]}
        if "kind" in model.model_fields
        else {}
    )
    seen = set()
    for values in product(*(_values(model, name) for name in fields)):
        try:
            made = model.model_validate(kind | dict(zip(fields, values, strict=True)))
        except ValidationError:
            continue  # a combination that no policy and no plan can hold
        if is_possible(made) and made not in seen:
            seen.add(made)
            yield made


def _values(model: type[BaseModel], name: str) -> tuple[Any, ...]:
    annotation = model.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return OWN.get((model.__name__, name), SAMPLES.get(name, ()))


def guarantees() -> Iterator[Any]:
    """Each kind of guarantee with each combination of options."""
    for model in members(Guarantee):
        yield from filled(model)


def sections() -> Iterator[tuple[str, Iterator[str]]]:
    """Titles, each with its lines."""
    yield (
        "Guarantees",
        (f"{short_description(each)}\n    {each.sentence()}" for each in guarantees()),
    )
    yield "Claims that take other columns as known", _conditional()
    yield (
        "Neighbours",
        iter(sorted({said for each in guarantees() if (said := each.compared_logs())})),
    )
    yield "Unproven", _unproven()
    for title, union, words in (
        ("Why a claim holds", Reason, reason_in_words),
        ("What a claim rests on", Assumption, assumption_in_words),
        ("Why a column is released without protection", ExposureReason, exposure_in_words),
        ("What the guarantees leave open", Caveat, caveat_in_words),
    ):
        yield (
            title,
            (
                f"{each.kind}\n    {words(each)}"
                for model in members(union)
                for each in filled(model)
            ),
        )
    yield "What a released column tells", _columns()
    yield (
        "Why an attribute is treated so",
        (treatment_in_words(why, "variants/libra-published") for why in get_args(TreatmentReason)),
    )


def _conditional() -> Iterator[str]:
    goal = next(each for each in guarantees() if each.kind == "metric-privacy")
    form = ("control-flow", "metadata")
    for columns, window in product(
        (form, ("case:day", *form), ("*", "case:day", *form)), (None, WINDOW)
    ):
        yield claim_sentence(goal, ConditionedOn(columns=columns, window=window))


def _unproven() -> Iterator[str]:
    goal = next(each for each in guarantees() if each.kind == "differential-privacy")
    for cost in (None, Cost(epsilon=2.5, delta=1e-6)):
        item = UnprovenClaim(
            guarantee=goal,
            mechanism="variants/libra-published",
            published="its own words",
            currency="unit",
            cost=cost,
            why=("its own words",),
        )
        yield f"{unproven_sentence(item)}\n    {unproven_cost(item)}"


def _columns() -> Iterator[str]:
    for column in ("control-flow", "timestamps", "metadata"):
        yield f"{column}: {column_in_words(column)}"
    for treatment, names in product(("keep", "generalise", "pseudonymise"), ((), ("Age", "Ward"))):
        yield column_in_words("case:age", treatment, names)


def text() -> str:
    """The whole file."""
    return "\n".join(f"# {title}\n\n" + "\n".join(lines) + "\n" for title, lines in sections())
