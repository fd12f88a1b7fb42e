"""The bytes of a text file as UTF-8, from the encoding that a policy names."""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from cloakwork.base.errors import LogError
from cloakwork.log.formats.options import Encoding

_BOM: Final = b"\xef\xbb\xbf"
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def decoded(path: Path, data: bytes, encoding: Encoding | None) -> bytes:
    """``data`` as UTF-8 without a byte-order mark. ``LogError`` with its line at the first byte
    that is none of ``encoding`` (None: UTF-8).
    """
    if encoding is None or encoding == "utf-8":
        return require_utf8(path, data.removeprefix(_BOM))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line(data[: error.start].decode(encoding, "replace"))
        raise _not_in(path, encoding, line) from None
    return text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")


def decoded_pieces(
    path: Path, pieces: Iterable[bytes], encoding: Encoding | None
) -> Iterator[bytes]:
    """The same of a file in pieces, but that what claims to be UTF-8 is not checked here:
    ``require_utf8`` is for whole lines.
    """
    waiting = iter(pieces)
    start = next(waiting, b"")
    if encoding is None or encoding == "utf-8":
        yield start.removeprefix(_BOM)
        yield from waiting
        return
    if encoding == "utf-16":
        encoding = "utf-16-be" if start.startswith(_WIDE_MARKS[1]) else "utf-16-le"
        start = start.removeprefix(_WIDE_MARKS[0]).removeprefix(_WIDE_MARKS[1])
    decoder = codecs.getincrementaldecoder(encoding)()
    line, is_first = 1, True
    for piece in chain([start], waiting, [None]):
        try:
            text = decoder.decode(piece or b"", final=piece is None)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, "replace")
            raise _not_in(path, encoding, line + before.count("\n")) from None
        line += text.count("\n")
        if is_first and text:
            text, is_first = text.removeprefix("\ufeff"), False
        yield text.encode("utf-8", "surrogatepass")


def _not_in(path: Path, encoding: str, line: int) -> LogError:
    return LogError(
        path,
        f"the file is not in {encoding}",
        line=line,
        hint="correct spec.input.encoding, or save the file as UTF-8",
    )


def require_utf8(path: Path, data: bytes, first_line: int = 1) -> bytes:
    """``data``, which starts on ``first_line`` of a file. ``LogError`` with its line at the first
    byte that is not UTF-8.
    """
    try:
        if not data.isascii():
            data.decode()
    except UnicodeDecodeError as error:
        raise LogError(
            path,
            "the file is not in UTF-8",
            line=data.count(b"\n", 0, error.start) + first_line,
            hint=f"save it as UTF-8, or say encoding: {likely_encoding(data)} under spec.input",
        ) from None
    return data


def _line(text: str) -> int:
    return text.count("\n") + 1


def likely_encoding(data: bytes) -> Encoding:
    """The encoding that bytes seem to be in: a guess, to be confirmed by who knows the file."""
    if data.startswith(_WIDE_MARKS):
        return "utf-16"
    sample = data[: 1 << 16]
    odd, even = sample[1::2].count(0), sample[::2].count(0)
    if max(odd, even) > len(sample) // 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        data.decode()
    except UnicodeDecodeError:
        return _single_byte(data)
    return "utf-8"


def _single_byte(data: bytes) -> Encoding:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"  # every byte is a character of it
    return "cp1252"
