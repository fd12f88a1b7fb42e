"""Noise on the values of attributes, batch by batch: what a kernel needs of rows, and what becomes
of them. Of a raw value nothing beyond itself is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.arrays import Ints
from cloakwork.engines.enriched import enriched
from cloakwork.kernel.local import BoundedNoise, Randomising
from cloakwork.log.eventlog import EventLog
from cloakwork.log.naming import CASE_PREFIX, values_of
from cloakwork.mechanisms.addresses import case_addresses, event_addresses
from cloakwork.mechanisms.base import Enrichment, Listed, MapCases, Numbers
from cloakwork.mechanisms.local_values import PublicValues


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
        numbers = low + noisy * ((high - low) / noise.steps)
        return Numbers(np.where(noisy < 0, np.nan, np.clip(numbers, low, high)))


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
    places: dict[JsonValue, int] = {}
    for place, value in enumerate(public.domain or ()):
        places.setdefault(_key(value), place)
    distinct = texts.unique().drop_nulls()
    by_text = {text: _place_of(text, places) for text in distinct.to_list()}
    if not by_text:
        return np.full(len(values), -1, np.int64)
    found = texts.replace_strict(by_text, default=-1, return_dtype=pl.Int64)
    return found.fill_null(-1).to_numpy().astype(np.int64)


def _key(value: JsonValue) -> JsonValue:
    """What a value of a domain is found by: numbers as floats, truth values as their texts."""
    if isinstance(value, bool):
        return str(value).lower()
    return float(value) if isinstance(value, int | float) else value


def _place_of(text: str, places: Mapping[JsonValue, int]) -> int:
    if text in places:
        return places[text]
    try:
        return places.get(float(text), -1)
    except ValueError:
        return places.get(text.lower(), -1) if text.lower() in ("true", "false") else -1
