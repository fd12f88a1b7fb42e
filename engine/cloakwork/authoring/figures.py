"""What a log shows of each of its attributes: figures that decide what a policy should do with it.

All of it is internal: it is computed on the raw log, and no value of the log stands in it.
"""

from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from cloakwork.authoring.people import share_like_people
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.times import parse_times
from cloakwork.log.variants import variants_of

ValueType = Literal["text", "whole number", "number", "truth value", "time"]

SAMPLE: Final = 2_000
"""Values of a text column that are tried as times."""

WORDS_OF_A_SENTENCE: Final = 4


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one attribute; shares lie between 0 and 1.

    - ``filled``: share of the events (of the cases, for a case attribute) that have a value.
    - ``distinct``: how many values there are.
    - ``cases``: how many cases have a value.
    - ``alone``: share of these cases that have a value which no other case has.
    - ``least``: the number of cases that have the rarest value.
    - ``constant_in_case``: share of these cases that have one value only.
    - ``in_words``: share of the distinct values of text that are sentences: four words or more.
    - ``like_people``: share of the distinct values of text that look like people's names or logins.
    - ``longest``: characters of the longest text.
    - ``follows_activity``: an event's activity tells the value, and there are several of both.
    - ``follows_variant``: the activity sequence of a case tells the value, and the value it.
    - ``copies``: the standard column whose text each value repeats.
    """

    name: str
    type: ValueType
    filled: float
    distinct: int
    cases: int
    alone: float
    least: int
    constant_in_case: float
    in_words: float
    like_people: float
    longest: int
    follows_activity: bool
    follows_variant: bool
    copies: str | None

    @property
    def of_case(self) -> bool:
        """Whether it is an attribute of cases."""
        return self.name.startswith(CASE_PREFIX)

    @property
    def bare_name(self) -> str:
        """Its name without the prefix of case attributes."""
        return self.name.removeprefix(CASE_PREFIX)


def figures_of(log: EventLog) -> tuple[Figures, ...]:
    """The figures of all attributes of ``log`` but the three standard ones, in the log's order."""
    standard = (CASE_ID, ACTIVITY, TIMESTAMP)
    labelled = log.keep_events(log.events[ACTIVITY].is_not_null().to_numpy())
    variants = pl.Series(variants_of(labelled).of_case)
    return tuple(_figures(log, name, variants) for name in log.columns if name not in standard)


def _figures(log: EventLog, name: str, variants: pl.Series) -> Figures:
    of_case = name.startswith(CASE_PREFIX)
    table = log.cases if of_case else log.events
    values = values_of(table, name)
    text = values.cast(pl.String)
    case = pl.Series(range(log.cases.height), dtype=pl.Int64) if of_case else pl.Series(log.case_of)
    held = pl.DataFrame({"case": case, "value": text}).drop_nulls()
    pairs = held.unique()
    cases_of_value = pairs.group_by("value").len()
    values_of_case = pairs.group_by("case").len()
    alone = pairs.join(cases_of_value.filter(pl.col("len") == 1), on="value", how="semi")
    cases = values_of_case.height
    known = cases_of_value["value"]
    type_ = _type_of(values, known)
    told, keys, told_values = _counts(variants if of_case else log.events[ACTIVITY], text)
    return Figures(
        name=name,
        type=type_,
        filled=held.height / table.height if table.height else 0.0,
        distinct=cases_of_value.height,
        cases=cases,
        alone=alone["case"].n_unique() / cases if cases else 0.0,
        least=int(cases_of_value["len"].min() or 0),  # type: ignore[arg-type]
        constant_in_case=_share(values_of_case["len"] == 1),
        in_words=_share(known.str.split(" ").list.len() >= WORDS_OF_A_SENTENCE),
        like_people=share_like_people(known) if type_ == "text" else 0.0,
        longest=int(known.str.len_chars().max() or 0),  # type: ignore[arg-type]
        # An activity has one value at most.
        follows_activity=not of_case and told_values > 1 and told == keys,
        # Variants and values go together one to one, and some case shares its variant.
        follows_variant=of_case
        and len(text) > told == keys == told_values > 1
        and not text.null_count(),
        copies=_copied(log, text, of_case=of_case),
    )


def _share(holds: pl.Series) -> float:
    return float(holds.mean() or 0.0)  # type: ignore[arg-type]


def _type_of(values: pl.Series, known: pl.Series) -> ValueType:
    """The type of a column; ``known``: its values as text, each once."""
    dtype = values.dtype
    if dtype == pl.Boolean:
        return "truth value"
    if dtype.is_integer():
        return "whole number"
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "time"
    # Many logs hold text that reads as times or numbers throughout.
    sample = known.head(SAMPLE)
    if sample.is_empty():
        return "text"
    if not parse_times(sample).values.is_null().any():
        return "time"
    if not sample.cast(pl.Int64, strict=False).is_null().any():
        return "whole number"
    if not sample.cast(pl.Float64, strict=False).is_null().any():
        return "number"
    return "text"


def _counts(key: pl.Series, text: pl.Series) -> tuple[int, int, int]:
    """How many pairs, keys and values there are where both are known."""
    pairs = pl.DataFrame({"key": key, "value": text}).drop_nulls().unique()
    return pairs.height, pairs["key"].n_unique(), pairs["value"].n_unique()


def _copied(log: EventLog, text: pl.Series, *, of_case: bool) -> str | None:
    """The standard column that is repeated wherever there is a value."""
    if text.null_count() == len(text):
        return None
    ids = log.cases[CASE_ID]
    columns = {CASE_ID: ids if of_case else ids.gather(log.case_of)}
    if not of_case:
        columns[ACTIVITY] = log.events[ACTIVITY]
        if TIMESTAMP in log.events.columns:
            columns[TIMESTAMP] = log.events[TIMESTAMP]
    is_held = text.is_not_null()
    for name, column in columns.items():
        held = text.filter(is_held)
        if column.dtype.is_temporal():
            held = parse_times(held).values
        if (held == column.filter(is_held)).fill_null(False).all():
            return name
    return None
