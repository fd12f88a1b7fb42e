"""Inputs for the fuzzer: logs and policies that were whole once, damaged or exaggerated; each
follows from its seed.
"""

import datetime
import decimal
import gzip
import io
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from conftest import EXAMPLES, ROOT
from fuzz import inputs

FORMATS: Final = ("xes", "csv", "parquet", "policy", "options", "other")
LOGS: Final = ROOT / "tests" / "logs"
LARGE: Final = 8 << 20  # bytes
Mutation = Callable[[bytes, random.Random], bytes]


def mutated(kind: str, seed: int) -> tuple[str, bytes]:
    """A file name and its content; of ``other`` and ``options``, see ``fuzz.inputs``."""
    chance = random.Random(f"{kind} {seed}")
    if kind == "parquet" and chance.random() < 0.6:
        name, content = "made.parquet", made_parquet(chance)
    else:
        name, content = chance.choice(seeds(kind))
    tokens, mutations = TOKENS.get(kind, TOKENS["csv"]), list(BYTES)
    mutations += {"xes": XES, "csv": CSV, "policy": POLICY}.get(kind, [])
    for _ in range(chance.choice([0, 0, 1, 1, 1, 1, 2, 3])):
        if len(content) > LARGE:
            break  # large enough to show what is not linear
        if chance.random() < 0.5 and kind != "parquet":
            content = splice_token(content, chance, tokens)
        elif kind != "parquet" or chance.random() < 0.5:
            content = chance.choice(mutations)(content, chance)
    if kind in ("xes", "csv") and chance.random() < 0.1:
        for _ in range(chance.choice([1, 1, 1, 2])):
            content = gzip.compress(content, chance.choice([0, 1, 9]), mtime=0)
        if chance.random() < 0.3:
            content = chance.choice(BYTES)(content, chance)
    if kind == "options":
        name = "log.csv"
    return f"log.{kind}" if kind in ("xes", "csv", "parquet") else name, content


@cache
def seeds(kind: str) -> tuple[tuple[str, bytes], ...]:
    """Whole files, small."""
    if kind == "policy":
        folders = [ROOT / "policies"] * 5 + [ROOT / "tests" / "policy" / "broken"]
        return tuple(
            (path.name, path.read_bytes())
            for folder in folders
            for path in sorted(folder.glob("*.yaml"))
        )
    if kind in ("options", "other"):
        return inputs.with_options() if kind == "options" else inputs.of_other_formats()
    suffixes = {"xes": (".xes",), "csv": (".csv",), "parquet": (".parquet",)}[kind]
    found = [
        (path.name, path.read_bytes())
        for folder in [LOGS / "edge"] * 4 + [LOGS / "broken"]
        for path in sorted(folder.iterdir())
        if path.suffix in suffixes
    ]
    if kind == "xes":
        for name in ("hospital.xes.gz", "permit.xes.gz"):
            whole = gzip.decompress((EXAMPLES / name).read_bytes())
            ends = [found.end() for found in re.finditer(rb"</trace>\s*", whole[:400_000])]
            found += [(name, whole[: ends[count]] + b"</log>") for count in (0, 3, 8)] * 20
    if kind == "csv":
        lines = gzip.decompress((EXAMPLES / "hospital.csv.gz").read_bytes()).splitlines(
            keepends=True
        )
        found += [("hospital.csv", b"".join(lines[:count])) for count in (2, 20, 60)] * 20
    return tuple(found)


def splice_token(content: bytes, chance: random.Random, tokens: Sequence[bytes]) -> bytes:
    """A token put in, in place of some bytes or none, near a place where the format's own stand."""
    marks = [found.start() for found in re.finditer(rb'["<>/,;\n:]', content[:200_000])] or [0]
    at = chance.choice([chance.choice(marks), chance.randrange(len(content) + 1)]) + chance.randint(
        0, 1
    )
    return content[:at] + chance.choice(tokens) + content[at + chance.choice([0, 0, 0, 1, 2, 9]) :]


def flip(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 3, 20])):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    """The file broken off."""
    return content[: chance.randrange(len(content) + 1)]


def move(content: bytes, chance: random.Random) -> bytes:
    """A stretch of the file twice, or not at all, or somewhere else."""
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + 5000)
    to = chance.randrange(len(content) + 1)
    stretch = content[first:last]
    return chance.choice([content[:to] + stretch + content[to:], content[:first] + content[last:]])


def double_line(content: bytes, chance: random.Random) -> bytes:
    """A line many times."""
    lines = content.splitlines(keepends=True) or [b"\n"]
    at = chance.randrange(len(lines))
    times = min(chance.choice([2, 50, 3000]), 2 + LARGE // len(lines[at]))
    return b"".join([*lines[:at], *[lines[at]] * times, *lines[at + 1 :]])


def encode(content: bytes, chance: random.Random) -> bytes:
    """The same text in another encoding."""
    text = content.decode("utf-8", "replace")
    name = chance.choice(
        ["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "utf-32", "utf-7", "cp037"]
    )
    if chance.random() < 0.5:
        text = re.sub('encoding="[^"]*"', f'encoding="{name}"', text)
    return text.encode(name, "replace")


def number(content: bytes, chance: random.Random) -> bytes:
    """A number in place of another."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content[:200_000]))
    if not found:
        return content
    where = chance.choice(found)
    return content[: where.start()] + chance.choice(NUMBERS) + content[where.end() :]


def line_ends(content: bytes, chance: random.Random) -> bytes:
    """Other line ends, here and there or everywhere."""
    return content.replace(
        b"\n",
        chance.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\r\r\n"]),
        chance.choice([-1, 1, 3]),
    )


def swell_value(content: bytes, chance: random.Random) -> bytes:
    """One value of many bytes."""
    size = chance.choice([1000, 100_000, 3 << 20] + [24 << 20] * (chance.random() < 0.02))
    marks = [found.end() for found in re.finditer(rb'value="|[,;\t]|: ', content[:200_000])] or [0]
    at = chance.choice(marks)
    unit = chance.choice([b"x", b"\xc3\xa9", b"&amp;", b'""', b"5", b" "])
    return content[:at] + unit * (size // len(unit)) + content[at:]


def many_keys(content: bytes, chance: random.Random) -> bytes:
    """Very many attributes, one in each event."""
    count = chance.choice([100, 4100] + [11_000] * (chance.random() < 0.1))
    attribute = '<event><string key="k{}" value="v"/><string key="concept:name" value="a"/></event>'
    events = "".join(attribute.format(place) for place in range(count)).encode()
    return content.replace(b"</trace>", events + b"</trace>", 1)


def deep(content: bytes, chance: random.Random) -> bytes:
    """Elements in elements in elements."""
    depth = chance.choice([10, 1000, 50_000])
    nested = b'<string key="a" value="b">' * depth + b"</string>" * depth
    return content.replace(b"</event>", nested + b"</event>", 1)


def entities(content: bytes, _chance: random.Random) -> bytes:
    """Entities that hold entities."""
    laughs = b'<!DOCTYPE log [<!ENTITY a "ha">' + b"".join(
        b'<!ENTITY %c "&%c;&%c;&%c;">' % (char + 1, char, char, char)
        for char in range(ord("a"), ord("p"))
    )
    return content.replace(b"<log", laughs + b"]><log", 1).replace(b'value="', b'value="&p;', 1)


def many_columns(content: bytes, chance: random.Random) -> bytes:
    """Very many columns."""
    count = chance.choice([10, 300] + [12_000] * (chance.random() < 0.1))
    lines = content.splitlines(keepends=True)[:20]
    more = [b",".join(b"c%d" % place for place in range(count)), b"," * (count - 1)]
    return b"".join(
        line.rstrip(b"\r\n") + b"," + more[min(at, 1)] + b"\n" for at, line in enumerate(lines)
    )


def bomb(content: bytes, chance: random.Random) -> bytes:
    """Much more than it looks."""
    if chance.random() < 0.9:
        return content
    return gzip.compress(content + b"\n" + b"1,a,2024-03-01\n" * (8 << 20), 6, mtime=0)


def quote_field(content: bytes, chance: random.Random) -> bytes:
    """A field in quotes, or with a quote inside, or half of that."""
    fields = list(re.finditer(rb"[^,;\t\r\n]+", content))
    if not fields:
        return content
    where = chance.choice(fields)
    text = where[0]
    forms = [
        b'"' + text + b'"',
        b'"' + text,
        text + b'"',
        b'5" ' + text,
        b'"a""b"',
        b'"a\nb,c"',
        b' "' + text + b'"',
    ]
    return content[: where.start()] + chance.choice(forms) + content[where.end() :]


def yaml_tree(content: bytes, chance: random.Random) -> bytes:
    """Nested flows, anchors and aliases."""
    depth = chance.choice([5, 100, 3000])
    forms = [
        b"[" * depth + b"]" * depth,
        b"{a: " * depth + b"1" + b"}" * depth,
        b"&a [*a]",
        b"!!python/object:os.x {}",
    ]
    marks = [found.end() for found in re.finditer(rb": ", content)] or [0]
    at = chance.choice(marks)
    return content[:at] + chance.choice(forms) + content[at:]


# fmt: off
NUMBERS: Final = [
    b"0", b"-0", b"-1", b"1e308", b"1e309", b"1e-320", b"9" * 30, b"9" * 5000, b"nan", b"-inf",
    b"0x10", b"9223372036854775807", b"9223372036854775808", b"1_000", b"00", b".5", b"5.", b"+1",
    b"1E5", b"0001",
]
# fmt: on
BYTES: Final[list[Mutation]] = [
    flip,
    cut,
    move,
    double_line,
    encode,
    number,
    line_ends,
    swell_value,
]
XES: Final[list[Mutation]] = [many_keys, deep, entities, bomb]
CSV: Final[list[Mutation]] = [many_columns, quote_field, quote_field, quote_field, bomb]
POLICY: Final[list[Mutation]] = [yaml_tree, number, number]
# fmt: off
TOKENS: Final[dict[str, list[bytes]]] = {
    "xes": [
        b'"', b"'", b"<", b">", b"&", b"/>", b"</event>", b"<event>", b"<trace>", b"</trace>",
        b"</log>", b"<log>", b"]]>", b"<!--", b"-->", b"<![CDATA[", b"<?x?>", b"&amp;", b"&#0;",
        b"&#x10FFFF;", b"&#xD800;", b"\0", b"\xff", b"\xef\xbf\xbf", b"\xed\xa0\x80", b" ", b"\n",
        b"\r", b"<!DOCTYPE x>", b'<string key="k" value="v"/>', b"x:",
        b'<int key="k" value="007"/>', b'<float key="k" value="NaN"/>',
        b'<boolean key="k" value="1"/>', b"<event/>",
        b'<date key="time:timestamp" value="2024-02-30T00:00:00"/>',
        b'<list key="l"><values/></list>', b"<trace/>",
        b'<date key="k" value="9999-12-31T23:59:59.9999999-12:00"/>', b' xmlns="urn:x"',
        b' xmlns:x="urn:x"', b"=", b'<id key="k" value=""/>', b'<string key="*" value="v"/>',
        b'<string key="^time.*$" value="v"/>', b' a="b"', b'<string key="case:x" value="v"/>',
        b"\xc2\x85", b"\xe2\x80\xa8", b"&#13;", b"&#xA;", b"&quot;", b"<x/>",
    ],
    "csv": [
        b",", b";", b"\t", b'"', b'""', b'"""', b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"\0",
        b"\xff", b"\xef\xbb\xbf", b'5" pipe', b"NA", b"null", b"NaN", b"inf", b"+491701", b"1E5",
        b"007", b"-0", b"-0.0", b"1.50", b"1.5", b"2", b"12345678901234567890", b"TRUE", b"true",
        b"case:x", b"CASE_x", b"#", b"'", b"\\", b'\\"', b"2024-03-01",
        b"2024-03-01T10:00:00+05:30", b"2024-13-01", b"01.03.2024", b"*", b"^.*$", b"\xc2\xa0",
        b"\xe2\x80\xa8", b"=", b"1e400", b"0.1", b"1e16", b"\x0b", b"\x0c", b"\x1c", b'"\n"',
        b'",\n', b'\n"', b"9" * 400,
    ],
    "policy": [
        b":", b"-", b" ", b"\n", b"  ", b"\t", b"{", b"}", b"[", b"]", b"&a", b"*a", b"!!binary ",
        b"|", b">", b"#", b"'", b'"', b"null", b"~", b"true", b"1e-308", b"1e308", b".nan", b".inf",
        b"0s", b"1h", b"-1", b"0", b"99999999999h", b"<<: *a", b"---\n", b"...\n", b"? ", b"spec:",
        b"kind: k-anonymity", b"epsilon: ", b"k: 1000000000", b"\0", b"\xff", b"\xef\xbb\xbf",
        b"\xe2\x80\xa8", b"*", b"[eur]", b"a?c", b"1e-6", b"1:30", b"2024-01-01", b"0o7", b"yes",
    ],
}
# fmt: on


def made_parquet(chance: random.Random) -> bytes:
    """A table with columns of any type, packed in any way."""
    rows = chance.choice([0, 1, 3, 3, 40])
    names = [
        "case:concept:name",
        "concept:name",
        "time:timestamp",
        *chance.sample(["x", "y", "*", "^x$", "", "case:z"], 3),
    ]
    kinds = ["text", "text", "time", *chance.choices(sorted(VALUES), k=3)]
    for place in range(3):
        if chance.random() < 0.15:
            kinds[place] = chance.choice(sorted(VALUES))
    arrays = []
    for kind in kinds:
        values, dtype = VALUES[kind]
        column = [None if chance.random() < 0.15 else chance.choice(values) for _ in range(rows)]
        array = pa.array(column, dtype)
        if chance.random() < 0.3 and kind in ("text", "int"):
            array = array.dictionary_encode()
        arrays.append(array)
    kept = [place for place in range(6) if chance.random() > 0.02]
    table = pa.Table.from_arrays(
        [arrays[place] for place in kept], [names[place] for place in kept]
    )
    out = io.BytesIO()
    options = {
        "compression": chance.choice(["none", "snappy", "gzip", "zstd", "brotli"]),
        "use_dictionary": chance.random() < 0.5,
        "data_page_version": chance.choice(["1.0", "2.0"]),
        "row_group_size": chance.choice([1, 7, 1000]),
        "use_deprecated_int96_timestamps": chance.random() < 0.2 and "far" not in kinds,
        "store_schema": chance.random() < 0.8,
    }
    pq.write_table(table, out, **options)
    return out.getvalue()


_DAY = datetime.datetime(2024, 3, 1, 10)
_MOMENTS = [_DAY + datetime.timedelta(minutes=7 * step) for step in range(5)]
VALUES: Final[dict[str, tuple[list[object], pa.DataType]]] = {
    "text": (["a", "b", "", "é", '5"', "NA", "x" * 300], pa.string()),
    "large text": (["a", "b"], pa.large_string()),
    "int": ([0, 1, -7, 2**63 - 1], pa.int64()),
    "small": ([0, 1, 200], pa.uint8()),
    "unsigned": ([0, 2**64 - 1], pa.uint64()),
    "float": ([0.5, -0.0, float("nan"), float("inf"), 1e300], pa.float64()),
    "half": ([0.5, 1.0], pa.float16()),
    "truth": ([True, False], pa.bool_()),
    "time": (_MOMENTS, pa.timestamp("us", "UTC")),
    "zoneless": (_MOMENTS, pa.timestamp("us")),
    "offset": (_MOMENTS, pa.timestamp("ms", "+05:30")),
    "place": (_MOMENTS, pa.timestamp("ns", "Europe/Berlin")),
    "nowhere": (_MOMENTS, pa.timestamp("s", "Mars/Base")),
    "far": ([2**62, 1, -(2**61)], pa.timestamp("us")),
    "day": ([_DAY.date()], pa.date32()),
    "clock": ([datetime.time(1, 2, 3)], pa.time64("us")),
    "duration": ([datetime.timedelta(3)], pa.duration("us")),
    "decimal": (
        [decimal.Decimal("1.50"), decimal.Decimal("12345678901234567.89")],
        pa.decimal128(30, 2),
    ),
    "wide decimal": ([decimal.Decimal("1.50")], pa.decimal256(60, 2)),
    "list": ([[1], [], [2, 3]], pa.list_(pa.int64())),
    "struct": ([{"a": 1}, {"a": None}], pa.struct([("a", pa.int64())])),
    "map": ([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "bytes": ([b"a", b"\xff"], pa.binary()),
    "fixed": ([b"abcd"], pa.binary(4)),
    "null": ([None], pa.null()),
}
