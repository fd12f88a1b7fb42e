"""k-anonymity: whatever is released of the covered columns is shared by at least k cases.

It is measured by refining classes of cases event by event: two cases are in one class as long as
everything seen of them so far is equal. The sizes of the classes that cases pass through are the
prefix counts, the sizes of those in which they end the variant counts. Over several batches a class
is known by its keyed hash (``hashing`` gives the probability of a collision, by which two classes
would count as one), and sizes add up; memory goes with the classes, and with the pairs of a class
and a unit where units are counted.

What this cannot see: whether the cases of the log are distinct real ones, which the release's
lineage has to say; and events of equal time have the order of the file (a reader who sorts them
otherwise sees other variants).

Where employees are protected, who performed which event counts besides (``employees``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field, model_validator

from cloakwork.base.arrays import Ints, Words, offsets_of
from cloakwork.base.facts import Unit, unit_as_written
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import IF_SAID, MOST_ROWS
from cloakwork.base.text import listed
from cloakwork.guarantees.base import (
    Columns,
    CountedGuarantee,
    Direction,
    EvidenceOfView,
    GuaranteeCheck,
    LeastGroup,
    Observation,
    ReleaseOutline,
    require_column,
)
from cloakwork.guarantees.claims import (
    CountsCases,
    GivesGroupOneValue,
    GuaranteeCaveat,
    Homogeneity,
    Intersection,
    MeasuredOnRelease,
    MeasuredWithoutInserted,
    MovesWholeCases,
    ProtectsEachEmployee,
    Reason,
)
from cloakwork.guarantees.classes import CLASS, HashKey, class_in_short, numbered_rows, prefixes_of
from cloakwork.guarantees.employees import check_of_employees
from cloakwork.guarantees.flow import (
    Derived,
    Flow,
    Underived,
    form_assumptions,
    unit_assumptions,
)
from cloakwork.guarantees.inserted import KeptEvents, WithoutVisibleInsertions
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog, as_lists


class KAnonymity(CountedGuarantee):
    """Every released combination of ``over`` is shared by at least k cases made from distinct
    source cases (or units).
    """

    bounds_values: ClassVar[bool] = False
    stricter_if: ClassVar[Mapping[str, Direction]] = {"k": "more"}
    # Whoever shares a complete sequence shares each of its beginnings; not the other way round:
    # a complete sequence may be the beginning of many longer ones and be followed by one case.
    strictest_word: ClassVar[Mapping[str, str]] = {"scope": "variants", "count": "units"}

    kind: Literal["k-anonymity"]
    k: Annotated[int, Field(ge=2, le=MOST_ROWS, strict=True)]
    """How many cases or units share what is released"""

    over: Columns = (CONTROL_FLOW,)
    scope: Literal["variants", "prefixes"] = "variants"
    """What is shared: complete activity sequences, or, which is weaker, beginnings of them"""

    count: Literal["cases", "units"] = "cases"
    """What k counts: cases, or units of privacy"""

    unit: Annotated[
        Unit | None,
        BeforeValidator(unit_as_written, json_schema_input_type=Literal["case"] | Unit),
        IF_SAID,
    ] = None
    """Whom it protects, if not the policy's unit: case, or {attribute, level: event} for employees
    """

    @model_validator(mode="after")
    def _own_unit(self) -> "KAnonymity":
        if self.unit is not None and self.unit.level == "case" and self.unit != Unit():
            raise ValueError(
                "unit must be case or {attribute, level: event}: persons with several cases are "
                "the unit of the whole policy, spec.unit"
            )
        return self

    @property
    def employees(self) -> str | None:
        """The attribute of events that names whom it protects; None where that is cases or persons.

        Then all that k counts is events at one place of one class: k cases at least are in it, and
        nobody performed more than 1/k of the events there that somebody performed.
        """
        return self.unit.attribute if self.unit is not None else None

    def sentence(self) -> str:
        """Say it to a person."""
        what = "complete activity sequence"
        if self.scope == "prefixes":
            what = "beginning of an activity sequence"
        if self.employees is not None:
            return (
                f"Every released {what} is shared by at least {self.k} released cases, each made "
                f"from a different case of the source log, and no '{self.employees}' performed "
                f"more than 1/{self.k} of the events at one place of it; cases that did not fit "
                f"were changed or left out. By the sequences alone, whoever guesses who performed "
                f"such an event is right with probability at most 1/{self.k} "
                f"({self.k}-anonymity of each '{self.employees}' over {listed(self.over)}, "
                f"counted over {self.scope})."
            )
        others = tuple(column for column in self.over if column != CONTROL_FLOW)
        if others:
            article = "an" if what[0] in "aeiou" else "a"
            what = f"combination of {article} {what} with {listed(others)}"
        different = "case" if self.count == "cases" else "unit"
        return (
            f"Every released {what} is shared by at least {self.k} released cases, "
            f"each made from a different {different} of the source log; "
            f"some may have been changed to fit ({self.k}-anonymity over "
            f"{listed(self.over)}, counted over {self.scope})."
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        others = tuple(column for column in self.over if column != CONTROL_FLOW)
        what = class_in_short(self.scope)
        beside = f", with {listed(others)}" if others else ""
        if self.employees is not None:
            return (
                f"no '{self.employees}' performed more than 1/{self.k} of the events at one place "
                f"of each {what}, which at least {self.k} cases share"
            )
        whom = f"at least {self.k} cases"
        if self.count == "units":
            whom = f"cases of at least {self.k} different units"
        # The number stands first: the end of a line may be cut.
        return f"{whom} share each {what}{beside}"

    def derive(self, flow: Flow) -> Derived | Underived:
        """The last step to write each covered column was chosen for it, on real cases."""
        causes = tuple(self.why_not_served(flow, self.over))
        if self.employees in flow.released:
            causes += (f"'{self.employees}' is released, which names whom it protects: drop it",)
        if causes:
            return Underived(causes)
        derivation: list[Reason] = [
            MovesWholeCases(mechanism=flow.mechanism_writing(CONTROL_FLOW)),
            *(
                GivesGroupOneValue(mechanism=flow.mechanism_writing(column), column=column)
                for column in self.over
                if column != CONTROL_FLOW
            ),
            MeasuredOnRelease(what="groups"),
        ]
        # Inserted events may show by what they lack, and the group is smaller without them.
        if flow.inserts:
            derivation.append(MeasuredWithoutInserted(what="groups"))
        if self.employees is not None:
            derivation.append(MeasuredOnRelease(what="employees"))
            of_employees = ProtectsEachEmployee(attribute=self.employees)
            return Derived(
                derivation=tuple(derivation),
                assumptions=(of_employees, *form_assumptions(flow.facts)),
                basis="derived and measured",
            )
        in_units = self.count == "units"
        return Derived(
            derivation=tuple(derivation),
            assumptions=tuple(unit_assumptions(flow.facts, counted=True)) if in_units else (),
            basis="derived and measured",
        )

    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck:
        """The size of the smallest class. Whoever recognises inserted events takes away those that
        show.
        """
        if self.employees is not None:
            return check_of_employees(self.k, self.scope, self.employees, raw_times=raw_times)
        sizes = ClassSizes(self, unit)
        counted = "units" if sizes.counts_units else "released cases"

        def judge(merged: pl.DataFrame) -> Observation:
            smallest = sizes.smallest(merged)
            if smallest is None:
                return Observation(True, "the log holds no case")
            seen = f"the smallest group holds {smallest} {counted}"
            return Observation(smallest >= self.k, seen)

        return GuaranteeCheck(
            sizes,
            judge,
            marks=KeptEvents(raw_times),
            for_recogniser=lambda kept: EvidenceOfView(
                sizes, WithoutVisibleInsertions(kept, raw_times)
            ),
        )

    def cited(self) -> str:
        """As every guarantee is, with the employees that it protects."""
        whose = "" if self.employees is None else f" of each '{self.employees}'"
        return f"{self.kind}{whose} over {', '.join(self.over)}"

    def least_group(self) -> LeastGroup:
        """k cases or units; of events that employees performed, cases: there is one in each."""
        return LeastGroup("k", self.k, "cases" if self.employees else self.count)

    def quasi_identifiers(self) -> tuple[str, ...]:
        """The attributes among ``over``."""
        columns = (CONTROL_FLOW, TIMESTAMPS, METADATA)
        return tuple(name for name in self.over if name not in columns)

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """It says nothing about values, about other releases, or about units where cases count."""
        if release.sensitive:
            yield Homogeneity(attributes=release.sensitive)
        yield Intersection(of="k-anonymity")
        if self.employees is not None:
            return
        if self.count == "cases" and release.unit_attribute is not None:
            yield CountsCases(attribute=release.unit_attribute)


_HASHES: Final = [(name, pl.UInt64()) for name in CLASS]
_CLASS_SIZES: Final = pl.Schema([*_HASHES, ("size", pl.Int64())])
_CLASS_UNITS: Final = pl.Schema([*_HASHES, ("units", pl.List(pl.UInt64()))])


@frozen
class ClassSizes:
    """How many cases, or which units, the classes of a guarantee hold.

    One row a class: ``class_1``, ``class_2`` (UInt64, its hash) and ``size`` (Int64, cases). Where
    units count, which may have cases in several batches, ``units`` (List[UInt64], hashes) in place
    of the size; cases without one add none, and of two whose hashes collide one is counted.
    """

    guarantee: KAnonymity
    unit: Unit
    key: HashKey = field(default_factory=HashKey.drawn)

    @property
    def counts_units(self) -> bool:
        """Whether rows are of units."""
        return self.guarantee.count == "units" and self.unit.attribute is not None

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The classes of one batch."""
        if batch.cases.height == 0:
            return pl.DataFrame(schema=_CLASS_UNITS if self.counts_units else _CLASS_SIZES)
        # Columns as an event log calls them.
        over = [ACTIVITY if name == CONTROL_FLOW else name for name in self.guarantee.over]
        of_cases = [name for name in over if name.startswith(CASE_PREFIX)]
        of_events = [name for name in over if name not in of_cases]
        # An attribute that a log lacks is missing in all cases; these columns have to be there.
        for name in of_events:
            if name in (ACTIVITY, TIMESTAMPS, METADATA):
                require_column(batch.events, name, self.guarantee.sentence())
        found = prefixes_of(
            batch.offsets,
            numbered_rows(batch.events, of_events, self.key),
            self.key,
            numbered_rows(batch.cases, of_cases, self.key),
        )
        class_ = found.of_case
        case = np.arange(batch.cases.height)
        if self.guarantee.scope == "prefixes":
            # A case is in the class of each of its beginnings, that of no event included.
            class_ = np.concatenate([found.at_start, found.of_event])
            case = np.concatenate([case, batch.case_of])
        if self.counts_units:
            classes, units = self._distinct_units(batch, class_, case)
            columns = [*_hash_columns(found.hashes[:, classes]), units.alias("units")]
            return pl.DataFrame(columns, _CLASS_UNITS)
        sizes = np.bincount(class_, minlength=found.hashes.shape[1])
        # Prefixes are numbered as well, and those in which no case ends are left out.
        classes = np.flatnonzero(sizes)
        counted = pl.Series("size", sizes[classes], pl.Int64)
        return pl.DataFrame([*_hash_columns(found.hashes[:, classes]), counted])

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Sizes of one class are added up; a unit counts once in a class."""
        if self.counts_units:
            units = pl.col("units").explode(empty_as_null=False).unique()
            return summaries.group_by(CLASS).agg(units)
        return summaries.group_by(CLASS).agg(pl.col("size").sum())

    def smallest(self, merged: pl.DataFrame) -> int | None:
        """Size of the smallest class; None where there is none."""
        if merged.height == 0:
            return None
        sizes = merged["units"].list.len() if self.counts_units else merged["size"]
        return int(sizes.to_numpy().min())

    def _distinct_units(self, batch: EventLog, class_: Ints, case: Ints) -> tuple[Ints, pl.Series]:
        """The classes that occur, and the distinct units of each."""
        attribute = self.unit.attribute or ""
        require_column(batch.cases, attribute, self.guarantee.sentence())
        numbered = numbered_rows(batch.cases, [attribute], self.key)
        width = numbered.hashes.shape[1]
        # Sorting is faster than numpy's table of distinct numbers.
        pairs = np.sort(class_ * width + numbered.of_row[case])
        is_first = np.diff(pairs, prepend=-1) > 0
        classes, units = np.divmod(pairs[is_first], width)
        is_missing = values_of(batch.cases, attribute).is_null().to_numpy()
        # Cases without a unit add none, but their class is listed all the same.
        has_unit = ~np.isin(units, numbered.of_row[is_missing][:1])
        occurring = np.flatnonzero(np.bincount(classes))
        lengths = np.bincount(classes[has_unit], minlength=occurring[-1] + 1)[occurring]
        hashes = pl.Series(numbered.hashes[0][units[has_unit]])
        return occurring, as_lists(hashes, offsets_of(lengths))


def _hash_columns(hashes: Words) -> list[pl.Series]:
    return [pl.Series(name, words) for name, words in zip(CLASS, hashes, strict=True)]
