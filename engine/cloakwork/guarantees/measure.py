"""Measure a guarantee on a log alone, by the checker of its kind; shares nothing with the
mechanisms.

Inside a run it is known which events were inserted. A guarantee then has to hold twice: on the log
as everybody will read it, and for somebody who recognises inserted events. A file does not say
which they are, so whoever verifies a release measures the first alone.
"""

from functools import partial
from typing import assert_never

import polars as pl

from cloakwork.base.facts import Unit
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.guarantees import confidence_bound_check as confidence_bound
from cloakwork.guarantees import l_diversity_check as l_diversity
from cloakwork.guarantees import t_closeness_check as t_closeness
from cloakwork.guarantees.checked_values import GroupedValues
from cloakwork.guarantees.evidence import (
    EvidenceOfView,
    GuaranteeCheck,
    Observation,
    as_everybody_sees,
)
from cloakwork.guarantees.inserted import (
    KeptEvents,
    WithoutVisibleInsertions,
    without_their_values,
)
from cloakwork.guarantees.k_anonymity_check import ClassSizes
from cloakwork.guarantees.known_sequences import SequenceEvidence
from cloakwork.log.handle import LogHandle

__all__ = ["Observation", "check_of", "measure"]


def check_of(guarantee: Guarantee, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck | None:
    """The check of a guarantee; None for one that rests on noise, which no single release shows.

    ``raw_times``: times are released as they are, so that inserted events may show by the precision
    of theirs.
    Every kind says here which of the two it is; without that, this does not type-check.
    """
    match guarantee:
        case KAnonymity():
            return _k_anonymity(guarantee, unit, raw_times)
        case ConfidenceBound():
            return _confidence_bound(guarantee, unit)
        case TCloseness():
            return _t_closeness(guarantee)
        case LDiversity():
            return _l_diversity(guarantee)
        case DifferentialPrivacy() | MetricPrivacy() | LocalDP():
            return None
        case _:
            assert_never(guarantee)


def measure(
    log: LogHandle,
    guarantee: Guarantee,
    unit: Unit,
    *,
    raw_times: bool = False,
) -> Observation | None:
    """What an independent check of ``guarantee`` sees on ``log``, of which one batch at a time is
    in memory; None where nothing can be measured.

    ``raw_times``: as for ``check_of``. Raises ``GuaranteeBroken`` when the
    log lacks a column that is needed.
    """
    check = check_of(guarantee, unit, raw_times=raw_times)
    return None if check is None else check.measured_on(log)


def _k_anonymity(guarantee: KAnonymity, unit: Unit, raw_times: bool) -> GuaranteeCheck:
    """Whoever recognises inserted events takes away those that show."""
    sizes = ClassSizes(guarantee, unit)
    counted = "units" if sizes.counts_units else "released cases"

    def judge(merged: pl.DataFrame) -> Observation:
        smallest = sizes.smallest(merged)
        if smallest is None:
            return Observation(True, "the log holds no case")
        seen = f"the smallest group holds {smallest} {counted}"
        return Observation(smallest >= guarantee.k, seen)

    return GuaranteeCheck(
        sizes,
        judge,
        marks=KeptEvents(raw_times),
        for_recogniser=lambda kept: EvidenceOfView(
            sizes, WithoutVisibleInsertions(kept, raw_times)
        ),
    )


def _confidence_bound(guarantee: ConfidenceBound, unit: Unit) -> GuaranteeCheck:
    """Whoever recognises inserted events leaves out the values that they hold."""
    known = SequenceEvidence(guarantee, unit)
    counted = "released cases" if unit.attribute is None else "units"

    def judge(merged: pl.DataFrame) -> Observation:
        worst = confidence_bound.worst_in(merged, guarantee, unit)
        if worst is None:
            return Observation(True, "the log holds no case")
        holds = worst.smallest >= guarantee.K and (worst.confidence or 0.0) <= guarantee.C
        seen = f"knowledge of up to {guarantee.L} events fits at least {worst.smallest} {counted}"
        if worst.confidence is not None:
            seen += f", and the largest confidence in a value is {worst.confidence:.1%}"
        return Observation(holds, seen)

    without_values = partial(without_their_values, attribute=guarantee.attribute)
    return GuaranteeCheck(
        known, judge, for_recogniser=lambda _: EvidenceOfView(known, without_values)
    )


def _t_closeness(guarantee: TCloseness) -> GuaranteeCheck | None:
    """Whoever recognises inserted events compares the values of the others alone."""
    if guarantee.distance != "emd":
        return None
    values = GroupedValues(guarantee.attribute, guarantee.classes)

    def judge(merged: pl.DataFrame) -> Observation:
        largest = t_closeness.largest_in(merged, guarantee)
        if largest is None:
            return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
        seen = f"the farthest group lies {t_closeness.rounded_up(largest):g} from all values"
        return Observation(largest <= guarantee.t + t_closeness.TOLERANCE, seen)

    public = EvidenceOfView(values, as_everybody_sees)
    return GuaranteeCheck(public, judge, for_recogniser=lambda _: values)


def _l_diversity(guarantee: LDiversity) -> GuaranteeCheck:
    """Whoever recognises inserted events leaves out the values that they hold."""
    values = GroupedValues(guarantee.attribute, guarantee.classes)
    counted = "different values" if guarantee.variety == "distinct" else "values, by their entropy"

    def judge(merged: pl.DataFrame) -> Observation:
        least = l_diversity.least_in(merged, guarantee)
        if least is None:
            return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
        seen = f"the least varied group holds {least:.4g} {counted}"
        return Observation(l_diversity.is_diverse_enough(least, guarantee), seen)

    public = EvidenceOfView(values, as_everybody_sees)
    return GuaranteeCheck(public, judge, for_recogniser=lambda _: values)
