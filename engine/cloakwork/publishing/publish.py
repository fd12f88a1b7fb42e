"""Publishing: a release becomes a folder, whole or not at all; and a folder a file to send."""

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Final

from cloakwork.base.errors import LedgerError, OutputError, VerificationFailed
from cloakwork.base.files import draft_folder, make_file, new_file, output_fault, require_new
from cloakwork.base.frozen import frozen
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.base.progress import Reporter, heard_by, silent, stop_if_interrupted
from cloakwork.engines.base import EVENTS_OF_A_PART, part_bounds
from cloakwork.engines.batched import LocalEngine
from cloakwork.log.eventlog import EventLog, LogHandle, joined_batches
from cloakwork.log.formats import Attribute, write_log
from cloakwork.log.formats.ocel_write import write_ocel
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.reading import open_rows
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.formats.source import format_of
from cloakwork.publishing.examine import verify, verify_written
from cloakwork.publishing.folder import (
    INTERNAL_FOLDER,
    MEASUREMENTS_FILE,
    MOST_PARTS,
    PLAN_FILE,
    SIDECAR_FILE,
    STATEMENT_FILE,
    check_entries,
    holds_internal,
    measurements_table,
    pack_folder,
    part_name,
)
from cloakwork.publishing.from_plan import plan_bytes, released_columns, statement_of
from cloakwork.publishing.keys import SigningKey, canonical, seal
from cloakwork.publishing.keys import signing_key as find_signing_key
from cloakwork.publishing.stamp import EXTENSIONS, sidecar, stamp
from cloakwork.publishing.statement import (
    FAMILY,
    PrivacyStatement,
    file_digest,
    statement_payload,
)
from cloakwork.publishing.verify import Verification
from cloakwork.run.prepare import SourceFigures
from cloakwork.run.run import Release, recording_failure

DRAFT: Final = ".cloakwork-draft"

UNSEEN: Final = "unseen"
"""In place of a digest: a task of another machine does not see the folder of the release."""

InternalFiles = Callable[[Release, PrivacyStatement, float], Mapping[str, bytes]]
"""The internal report of a release, by file name; given the seconds that writing the log took."""


@frozen
class Published:
    """A release that stands in its folder. ``log``: its file, or the folder of its parts.

    ``statement_digest``: SHA-256 (hex) of ``statement.json``, for the ledger. ``keyid``: whose key
    signed it. ``part_count``: files that the log consists of. ``new_public_key``: the public half
    (PEM) of a signing key that was made on this occasion, to be given to whoever verifies; None
    otherwise. ``release``: what was published, in memory.
    """

    release: Release = field(repr=False, compare=False)
    folder: Path
    log: Path
    statement: PrivacyStatement
    statement_digest: str
    keyid: str
    new_public_key: str | None = None
    part_count: int = 1

    # Short: what notebooks show says more.
    __repr__ = object.__repr__

    def _repr_html_(self) -> str:
        says = [(each.guarantee.kind, each.sentence) for each in self.statement.guarantees]
        return shown(
            f"Release {self.statement.release} in {self.folder}",
            paragraph(f"Signed by key {self.keyid}; statement {self.statement_digest}."),
            listing("Unproven", (each.sentence for each in self.statement.unproven)),
            table(("guarantee", "says"), says),
            listing("Not protected", (each.says for each in self.statement.exposed)),
            paragraph("The folder 'internal' holds figures of the raw log: never publish it."),
        )


def check_destination(out: Path) -> None:
    """Refuse a destination that cannot receive a release, before anything is computed.

    A new folder or an empty one will do. Raises OutputError; never overwrites.
    """
    # What is named must be a folder that can be replaced as a whole.
    if out.is_symlink() and not out.exists():
        raise OutputError(f"{out}: is a link that leads nowhere; name a new folder")
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: is a file; name a new folder")
    if out.is_dir():
        with output_fault(f"{out}: cannot be looked into"):
            is_empty = not any(out.iterdir())
        if not is_empty:
            reason = "is not empty, and a release never overwrites; name a new folder"
            raise OutputError(f"{out}: {reason}")
        if out.is_mount() or out.resolve() == Path.cwd():
            raise OutputError(f"{out}: cannot be replaced as a whole; name a new folder inside it")
    # Something can be written where the folder will stand.
    existing = next(folder for folder in out.resolve().parents if folder.exists())
    if not existing.is_dir():
        raise OutputError(f"{out}: cannot be made, {existing} is not a folder")
    nothing = f"{out}: cannot be made, nothing can be written in {existing}"
    with output_fault(nothing), draft_folder(existing, DRAFT):
        pass


def publish(
    release: Release,
    out: Path,
    *,
    signing_key: SigningKey | str | Path | None = None,
    reporter: Reporter = silent,
    internal: InternalFiles | None = None,
) -> Published:
    """Write ``release`` to the folder ``out``: log, plan, signed statement, and the internal
    report.

    Everything is written to a hidden folder beside ``out`` and synced to the disk. Then the ledger
    records what is about to stand where, the folder is renamed, and the entry is committed.
    ``signing_key``: a key, or where ``keys.signing_key`` finds it. ``internal``: what writes the
    internal report; None: there is none. Raises OutputError when ``out`` cannot receive the release
    or the key is none; then nothing is left behind, and the entry says that it failed. Leftovers of
    killed processes on this host are removed.
    """
    with recording_failure(release.reservation):
        check_destination(out)
        key = signing_key if isinstance(signing_key, SigningKey) else find_signing_key(signing_key)
        with _output_errors(out):
            published = _write_folder(release, out, key, reporter, internal)
    _commit_entry(release, published)
    return published


def _write_folder(
    release: Release,
    out: Path,
    key: SigningKey,
    reporter: Reporter,
    internal: InternalFiles | None,
) -> Published:
    """The folder, complete and in its place; the ledger knows the intent."""
    target = out.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Locked while this process lives: it holds figures from the raw log.
    with draft_folder(target.parent, DRAFT) as draft:
        reporter("writing the log")
        statement = statement_of(
            release.plan,
            release.release_id,
            released=released_columns(release.log, release.plan),
            private=release.private,
            ledger_entry=release.ledger_entry,
            recorded=release.recorded,
        )
        begun = perf_counter()
        form = release.plan.output
        said = stamp(release.plan, statement)
        digests = write_parts(release.log, draft, form.format, said, form.options)
        beside = [PLAN_FILE]
        if statement.stamp == "sidecar":
            beside.append(SIDECAR_FILE)
            make_file(draft / SIDECAR_FILE, canonical(sidecar(release.plan, statement)))
        writing = perf_counter() - begun
        make_file(draft / PLAN_FILE, plan_bytes(release.plan))
        if answers := release.measurements:
            beside.append(MEASUREMENTS_FILE)
            measurements_table(answers).write_parquet(draft / MEASUREMENTS_FILE)
        digests |= {name: file_digest(draft / name) for name in beside}
        make_file(draft / STATEMENT_FILE, seal(statement_payload(statement, digests), key))
        reporter("checking what was written")
        verify_written(draft, key)
        reporter("writing the internal report")
        if internal is not None:
            _write_internal(internal(release, statement, writing), draft / INTERNAL_FOLDER)
        for path in (*sorted(draft.rglob("*"), reverse=True), draft):
            _sync_to_disk(path)
        digest = file_digest(draft / STATEMENT_FILE)
        stop_if_interrupted()
        if release.reservation is not None:
            release.reservation.intend(target, digest)
        draft.rename(target)
    # The release stands; a parent that may not be listed cannot be synced.
    with suppress(OSError):
        _sync_to_disk(target.parent)
    return Published(
        release=release,
        folder=out,
        log=out / f"log.{form.format}",
        statement=statement,
        statement_digest=digest,
        keyid=key.keyid,
        new_public_key=key.public_pem if key.new else None,
        part_count=sum(name.startswith("log.") for name in digests),
    )


def _commit_entry(release: Release, published: Published) -> None:
    """Record that the folder stands; it does, whatever becomes of the ledger."""
    if release.reservation is None:
        return
    try:
        release.reservation.commit(published.statement_digest)
    except LedgerError as error:
        raise LedgerError(
            error.url,
            f"{published.folder} stands complete, and could not be recorded as committed "
            f"({error}); run 'cloakwork ledger reconcile {published.folder}'",
        ) from error


@contextmanager
def _output_errors(out: Path) -> Iterator[None]:
    """Say in one line why the release could not be written."""
    from polars.exceptions import PolarsError

    try:
        yield
    except OutputError as error:
        # It names a file of the draft, which is gone.
        reason = re.sub(rf"\S*{re.escape(DRAFT)}[^/]*/", "", str(error))
        raise OutputError(
            f"{out}: the release cannot be written; nothing is left: {reason}"
        ) from error
    except (OSError, PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, PolarsError):  # it wraps a full disk in its own errors
            reason = str(error).partition("\n")[0]
        raise OutputError(
            f"{out}: the release cannot be written ({reason}); nothing is left"
        ) from error


def _write_internal(files: Mapping[str, bytes], folder: Path) -> None:
    """The internal report, readable by its owner only; no folder where there is none."""
    if not files:
        return
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        make_file(folder / name, content, 0o600)


def _sync_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if path.is_dir():
            with suppress(OSError):  # not every file system can sync a folder
                os.fsync(handle)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


# --- the log, one file for each of its batches that holds a case


def write_parts(
    log: LogHandle,
    folder: Path,
    output: str,
    annotations: tuple[Attribute, ...],
    options: InputOptions | None = None,
) -> dict[str, str]:
    """Write ``log`` into ``folder`` in the format ``output``, as ``options`` say: as one file
    where one batch holds cases, else as a folder of parts. The SHA-256 (hex) of each file, by its
    path in ``folder``.

    Where a log holds no case, the file says which columns it has. Batches are written where the log
    is: in several processes at a time, and again where one was lost; or by this process, where they
    do not see the folder. A file gets its name when it is complete, and what an attempt left behind
    is removed. Raises OutputError.
    """
    written = folder / ".written"
    written.mkdir()
    write = PartWriter(written, output, annotations, options)
    if isinstance(log, EventLog):
        # Files tell nothing of the engine, and so nothing of how large the raw log is.
        bounds = pairwise(part_bounds(log.case_count, log.event_count))
        digests = [write(place, log.slice_cases(*span)) for place, span in enumerate(bounds)]
    else:
        digests = list(log.results(write))
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
    # One part is a file, several a folder of that name.
    names = [f"log.{output}"]
    if len(kept) > 1:
        (folder / names[0]).mkdir()
        names = [part_name(output, number) for number in range(1, len(kept) + 1)]
    for (number, _), name in zip(kept, names, strict=True):
        write.place_of(number).rename(folder / name)
    shutil.rmtree(written)
    return {name: digest for name, (_, digest) in zip(names, kept, strict=True)}


@frozen
class PartWriter:
    """Writes a batch as a file of its own into ``folder``: a task that may run in other processes,
    more than once. The last attempt that ends counts; all of them write the same bytes.
    """

    folder: Path
    output: str
    annotations: tuple[Attribute, ...]
    options: InputOptions | None = None

    def __call__(self, number: int, batch: EventLog) -> str | None:
        """The SHA-256 (hex) of what was written; None for a batch without cases, ``UNSEEN`` where
        the folder is not on this machine: then the process that asks writes the batch.
        """
        if not batch.case_count:
            return None
        return self.write(number, batch) if self.folder.is_dir() else UNSEEN

    def write(self, number: int, batch: EventLog) -> str:
        """Write the batch, whatever it holds; the SHA-256 (hex) of its file."""
        attempt = self.folder / f"attempt-{secrets.token_hex(8)}.{self.output}"
        family = FAMILY[self.output]
        write_log(
            batch,
            attempt,
            family,
            annotations=self.annotations,
            extensions=EXTENSIONS,
            options=self.options,
        )
        digest = file_digest(attempt)
        attempt.replace(self.place_of(number))
        return digest

    def place_of(self, number: int) -> Path:
        """Where the file of a batch lies."""
        return self.folder / f"batch-{number}.{self.output}"


# --- one file to send


def pack(
    folder: Path,
    out: Path,
    *,
    public_key: Path | None = None,
) -> Verification:
    """Write the public parts of the release in ``folder`` to ``out``, and return what was verified
    of them.

    What is verified is the packed file itself, before it gets its name. Raises VerificationFailed
    where the release is not what it says or a guarantee of it is void, OutputError where ``out``
    exists or cannot be written.
    """
    require_new(out)
    if folder.resolve() in out.resolve().parents:
        raise OutputError(f"{out}: lies in the release itself; name a file outside it")
    with new_file(out) as draft:
        # What is verified is the file that is sent.
        names = pack_folder(folder, draft)
        checks = check_entries(folder, names)
        wrong = [check.says for check in checks if not check.holds]
        if wrong:
            raise VerificationFailed(wrong)
        found = verify(draft, public_key=public_key)
    return replace(found, path=out, internal=holds_internal(folder))


# --- a log in another format


@frozen
class Converted:
    """How many ``files`` hold the log, and how many cases and events; what its reader noted."""

    files: int
    cases: int
    events: int
    notes: tuple[str, ...]


def convert(
    path: Path,
    out: Path,
    output: str,
    options: InputOptions | None = None,
    *,
    part_events: int = EVENTS_OF_A_PART,
    reporter: Reporter = silent,
) -> Converted:
    """Write the log at ``path`` as the new ``out``, in the format ``output`` and in bounded memory:
    a file, or a folder of several of about ``part_events`` events each (OCEL is always one file).
    Cases are whole, and their events ordered by time; nothing is protected. ``options``: how it is
    read; ``object_type`` names the objects that are its cases, or that its cases become.

    Raises LogError, and OutputError where ``out`` exists or cannot be written; then there is none.
    """
    if out.exists() or out.is_symlink():
        raise OutputError(f"{out}: exists already, and nothing is overwritten; name a new one")
    reporter(f"reading {path}")
    options = options or InputOptions()
    object_type = options.object_type or "case"
    if not format_of(path).startswith("ocel"):
        options = options.model_copy(update={"object_type": None})
    rows = open_rows(path, request=ReadRequest(options=options))
    try:
        with heard_by(reporter), draft_folder(out.parent, DRAFT) as draft:
            opened = LocalEngine().open(rows, lambda log: log, None, SourceFigures())
            folder = draft / "parts"
            folder.mkdir()
            if output == "ocel-json":
                write_ocel(opened.log, folder / out.name, object_type)
            else:
                for number, part in enumerate(_in_parts(opened.log, part_events), start=1):
                    reporter(f"writing part {number:,}")
                    name = part_name(output, number).rpartition("/")[2]
                    write_log(part, folder / name, FAMILY[output])
            files = list(folder.iterdir())
            if len(files) == 1:
                # A link replaces no file that came up meanwhile; neither does a folder's new name.
                os.link(files[0], out)
            else:
                folder.rename(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from error
    cases, events = (int(opened.seen[name].item()) for name in ("cases", "events"))
    return Converted(len(files), cases, events, opened.log.notes)


def _in_parts(log: LogHandle, events: int) -> Iterator[EventLog]:
    """The batches put together, until they have so many events; one at least: a log without cases
    still says which columns it has.
    """
    held: list[EventLog] = []
    for batch in log.batches():
        if batch.case_count or not held:
            held.append(batch)
        if sum(each.event_count for each in held) >= events:
            yield joined_batches(held)
            held = []
    if held:
        yield joined_batches(held)
