"""Feeding an XML parser so that its work is linear in the file, and no piece of markup is larger
than the limit.

An expat before 2.6.0 starts again at the first byte of an unfinished token each time that it is fed
(CVE-2023-52425): a tag of n bytes in pieces of c costs n * n / c. Distributions correct it without
raising the version, so a version proves nothing. Here each piece is at least as large as what is
unfinished: every token is begun at most log2(n / c) times, whatever expat does, and read over twice
at most.
"""

from pathlib import Path
from typing import Final
from xml.parsers.expat import XMLParserType

from cloakwork.base.errors import LogError
from cloakwork.base.text import size_text
from cloakwork.log.limits import Limits, raising

_MARKUP: Final = 1 << 20  # bytes of a tag besides its value


class Feeder:
    """Feeds ``parser``; with ``limits``, a tag or comment that no value within them explains raises
    ``LogError``.
    """

    def __init__(self, path: Path, parser: XMLParserType, limits: Limits | None) -> None:
        self._path, self._parser, self._limits = path, parser, limits
        self._waiting: list[bytes] = []
        self._size = self._fed = self._unfinished = 0
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)  # what is fed is to be parsed at once

    @property
    def at_start(self) -> bool:
        """Whether nothing was fed yet."""
        return not (self._fed or self._waiting)

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Take the next bytes; they may wait for more."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._unfinished and not last:
            return
        piece = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        self._parser.Parse(piece, last)
        self._fed += len(piece)
        self._unfinished = self._fed - max(0, self._parser.CurrentByteIndex)
        if (
            not last
            and self._limits is not None
            and self._unfinished > self._limits.value_size + _MARKUP
        ):
            raise LogError(
                self._path,
                f"a value or tag is larger than {size_text(self._limits.value_size)}, the limit",
                line=self._parser.CurrentLineNumber,
                hint=raising("value-size", 4 * self._limits.value_size),
            )
