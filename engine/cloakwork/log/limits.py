"""Limits on what a log file may ask of its reader, and where they are raised.

A file is written by somebody else: a few kilobytes of it may unpack to gigabytes. Each limit is far
above what event logs hold; each refusal names the limit and how to raise it.
"""

import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Final, Literal

from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.text import SIZES, shown, size_text

ENVIRONMENT: Final = "CLOAKWORK_LIMITS"

OnExcess = Literal["refuse", "drop"]
"""What becomes of a value over ``value_size``: the file is refused, or the value is missing."""

_SIZE: Final = re.compile(r"\s*([0-9]{1,18})\s*(KiB|MiB|GiB)?\s*")


@frozen
class Limits:
    """What one log file may hold. All but ``value_size`` concern the file as a whole and always
    refuse it.

    - ``value_size``: bytes of one attribute value (16 MiB).
    - ``attributes``: columns of a table, or distinct attribute keys of a XES file that are read
      (10,000).
    - ``unpacked_size``: bytes of the file without gzip; of Parquet, 16 bytes for each value of each
      column read (8 GiB).
    - ``unpack_ratio``: bytes unpacked from one byte of the file, once ``RATIO_FROM`` bytes came out
      (100; the real logs that we know need at most 53).
    """

    value_size: int = 16 << 20
    attributes: int = 10_000
    unpacked_size: int = 8 << 30
    unpack_ratio: int = 100

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")


RATIO_FROM: Final = 64 << 20
"""Small files may unpack as they like: a log of 10,000 equal events has a high ratio and harms
nobody.
"""


def current_limits() -> Limits:
    """The default limits, with those that the environment variable ``CLOAKWORK_LIMITS`` names set
    as it says.

    ``CLOAKWORK_LIMITS="value-size=64MiB, attributes=20000"``. ``LogError`` where it cannot be read.
    """
    text = os.environ.get(ENVIRONMENT, "")
    try:
        return parse_limits(text)
    except ValueError as error:
        raise LogError(
            ENVIRONMENT,
            str(error),
            hint="write it as value-size=64MiB, attributes=20000",
        ) from None


def parse_limits(text: str) -> Limits:
    """Limits from ``name=number`` pairs, separated by commas; sizes may end in KiB, MiB or GiB.

    Raises ``ValueError``.

    >>> parse_limits("value-size=64MiB").value_size
    67108864
    """
    names = {field.name.replace("_", "-"): field.name for field in fields(Limits)}
    changed: dict[str, int] = {}
    pairs = [pair.strip() for pair in text.split(",")]
    for pair in filter(None, pairs):
        name, _, size = pair.partition("=")
        name = name.strip()
        if name not in names:
            known = ", ".join(names)
            raise ValueError(f"'{shown(name)}' is no limit; there are {known}")
        found = _SIZE.fullmatch(size)
        if not found or not int(found[1]):
            raise ValueError(f"'{shown(pair)}' is not NAME=NUMBER, with a number of at least 1")
        number, unit = found.groups()
        changed[names[name]] = int(number) * SIZES[unit or ""]
    return replace(Limits(), **changed)


def refuse_unpacked(
    path: Path,
    unpacked: int,
    packed: int,
    limits: Limits,
    said: str,
    *,
    times: int = 1,
) -> None:
    """Raise ``LogError`` where a file of ``packed`` bytes holds more than it may; ``said``: what it
    does, as in "the gzip file unpacks to". The ratio counts from ``times`` ``RATIO_FROM`` on.
    """
    if unpacked > limits.unpacked_size:
        raise LogError(
            path,
            f"the file holds more than {size_text(limits.unpacked_size)}, the limit",
            hint=raising("unpacked-size", max(2 * limits.unpacked_size, unpacked)),
        )
    # Once much came out, the ratio counts, too: a small file must not fill the disk or memory.
    if unpacked > max(times * RATIO_FROM, limits.unpack_ratio * packed):
        raise LogError(
            path,
            f"{said} more than {limits.unpack_ratio} times its size, the limit",
            hint=raising("unpack-ratio", max(1100, unpacked // max(packed, 1) + 1)),
        )


def refuse_columns(
    path: Path,
    what: str,
    columns: int,
    limits: Limits,
    line: int | None = None,
) -> None:
    """Raise ``LogError`` where ``what``, a part of a file, has more columns than it may."""
    if columns > limits.attributes:
        raise LogError(
            path,
            f"{what} has {columns:,} columns, the limit is {limits.attributes:,}",
            line=line,
            hint=raising("attributes", columns),
        )


def raising(limit: str, least: int) -> str:
    """The remedy that refusals name: ``limit`` as users write it, and a value that may do."""
    text = size_text(least)
    # A number as ``parse_limits`` reads it.
    parsable = str(least) if text.endswith("bytes") else text.replace(" ", "")
    return f"if you trust the file, set {ENVIRONMENT}={limit}={parsable}"
