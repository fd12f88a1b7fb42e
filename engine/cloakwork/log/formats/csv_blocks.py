"""A CSV file in blocks of whole records: what is in memory does not grow with the file."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from cloakwork.base.errors import LogError
from cloakwork.base.text import size_text
from cloakwork.log.formats.csv import BOM, CORRECTION, most_frequent_separator
from cloakwork.log.formats.csv_grammar import OPEN_QUOTE, CsvFault, OpenQuote, Records, find_records
from cloakwork.log.formats.encodings import decoded_pieces, require_utf8
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.source import LogStream, empty_file

_BLOCK: Final = 8 << 20  # bytes
_LONGEST_RECORD: Final = 4
"""Times the largest value."""

_QUOTE, _LF = 34, 10


class CsvBlocks:
    """The records of one CSV file, block by block; the first record of each block is the header.

    ``separator``: what stands between fields, known from the first block on.
    """

    def __init__(self, stream: LogStream, options: InputOptions) -> None:
        self.separator = options.delimiter or ""
        self._stream, self._path = stream, stream.path
        self._encoding = options.encoding
        self._header = b""
        self._header_lines = 0
        self._line = 1  # on which the next block starts
        self._read = self._given = 0  # bytes

    def __iter__(self) -> Iterator[Records]:
        """Raises ``LogError`` with its line for bytes that are no such file."""
        stream = self._stream
        most = _LONGEST_RECORD * stream.limits.value_size + _BLOCK
        pieces = self._counted(decoded_pieces(self._path, _pieces(stream, _BLOCK), self._encoding))
        rest = b""
        for piece, is_last in _with_last(pieces):
            data = rest + piece
            if not self._header and not data.strip():
                rest = data
                continue
            found, end = self._records(data, is_last=is_last)
            if found is not None:
                self._given += end
                yield found
            elif len(data) > most:
                raise self._endless(data, most)
            rest = data[end:]
        if not self._header:
            raise empty_file(self._path)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, counted when they are read: one is read before it is needed."""
        for piece in pieces:
            self._read += len(piece)
            yield piece

    @property
    def bytes_given(self) -> int:
        """How many bytes of the file, as it is packed, the blocks so far stand for, about."""
        return self._stream.taken * self._given // max(1, self._read)

    def _records(self, data: bytes, *, is_last: bool) -> tuple[Records | None, int]:
        """The whole records at the beginning of ``data``, behind the header, and where they end;
        None for none.
        """
        self.separator = self.separator or most_frequent_separator(data)
        end = len(data) if is_last else _likely_end(data)
        while end:
            try:
                found = self._behind_header(data[:end])
            except OpenQuote as fault:
                if is_last:
                    raise self._refusal(fault) from None
                end = data.rfind(b"\n", 0, fault.at - len(self._header)) + 1
            except CsvFault as fault:
                raise self._refusal(fault) from None
            else:
                if not self._header:
                    self._learn_header(data, found)
                self._line += data.count(b"\n", 0, end)
                return found, end
        return None, 0

    def _behind_header(self, data: bytes) -> Records:
        if self._encoding in (None, "utf-8"):
            require_utf8(self._path, data, self._line)
        found = find_records(self._header + data, self.separator)
        return replace(found, lines_before=self._line - 1 - self._header_lines)

    def _learn_header(self, data: bytes, found: Records) -> None:
        self._header_lines = found.data.count(b"\n", 0, int(found.ends[0])) + 1
        lines = data.split(b"\n", self._header_lines)[: self._header_lines]
        self._header = b"\n".join(lines) + b"\n"

    def _refusal(self, fault: CsvFault) -> LogError:
        line = fault.line + self._line - 1 - self._header_lines
        said = f"the table cannot be read ({fault})"
        return LogError(self._path, said, line=line, hint=CORRECTION)

    def _endless(self, data: bytes, most: int) -> LogError:
        said = f"the table cannot be read ({OPEN_QUOTE} within {size_text(most)})"
        return LogError(self._path, said, line=self._line, hint=CORRECTION)


def _pieces(stream: LogStream, size: int) -> Iterator[bytes]:
    while piece := stream.read(size):
        yield piece


def _with_last(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each piece, and whether it is the last one; one piece at least."""
    piece = next(pieces, b"")
    for following in pieces:
        yield piece, False
        piece = following
    yield piece, True


def _likely_end(data: bytes) -> int:
    """Where the last record of a stretch seems to end: behind a line end with an even number of
    quotes before it; else behind the last one. 0 for none.
    """
    # A row that starts with a byte-order mark must not be the first of a block.
    last = data.rfind(b"\n", 0, max(0, len(data) - len(BOM)))
    while last >= 0 and data.startswith(BOM, last + 1):
        last = data.rfind(b"\n", 0, last)
    end = last + 1
    if not end or data.find(b'"', 0, end) < 0:
        return end
    raw = np.frombuffer(data, np.uint8)[:end]
    line_ends = np.flatnonzero(raw == _LF)
    quotes_before = np.searchsorted(np.flatnonzero(raw == _QUOTE), line_ends)
    even = line_ends[quotes_before % 2 == 0]
    marked = [place for place in even[:-4:-1].tolist() if not data.startswith(BOM, place + 1)]
    return marked[0] + 1 if marked else end
