"""Noise on the values of attributes, batch by batch: what a kernel needs of rows, and what becomes
of them. Of a raw value nothing beyond itself is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import CASE_PREFIX, values_of
from cloakwork.engines.enriched import enriched
from cloakwork.kernel.local import BoundedNoise, Randomising
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.addresses import case_addresses, event_addresses
from cloakwork.mechanisms.attributes.domains import places_of_numbers
from cloakwork.mechanisms.local_values import PublicValues
from cloakwork.mechanisms.steps import MapCases
from cloakwork.mechanisms.values import Enrichment, Listed, Numbers


def noise_on_values(randomising: Randomising, public: Mapping[str, PublicValues]) -> MapCases:
    """Put a noisy value in the place of each value of the declared attributes; ``public``: what
    their codes stand for. A log that lacks an attribute has it missing everywhere.
    """
    return MapCases(_NoisedValues(randomising, public).apply, together="case")


@dataclass(frozen=True, slots=True)
class _NoisedValues:
    randomising: Randomising
    public: Mapping[str, PublicValues]

    def apply(self, log: EventLog) -> EventLog:
        """One batch."""
        columns = {name: self._released(name, log) for name in self.randomising.declared.noises}
        return enriched(log, Enrichment(columns))

    def _released(self, name: str, log: EventLog) -> Listed | Numbers:
        noise, public = self.randomising.declared.noises[name], self.public[name]
        if name.startswith(CASE_PREFIX):
            table, addresses = log.cases, case_addresses(log)
        else:
            table = log.events
            addresses = event_addresses(log, np.arange(log.events.height))
        codes = np.full(table.height, -1, np.int64)
        if name in table.columns:
            codes = codes_of(values_of(table, name), public)
        noisy = self.randomising.released(name, codes, addresses)
        if not isinstance(noise, BoundedNoise) or public.range is None:
            return Listed(noisy, public.domain or ())
        low, high = public.range
        drawn = np.clip(low + noisy * ((high - low) / noise.steps), low, high)
        if public.integer:
            return Numbers(np.where(noisy < 0, np.nan, np.rint(drawn)), "integer")
        return Numbers(np.where(noisy < 0, np.nan, drawn))


def codes_of(values: pl.Series, public: PublicValues) -> Ints:
    """Each value's code, by the value alone: its place in a domain, or its step in a range; -1
    where it is missing or neither.
    """
    if values.dtype.is_nested() or values.dtype == pl.Null:
        return np.full(len(values), -1, np.int64)
    texts = values.cast(pl.String)
    if public.range is not None:
        low, high = public.range
        numbers = texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        inside = np.clip(np.where(np.isnan(numbers), low, numbers), low, high)
        steps = np.rint((inside - low) / (high - low) * public.steps).astype(np.int64)
        return np.where(np.isnan(numbers), -1, steps)
    # How a float is spelled may follow from the other values: 5 beside a missing one is 5.0.
    places = _Places.of(public.domain or (), with_texts=not values.dtype.is_float())
    distinct = texts.unique().drop_nulls()
    by_text = {text: places.at(text) for text in distinct.to_list()}
    if not by_text:
        return np.full(len(values), -1, np.int64)
    found = texts.replace_strict(by_text, default=-1, return_dtype=pl.Int64)
    return found.fill_null(-1).to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the values of a domain stand: by their texts, and by the numbers that they are."""

    texts: Mapping[str, int]
    numbers: Mapping[float, int]

    @classmethod
    def of(cls, domain: Sequence[JsonValue], *, with_texts: bool) -> "_Places":
        """Of texts as they are, truth values in small letters, and numbers."""
        texts: dict[str, int] = {}
        for place, value in enumerate(domain):
            if with_texts and isinstance(value, str | bool):
                text = value if isinstance(value, str) else str(value).lower()
                texts.setdefault(text, place)
        return cls(texts, places_of_numbers(domain))

    def at(self, text: str) -> int:
        """The place of a value by its text; -1 where there is none."""
        lower = text.lower()
        found = self.texts.get(lower if lower in ("true", "false") else text, -1)
        if found >= 0:
            return found
        try:
            return self.numbers.get(float(text), -1)
        except ValueError:
            return -1
