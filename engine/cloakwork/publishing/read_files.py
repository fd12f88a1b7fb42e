"""The log of a release, read for checking: whole where it is one file, else one part at a time, and
which case ids stand in two parts.
"""

import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Final, Self

import numpy as np
import polars as pl

from cloakwork.base.arrays import Words
from cloakwork.base.errors import OutputError
from cloakwork.engines.batch_files import SortedRuns
from cloakwork.log.eventlog import CASE_ID, EventLog, LogHandle
from cloakwork.log.formats import read_log
from cloakwork.log.formats.round_trip import ColumnKinds, FileParts, kinds_of, kinds_together
from cloakwork.publishing.folder import Check, LogFiles
from cloakwork.publishing.from_plan import HeldAttributes, attributes_of, merged_attributes

_IN_MEMORY: Final = 1 << 23
"""Bytes of hashes; more are kept in a temporary file."""


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
    # What counts in both ways is read by value here, and as text once more.
    both = set(spelled) & set(by_value)
    read = partial(read_log, timeless=timeless, text=set(spelled) - both)
    as_text = partial(read_log, timeless=timeless, text=spelled)
    if not log.in_parts:
        of_file = read(log.path)
        written = as_text(log.path, keep=set(spelled).__contains__) if both else of_file
        return ReadFiles(attributes_of(of_file), of_file, written)
    # A first look at all parts settles what their columns are, and whose hashes stand there twice.
    parts = FileParts(log.files, read)
    # A fresh key: nobody who wrote the log can have aimed at equal hashes.
    key = secrets.randbits(64)
    glances = []
    with IdHashes() as ids:
        for glance in parts.results(lambda _, batch: _Glance.at(batch, key)):
            glances.append(glance)
            ids.add(glance.ids)
        suspects = ids.twice()
    needed = {*spelled, *by_value, *units}
    kinds = {
        column: kind
        for column, kind in kinds_together(log.files, [each.kinds for each in glances]).items()
        if column[1] in needed
    }
    keep = needed.__contains__
    of_parts = FileParts(log.files, partial(read, keep=keep), kinds)
    written_parts = of_parts
    if both:
        texts: ColumnKinds = {column: "text" for column in kinds if column[1] in spelled}
        written_parts = FileParts(log.files, partial(as_text, keep=keep), {**kinds, **texts})
    return ReadFiles(
        held=merged_attributes(each.held for each in glances),
        as_values=of_parts,
        as_written=written_parts,
        cases_in_one_part=_check_cases(log, parts, suspects, key),
    )


@dataclass(frozen=True, slots=True)
class _Glance:
    """What one part shows: its attributes, their kinds, and its case ids as keyed hashes of 64
    bits: uint64, shape (cases,).
    """

    held: HeldAttributes
    kinds: ColumnKinds
    ids: Words

    @classmethod
    def at(cls, batch: EventLog, key: int) -> "_Glance":
        return cls(attributes_of(batch), kinds_of(batch), _hashed_ids(batch, key))


def _hashed_ids(batch: EventLog, key: int) -> Words:
    return batch.cases[CASE_ID].drop_nulls().hash(key).to_numpy()


def _check_cases(log: LogFiles, parts: FileParts, suspects: Words, key: int) -> Check:
    """Whether no case id stands in two parts; ``suspects``: the hashes that do.

    Two ids have one hash by chance for n^2 / 2^65 of the logs with n cases, and nobody who wrote a
    log knew the key. So ids of one hash are compared themselves.
    """
    if len(suspects):
        found: dict[str, str] = {}
        for file, batch in zip(log.files, parts.batches(), strict=True):
            chosen = np.isin(_hashed_ids(batch, key), suspects)
            for case_id in batch.cases[CASE_ID].drop_nulls().filter(pl.Series(chosen)):
                if case_id in found:
                    places = f"{found[case_id]} and {file.name}"
                    return Check(False, f"{log.name}: a case id stands in {places}")
                found[case_id] = file.name
    return Check(True, f"{log.name}: each case lies in one of its {len(log.files)} parts")


class IdHashes:
    """Takes the hashes of part after part, in memory that does not grow with the log; to be closed,
    by ``with``.

    A temporary file holds them where they are many: keyed hashes of released ids tell nobody
    anything. Raises OutputError where it cannot be written.
    """

    def __init__(self) -> None:
        self._file: Final = SpooledTemporaryFile[bytes](max_size=_IN_MEMORY)
        self._runs: Final = SortedRuns(self._file, np.uint64)

    def add(self, hashes: Words) -> None:
        """Those of the next part: uint64, shape (cases,), in any order."""
        try:
            self._runs.add(hashes)
            self._file.flush()
        except OSError as error:
            raise OutputError(
                "no temporary file can be written to compare case ids by "
                f"({error.strerror or error}); set TMPDIR to a folder on a larger disk"
            ) from error

    def twice(self) -> Words:
        """The hashes that stand there more than once, ascending."""
        found = [np.zeros(0, np.uint64)]
        for of_parts in self._runs.ranges():
            hashes = np.sort(np.concatenate(of_parts))
            again = hashes[1:][hashes[1:] == hashes[:-1]]
            found.append(np.unique(again))
        return np.concatenate(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing writes what is left, which nobody reads any more.
        with suppress(OSError):
            self._file.close()
