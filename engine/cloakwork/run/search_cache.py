"""What a long search found, kept for the next run on the same log: ``apply`` after ``plan`` does
not search again (docs/decisions/10).

An entry is a file of the user's data folder. Its name is a keyed digest of all that the search
depends on, so an entry is found for the same search or not at all; its content is authenticated
under the same key. Whatever is damaged, foreign or too old counts as absent, and no fault of the
cache ever stops a run.
"""

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from time import time
from typing import Final

import polars as pl
from pydantic import BaseModel

from cloakwork.base.errors import OutputError
from cloakwork.base.files import data_home, replace_file, secret_made_once
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import say
from cloakwork.base.text import version_of
from cloakwork.mechanisms.steps import Decision, RewriteStep
from cloakwork.noise import Noise

MOST_ENTRIES: Final = 32
MOST_BYTES: Final = 64 * 2**20
"""Of all entries together; a greater entry is not kept."""
LONGEST_KEPT: Final = 7 * 24 * 3600
"""Seconds: figures of a raw log do not lie about for ever."""

REUSED: Final = "found by an earlier run on this log"

_FORMAT: Final = "cloakwork search 1"
_SECRET_LENGTH: Final = 32
_SUFFIX: Final = ".search"
_MAC_LENGTH: Final = 2 * hashlib.sha256().digest_size


@frozen
class SearchCache:
    """The entries in one folder.

    ``secret``: 32 bytes that name and authenticate them: who has no access to it can neither make
    an entry, nor guess a log and see by an entry's name whether it was searched.
    """

    folder: Path
    secret: bytes = field(repr=False)

    @classmethod
    def of_user(cls) -> "SearchCache | None":
        """The cache in the user's data folder.

        None where ``CLOAKWORK_NO_CACHE`` is set to anything, and where the folder cannot be used.
        """
        if os.environ.get("CLOAKWORK_NO_CACHE"):
            return None
        try:
            folder = data_home() / "search-cache"
            make = partial(secrets.token_bytes, _SECRET_LENGTH)
            searches = cls(folder, secret_made_once(folder / "key", make, length=_SECRET_LENGTH))
        except OutputError:
            return None
        with suppress(OSError):
            searches._evict()
        return searches

    def name_of(
        self,
        mechanism: str,
        params: BaseModel,
        summary: pl.DataFrame,
    ) -> str:
        """The name of the entry for one search: the same for the same mechanism, parameters,
        summary and version of the engine only.
        """
        # All that the search depends on, and the code that searches.
        digest = hmac.new(self.secret, digestmod=hashlib.sha256)
        described = (_FORMAT, *_engine(), mechanism, params.model_dump_json())
        # The rows as JSON: whatever lies behind a missing value, and how a column lies in memory,
        # is no part of them.
        rows = summary.write_ndjson()
        for part in (text.encode() for text in (*described, str(summary.schema), rows)):
            # With its length before it, no part can run into the next.
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def read(self, name: str) -> bytes | None:
        """What was kept under ``name``; None where that is nothing, too old or not authentic."""
        content = _content_of(self.folder / f"{name}{_SUFFIX}")
        mac = content[:_MAC_LENGTH]
        payload = content[_MAC_LENGTH:]
        authentic = hmac.compare_digest(mac, self._mac(name, payload))
        return payload if authentic else None

    def write(self, name: str, payload: bytes) -> None:
        """Keep ``payload`` under ``name``, readable by its owner only, whole or not at all; the
        oldest entries make room.
        """
        content = self._mac(name, payload) + payload
        if len(content) > MOST_BYTES:
            return
        # A full or read-only disk costs the next run a search, and this one nothing.
        with suppress(OSError):
            replace_file(self.folder / f"{name}{_SUFFIX}", content)
            self._evict()

    def _mac(self, name: str, payload: bytes) -> bytes:
        # The name is part of what is authenticated: entries cannot be exchanged.
        message = f"{_FORMAT} entry {name} ".encode() + payload
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest().encode()

    def _evict(self) -> None:
        """Take away what is too old, and the oldest of what is too much."""
        entries: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            # Another process may take it away at the same time.
            with suppress(FileNotFoundError):
                status = path.lstat()
                entries.append((status.st_mtime, status.st_size, path))
        # The newest first.
        total = 0
        for place, (written, size, path) in enumerate(sorted(entries, reverse=True)):
            total += size
            if place >= MOST_ENTRIES or total > MOST_BYTES or _is_too_old(written):
                path.unlink(missing_ok=True)


def decide_with_cache(
    step: RewriteStep,
    mechanism: str,
    params: BaseModel,
    summary: pl.DataFrame,
    noise: Noise,
    searches: SearchCache | None,
) -> Decision:
    """The step's decision, by what an earlier run of ``mechanism`` found if that is kept.

    Only of a step that has a ``search``; whatever it draws, it draws anew.
    """
    search = step.search
    if searches is None or search is None:
        return step.decide(summary, noise)
    name = searches.name_of(mechanism, params, summary)
    kept = searches.read(name)
    if kept is not None:
        # Parsed and measured like any answer: what does not fit is searched for again.
        with suppress(ValueError):
            decision = search.decide_by(summary, search.Found.model_validate_json(kept), noise)
            say(f"{mechanism}: {REUSED}")
            return Decision(decision.table, {**decision.internal, "search": REUSED})
    # No noise takes part in what is kept.
    found = search.find(summary)
    searches.write(name, found.model_dump_json().encode())
    return search.decide_by(summary, found, noise)


@cache
def _engine() -> tuple[str, str]:
    """The version of the engine, and a digest of the code that searches: between two releases the
    code changes and the version does not.
    """
    code = hashlib.sha256()
    modules = (
        file for file in files("cloakwork.mechanisms.kanon").iterdir() if file.name.endswith(".py")
    )
    for module in sorted(modules, key=lambda file: file.name):
        code.update(hashlib.sha256(module.read_bytes()).digest())
    return version_of("cloakwork"), code.hexdigest()


def _content_of(path: Path) -> bytes:
    """The content of an entry; nothing where it is no file of this user's, too large or too old."""
    # A link is not followed, and a pipe does not keep us waiting.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or _is_too_old(status.st_mtime):
                return b""
            return file.read(MOST_BYTES) if status.st_size <= MOST_BYTES else b""
    except OSError:
        return b""


def _is_too_old(written: float) -> bool:
    # A time far in the future is a clock that was set back since.
    return abs(time() - written) > LONGEST_KEPT
