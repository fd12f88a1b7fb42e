"""The bytes of a text file as UTF-8, from the encoding that a policy names."""

from pathlib import Path
from typing import Final

from cloakwork.errors import LogError
from cloakwork.log.io.options import Encoding

_BOM: Final = b"\xef\xbb\xbf"
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def decoded(path: Path, data: bytes, encoding: Encoding | None) -> bytes:
    """``data`` as UTF-8 without a byte-order mark. ``LogError`` with its line at the first byte
    that is none of ``encoding`` (None: UTF-8).
    """
    if encoding is None or encoding == "utf-8":
        return _checked(path, data.removeprefix(_BOM))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise LogError(
            path,
            f"the file is not in {encoding}",
            line=_line(data[: error.start].decode(encoding, "replace")),
            hint="correct spec.input.encoding, or save the file as UTF-8",
        ) from None
    return text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")


def _checked(path: Path, data: bytes) -> bytes:
    try:
        if not data.isascii():
            data.decode()
    except UnicodeDecodeError as error:
        raise LogError(
            path,
            "the file is not in UTF-8",
            line=data.count(b"\n", 0, error.start) + 1,
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
