"""Where the records of a CSV file lie: one grammar for the header and the body; and a file in
blocks of whole records, so that what is in memory does not grow with it.

RFC 4180, with what it leaves open settled:

- A record ends at LF or CRLF, or at the end of the file; a CR that no LF follows may stand only
  inside quotes.
- A field is quoted if and only if its first byte is a double quote. Inside it, two quotes are one;
  after the closing one comes a separator or the end of the record.
- In any other field a quote is a character like others: ``5" pipe``.
- A line without a byte is no record (except in a table of one column, where it is an empty field).

``find_records`` checks every byte of a file against it, in columns. Where quotes stand only as
RFC 4180 has them, a byte is inside quotes if and only if an odd number of quotes comes before it,
which is one cumulative sum. Where they do not, fields that hold a quote without being quoted are
first rewritten as quoted ones (``5"" pipe`` in quotes), which changes no line.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.text import size_text
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.source import Decoder, LogStream, empty_file

BLOCK: Final = 8 << 20  # bytes
_LONGEST_RECORD: Final = 4
"""Times the largest value."""

BOM: Final = b"\xef\xbb\xbf"
CORRECTION: Final = "correct that line, or export the file again"
SEPARATORS: Final = ",;\t"
_IN_QUOTES: Final = re.compile(rb'"[^"]*"')
_QUOTE = 34
_CR = 13
_LF = 10
_LONE_RETURN: Final = "a carriage return stands alone; end lines by LF or CRLF"
OPEN_QUOTE: Final = "a quote opens a field and nothing closes it"
# Possessive quantifiers: no input makes the expression backtrack.
_QUOTED: Final = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')


class CsvFault(Exception):
    """A place where the file breaks the grammar: its line (from 1), and what is wrong."""

    def __init__(
        self,
        data: bytes,
        at: int,
        message: str,
    ) -> None:
        self.line = line_at(data, at)
        super().__init__(message)


class OpenQuote(CsvFault):
    """A quote that nothing closes, ``at`` this byte: in a stretch of a file the rest may."""

    def __init__(self, data: bytes, at: int) -> None:
        self.at = at
        super().__init__(data, at, OPEN_QUOTE)


@frozen
class Records:
    """The records of one file.

    - ``data``: the file, fields that hold a quote without being quoted rewritten as quoted ones; a
      byte of it is on the same line as in the file.
    - ``starts``, ``ends``: int64, shape (records,): each record is ``data[start:end]``, without its
      line's end.
    - ``separators``: int64, shape (records,): how many stand in each record, outside quotes.
    - ``lines_before``: how many lines of the file come before the data's first, less those of a
      header that was put in front.
    """

    data: bytes
    starts: Ints
    ends: Ints
    separators: Ints
    lines_before: int = 0

    @property
    def blank(self) -> Bools:
        """Which records are lines without a byte: an empty field, in a table of one column."""
        blank: Bools = (self.starts == self.ends) & (self.separators[:1] > 0)
        return blank

    @property
    def rows(self) -> Ints:
        """The record that each row is: all behind the header but blank ones."""
        return np.flatnonzero(~self.blank[1:]) + 1

    def line(self, record: int) -> int:
        """The line, from 1, on which ``record`` starts."""
        return self.lines_before + line_at(self.data, int(self.starts[record]))

    def line_of_row(self, row: int) -> int:
        """The line, from 1, on which a row (from 0) starts."""
        return self.line(int(self.rows[row]))


def line_at(data: bytes, place: int) -> int:
    """The line, from 1, of the byte at ``place``."""
    return data.count(b"\n", 0, place) + 1


def _quotes_are_plain(data: bytes, separator: str) -> bool:
    """Whether counting quotes tells what is quoted.

    Then every opening quote (the first, third, ...) starts a field or follows a closing one, as in
    a doubled quote, every closing one ends a field or is followed by an opening one, and none is
    left open.
    """
    raw = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    opening = quotes[::2]
    closing = quotes[1::2]
    if len(opening) > len(closing):
        return False
    before = np.zeros(256, np.bool_)
    before[[ord(separator), _LF, _QUOTE]] = True
    after = before.copy()
    after[_CR] = True
    preceding = raw[opening[opening > 0] - 1]
    following = raw[closing[closing < len(raw) - 1] + 1]
    return bool(before[preceding].all() and after[following].all())


def _with_quotes_doubled(data: bytes, separator: str) -> bytes:
    """The same table, every field that holds a quote without being quoted written as a quoted one.

    One step a quoted field or such a field. ``CsvFault`` for a quote that nothing closes, and text
    behind a closing one.
    """
    split = separator.encode()
    starts = split + b"\n"
    ends = split + b"\r\n"
    field_end = re.compile(rb"[%b\r\n]" % re.escape(split))
    pieces: list[bytes] = []
    done = written = 0
    while (quote := data.find(b'"', done)) >= 0:
        if quote == 0 or data[quote - 1] in starts:
            quoted = _QUOTED.match(data, quote)
            if quoted is None:
                raise OpenQuote(data, quote)
            done = quoted.end()
            if done < len(data) and data[done] not in ends:
                raise CsvFault(
                    data,
                    done,
                    "text stands behind a closing quote; inside quotes, write a quote twice",
                )
            continue
        # The field begins behind the last line end or separator before the quote.
        line = data.rfind(b"\n", done, quote) + 1
        split_before = data.rfind(split, max(done, line), quote) + 1
        start = max(done, line, split_before)
        found = field_end.search(data, quote)
        done = found.start() if found else len(data)
        alone = data.find(b"\r", start, quote)
        if alone >= 0:
            raise CsvFault(data, alone, _LONE_RETURN)
        field = data[start:done].replace(b'"', b'""')
        pieces += [data[written:start], b'"', field, b'"']
        written = done
    return b"".join((*pieces, data[written:]))


def find_records(data: bytes, separator: str) -> Records:
    """The records of ``data``, which starts without a byte-order mark. ``CsvFault`` where it breaks
    the grammar.
    """
    # So that counting quotes tells what is quoted.
    if b'"' in data and not _quotes_are_plain(data, separator):
        data = _with_quotes_doubled(data, separator)
    raw = np.frombuffer(data, np.uint8)
    splits = np.flatnonzero(raw == ord(separator))
    ends = np.flatnonzero(raw == _LF)
    returns = np.flatnonzero(raw == _CR)
    if b'"' in data:
        # Only the last bit of the sum counts, so that it may overflow its eight bits.
        outside = np.cumsum(raw == _QUOTE, dtype=np.uint8) & 1 == 0
        splits, ends, returns = (places[outside[places]] for places in (splits, ends, returns))
    # Readers differ on whether a CR alone ends a line.
    if len(returns):
        alone = returns[np.append(raw, 0)[returns + 1] != _LF]
        if len(alone):
            raise CsvFault(data, int(alone[0]), _LONE_RETURN)
    # A last line that nothing ends is a record, too.
    if not data.endswith(b"\n") and data:
        ends = np.append(ends, len(data))
    # Each record starts behind the end of the one before.
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)]
    separators = np.diff(np.searchsorted(splits, ends), prepend=0)
    # Records that end at CRLF: the CR before the LF is no part of them.
    returned = (ends > starts) & (ends < len(raw))
    returned[returned] = raw[ends[returned] - 1] == _CR
    return Records(data, starts, ends - returned, separators)


class CsvBlocks:
    """The records of one CSV file, block by block; the first record of each block is the header.

    ``separator``: what stands between fields, known from the first block on; one of ``separators``
    where the options do not say.
    """

    def __init__(
        self,
        stream: LogStream,
        options: InputOptions,
        separators: str = SEPARATORS,
        block: int | None = None,
    ) -> None:
        self.separator = options.delimiter or ""
        self._block = block or BLOCK
        self.stream = stream
        self._path = stream.path
        self._separators = separators
        self._encoding = options.encoding
        self._header = b""
        self._header_lines = 0
        self._line = 1  # on which the next block starts

    def __iter__(self) -> Iterator[Records]:
        """Raises ``LogError`` with its line for bytes that are no such file."""
        stream = self.stream
        # A longer stretch without a whole record has an open quote, and would fill the memory.
        most = _LONGEST_RECORD * stream.limits.value_size + self._block
        decoder = Decoder(self._path, self._encoding)
        rest = b""
        is_last = False
        while not is_last:
            given = stream.read(self._block)
            is_last = len(given) < self._block
            data = rest + decoder.decode(given, is_last=is_last)
            # Nothing but blanks so far: the header is still to come.
            if not self._header and not data.strip():
                rest = data
                continue
            found, end = self._records(data, is_last=is_last)
            if found is not None:
                yield found
            elif len(data) > most:
                said = f"the table cannot be read ({OPEN_QUOTE} within {size_text(most)})"
                raise LogError(self._path, said, line=self._line, hint=CORRECTION)
            rest = data[end:]
        if not self._header:
            raise empty_file(self._path)

    def _records(self, data: bytes, *, is_last: bool) -> tuple[Records | None, int]:
        """The whole records at the beginning of ``data``, behind the header, and where they end;
        None for none.
        """
        if not self._header:
            self.separator = self.separator or _most_frequent(self._separators, data)
        # A stretch may end inside a record; only the last one ends where the file does.
        end = len(data) if is_last else _likely_end(data)
        lines_before = self._line - 1 - self._header_lines
        while end:
            try:
                found = find_records(self._header + data[:end], self.separator)
            except CsvFault as fault:
                if is_last or not isinstance(fault, OpenQuote):
                    said = f"the table cannot be read ({fault})"
                    line = fault.line + lines_before
                    raise LogError(self._path, said, line=line, hint=CORRECTION) from None
                # What comes next may close the quote: the records before it are whole.
                end = data.rfind(b"\n", 0, fault.at - len(self._header)) + 1
            else:
                if not self._header:
                    # Put before each further block, so that every block is a table of its own.
                    self._header_lines = found.data.count(b"\n", 0, int(found.ends[0])) + 1
                    lines = data.split(b"\n", self._header_lines)[: self._header_lines]
                    self._header = b"\n".join(lines) + b"\n"
                self._line += data.count(b"\n", 0, end)
                return replace(found, lines_before=lines_before), end
        return None, 0


def _likely_end(data: bytes) -> int:
    """Where the last record of a stretch seems to end: behind a line end with an even number of
    quotes before it; else behind the last one. 0 for none.
    """
    end = data.rfind(b"\n") + 1
    if not end or data.find(b'"', 0, end) < 0:
        return end
    raw = np.frombuffer(data, np.uint8)[:end]
    line_ends = np.flatnonzero(raw == _LF)
    quotes_before = np.searchsorted(np.flatnonzero(raw == _QUOTE), line_ends)
    even = line_ends[quotes_before % 2 == 0]
    return int(even[-1]) + 1 if len(even) else end


def _most_frequent(separators: str, data: bytes) -> str:
    """The separator that the first line holds most often outside quotes."""
    line = _IN_QUOTES.sub(b"", data.partition(b"\n")[0])
    return max(separators, key=lambda char: line.count(char.encode()))
