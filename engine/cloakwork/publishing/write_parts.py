"""Writing the log of a release: one file for each of its batches that holds a case."""

import secrets
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from cloakwork.base.errors import OutputError
from cloakwork.engines.base import part_bounds
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import Attribute
from cloakwork.log.handle import LogHandle
from cloakwork.publishing.log_files import MOST_PARTS, part_name
from cloakwork.publishing.stamp import EXTENSIONS
from cloakwork.publishing.statement import FAMILY, file_digest

UNSEEN: Final = "unseen"
"""In place of a digest: a task of another machine does not see the folder of the release."""

_WRITTEN: Final = ".written"


def write_parts(
    log: LogHandle, folder: Path, output: str, annotations: tuple[Attribute, ...]
) -> dict[str, str]:
    """Write ``log`` into ``folder`` in the format ``output``: as one file where one batch holds
    cases, else as a folder of parts. The SHA-256 (hex) of each file, by its path in ``folder``.

    Where a log holds no case, the file says which columns it has. Batches are written where the log
    is: in several processes at a time, and again where one was lost; or by this process, where they
    do not see the folder. A file gets its name when it is complete, and what an attempt left behind
    is removed. Raises OutputError.
    """
    written = folder / _WRITTEN
    written.mkdir()
    write = PartWriter(written, output, annotations)
    if isinstance(log, EventLog):
        # Files tell nothing of the engine, and so nothing of how large the raw log is.
        bounds = pairwise(part_bounds(log.case_count, log.event_count))
        digests = [write(place, log.slice_cases(*span)) for place, span in enumerate(bounds)]
    else:
        digests = log.each_batch(write)
    if UNSEEN in digests:
        for number, batch in enumerate(log.batches()):
            if digests[number] == UNSEEN:
                digests[number] = write(number, batch)
    kept = [(number, digest) for number, digest in enumerate(digests) if digest is not None]
    if not kept:
        kept = [(0, write.write(0, next(iter(log.batches()))))]
    if len(kept) > MOST_PARTS:
        raise OutputError(
            f"log.{output}: {len(kept):,} parts are more than a release may have ({MOST_PARTS:,}); "
            "make the release with fewer, larger batches"
        )
    names = [f"log.{output}"]
    if len(kept) > 1:
        (folder / names[0]).mkdir()
        names = [part_name(output, number) for number in range(1, len(kept) + 1)]
    for (number, _), name in zip(kept, names, strict=True):
        write.place_of(number).rename(folder / name)
    shutil.rmtree(written)
    return {name: digest for name, (_, digest) in zip(names, kept, strict=True)}


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes a batch as a file of its own into ``folder``: a task that may run in other processes,
    more than once. The last attempt that ends counts; all of them write the same bytes.
    """

    folder: Path
    output: str
    annotations: tuple[Attribute, ...]

    def __call__(self, number: int, batch: EventLog) -> str | None:
        """The SHA-256 (hex) of what was written; None for a batch without cases, ``UNSEEN`` where
        the folder is not on this machine: then the process that asks writes the batch.
        """
        if not batch.case_count:
            return None
        return self.write(number, batch) if self.folder.is_dir() else UNSEEN

    def write(self, number: int, batch: EventLog) -> str:
        """Write the batch, whatever it holds; the SHA-256 (hex) of its file."""
        from cloakwork.log.formats import write_log

        attempt = self.folder / f"attempt-{secrets.token_hex(8)}.{self.output}"
        family = FAMILY[self.output]
        write_log(batch, attempt, family, annotations=self.annotations, extensions=EXTENSIONS)
        digest = file_digest(attempt)
        attempt.replace(self.place_of(number))
        return digest

    def place_of(self, number: int) -> Path:
        """Where the file of a batch lies."""
        return self.folder / f"batch-{number}.{self.output}"
