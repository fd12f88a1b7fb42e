"""The log of a release, read for checking: whole where it is one file, else one part at a time."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from cloakwork.base.arrays import Words
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.formats import read_log
from cloakwork.log.formats.file_parts import ColumnKinds, FileParts, kinds_of, kinds_together
from cloakwork.log.handle import LogHandle
from cloakwork.publishing.folder import Check
from cloakwork.publishing.id_hashes import IdHashes
from cloakwork.publishing.log_files import LogFiles
from cloakwork.publishing.released import HeldAttributes, attributes_of, merged_attributes


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """A released log as it is read from its files.

    ``held``: its attributes. ``as_values``: the log with its values. ``as_written``: with the
    attributes of which the spelling counts as texts. ``cases_in_one_part``: whether each case lies
    in one part; None where there is one.
    """

    held: HeldAttributes
    as_values: LogHandle
    as_written: LogHandle
    cases_in_one_part: Check | None = None


def read_files(
    log: LogFiles,
    *,
    timeless: bool,
    spelled: Collection[str],
    by_value: Collection[str],
    units: Collection[str] = (),
) -> ReadFiles:
    """Read ``log``. ``spelled``: the attributes of which the spelling counts, ``by_value``
    those whose values count; one that is both is read twice. ``units``: those that name units.
    Parts have no others. Raises LogError.
    """
    both = set(spelled) & set(by_value)
    spelled_only = set(spelled) - both
    if not log.in_parts:
        of_file = read_log(log.path, timeless=timeless, text=spelled_only)
        written = of_file
        if both:
            keep = set(spelled).__contains__
            written = read_log(log.path, timeless=timeless, text=spelled, keep=keep)
        return ReadFiles(attributes_of(of_file), of_file, written)
    read = partial(read_log, timeless=timeless, text=spelled_only)
    seen = _survey(log, FileParts(log.files, read))
    needed = {*spelled, *by_value, *units}
    kinds = _kinds_of_some(seen.kinds, needed)
    of_parts = FileParts(log.files, partial(read, keep=needed.__contains__), kinds)
    written_parts = of_parts
    if both:
        as_text = partial(read_log, timeless=timeless, text=spelled, keep=needed.__contains__)
        written_parts = FileParts(log.files, as_text, _as_texts(of_parts.kinds, spelled))
    return ReadFiles(seen.held, of_parts, written_parts, seen.cases_in_one_part)


@dataclass(frozen=True, slots=True)
class _Survey:
    """What the first look at all parts found."""

    held: HeldAttributes
    kinds: ColumnKinds
    cases_in_one_part: Check


@dataclass(frozen=True, slots=True)
class _Glance:
    """What one part shows: its attributes, their kinds, and its case ids as keyed hashes of 64
    bits: uint64, shape (cases,).
    """

    held: HeldAttributes
    kinds: ColumnKinds
    ids: Words


def _survey(log: LogFiles, reader: FileParts) -> _Survey:
    key = secrets.randbits(64)
    held: list[HeldAttributes] = []
    kinds: list[ColumnKinds] = []
    with IdHashes() as ids:
        for glance in reader.results(lambda _, batch: _glance(batch, key)):
            held.append(glance.held)
            kinds.append(glance.kinds)
            ids.add(glance.ids)
        suspects = ids.twice()
    return _Survey(
        held=merged_attributes(held),
        kinds=kinds_together(log.files, kinds),
        cases_in_one_part=_check_cases(log, reader, suspects, key),
    )


def _glance(batch: EventLog, key: int) -> _Glance:
    return _Glance(attributes_of(batch), kinds_of(batch), _hashed_ids(batch, key))


def _hashed_ids(batch: EventLog, key: int) -> Words:
    return batch.cases[CASE_ID].drop_nulls().hash(key).to_numpy()


def _check_cases(log: LogFiles, reader: FileParts, suspects: Words, key: int) -> Check:
    """Whether no case id stands in two parts; ``suspects``: the hashes that do.

    Two ids have one hash by chance for n^2 / 2^65 of the logs with n cases, and nobody who wrote a
    log knew the key. So ids of one hash are compared themselves.
    """
    if len(suspects):
        found: dict[str, str] = {}
        for file, batch in zip(log.files, reader.batches(), strict=True):
            chosen = np.isin(_hashed_ids(batch, key), suspects)
            for case_id in batch.cases[CASE_ID].drop_nulls().filter(pl.Series(chosen)):
                if case_id in found:
                    places = f"{found[case_id]} and {file.name}"
                    return Check(False, f"{log.name}: a case id stands in {places}")
                found[case_id] = file.name
    return Check(True, f"{log.name}: each case lies in one of its {len(log.files)} parts")


def _kinds_of_some(kinds: ColumnKinds, names: Collection[str]) -> ColumnKinds:
    return {column: kind for column, kind in kinds.items() if column[1] in names}


def _as_texts(kinds: ColumnKinds, names: Collection[str]) -> ColumnKinds:
    return {column: "text" if column[1] in names else kind for column, kind in kinds.items()}
