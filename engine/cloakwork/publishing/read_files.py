"""The log of a release, read for checking: whole where it is one file, else one part at a time."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.log.io import read_log
from cloakwork.log.io.file_parts import ColumnKinds, FileParts, kinds_of, kinds_together
from cloakwork.publishing.folder import Check
from cloakwork.publishing.log_files import LogFiles
from cloakwork.publishing.released import HeldAttributes, attributes_of, merged_attributes

Hashes = NDArray[np.uint64]


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
    bits: uint64, shape (cases,), ascending.
    """

    held: HeldAttributes
    kinds: ColumnKinds
    ids: Hashes


def _survey(log: LogFiles, reader: FileParts) -> _Survey:
    key = secrets.randbits(64)
    glances = reader.each_batch(lambda _, batch: _glance(batch, key))
    return _Survey(
        held=merged_attributes(glance.held for glance in glances),
        kinds=kinds_together(log.files, [glance.kinds for glance in glances]),
        cases_in_one_part=_check_cases(log, reader, [glance.ids for glance in glances], key),
    )


def _glance(batch: EventLog, key: int) -> _Glance:
    return _Glance(attributes_of(batch), kinds_of(batch), np.sort(_hashed_ids(batch, key)))


def _hashed_ids(batch: EventLog, key: int) -> Hashes:
    return batch.cases[CASE_ID].drop_nulls().hash(key).to_numpy()


def _check_cases(log: LogFiles, reader: FileParts, ids: Sequence[Hashes], key: int) -> Check:
    """Whether no case id stands in two parts.

    Two ids have one hash by chance for n^2 / 2^65 of the logs with n cases, and nobody who wrote a
    log knew the key. So ids of one hash are compared themselves.
    """
    suspects = found_twice(ids)
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


def found_twice(ids: Sequence[Hashes]) -> Hashes:
    """The hashes that stand there more than once; each of ``ids`` is sorted.

    Range after range, so that no second copy of all is made.
    """
    ends = [np.uint64((number << 60) - 1) for number in range(1, 17)]
    bounds = [np.concatenate([[0], np.searchsorted(part, ends, "right")]) for part in ids]
    found = []
    for number in range(len(ends)):
        spans = [part[b[number] : b[number + 1]] for part, b in zip(ids, bounds, strict=True)]
        hashes = np.sort(np.concatenate(spans))
        found.append(hashes[1:][hashes[1:] == hashes[:-1]])
    return np.concatenate(found)


def _kinds_of_some(kinds: ColumnKinds, names: Collection[str]) -> ColumnKinds:
    return {column: kind for column, kind in kinds.items() if column[1] in names}


def _as_texts(kinds: ColumnKinds, names: Collection[str]) -> ColumnKinds:
    return {column: "text" if column[1] in names else kind for column, kind in kinds.items()}
