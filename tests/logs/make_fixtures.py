"""Writes the small log files of ``edge/`` and ``broken/``; run it again after changing it.

python tests/logs/make_fixtures.py
"""

import gzip
import io
from pathlib import Path

HERE = Path(__file__).parent
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n'
T = '<date key="time:timestamp" value="2024-03-01T10:0{}:00.000+00:00"/>'


def event(name: str, minute: int = 0, more: str = "") -> str:
    named = f'<string key="concept:name" value="{name}"/>'
    return f"<event>\n{named}\n{T.format(minute)}\n{more}</event>\n"


def trace(name: str, *events: str, more: str = "") -> str:
    return (
        f'<trace>\n<string key="concept:name" value="{name}"/>\n{more}{"".join(events)}</trace>\n'
    )


def log(*traces: str, head: str = HEAD) -> str:
    return head + "".join(traces) + "</log>\n"


TWO = trace("1", event("a"), event("b", 1)) + trace("2", event("a"))

EDGE: dict[str, str | bytes] = {
    "plain.xes": log(TWO),
    "entities.xes": log(
        trace(
            "R&amp;D &#233;&#x1F600;",
            event("a &lt; b"),
            event("&quot;c&quot; &apos;d&apos; &gt;", 1),
        )
    ),
    "greater-than.xes": log(
        trace("1", event("a > b"), event("c/> <".replace("<", "&lt;") + "]]>", 1))
    ),
    "comments.xes": log(
        "<!-- before --><trace>\n",
        '<string key="concept:name" value="1"/>\n',
        event("a"),
        "<!-- <event> & ' \" -->",
        event("b", 1),
        "</trace>",
    ),
    "comment-in-header.xes": log(
        TWO, head=HEAD + "<!-- <trace><string key='concept:name' value='x'/></trace> -->\n"
    ),
    "trace-in-header-value.xes": log(
        TWO,
        head=HEAD
        + '<string key="note" value="a &lt;trace> b"/>\n<string key=\'q\' value=\'"\'/>\n',
    ),
    "cdata.xes": log("<![CDATA[ <trace> ]]>", TWO, "<?done now?>"),
    "value-first.xes": log(TWO).replace(
        'key="concept:name" value="b"', 'value="b" key="concept:name"'
    ),
    "prefixed.xes": log(TWO)
    .replace("</", "</xes:")
    .replace("<trace", "<xes:trace")
    .replace("<event", "<xes:event")
    .replace("<string", "<xes:string")
    .replace("<date", "<xes:date")
    .replace("<log ", '<xes:log xmlns:xes="http://www.xes-standard.org/" '),
    "default-namespace.xes": log(TWO).replace(
        "<log ", '<log xmlns="http://www.xes-standard.org/" '
    ),
    "foreign-elements.xes": log(
        trace(
            "1",
            event("a"),
            '<x:event xmlns:x="urn:other"><string key="concept:name" value="no"/></x:event>\n',
            event("b", 1),
        )
    ),
    "single-quotes.xes": log(TWO)
    .replace('"', "'")
    .replace("'1.0'", '"1.0"')
    .replace("value='b'", "value='b \"quoted\"'"),
    "byte-order-mark.xes": b"\xef\xbb\xbf" + log(TWO).encode(),
    "utf-16.xes": log(trace("1", event("é"))).replace("UTF-8", "UTF-16").encode("utf-16"),
    "latin-1.xes": log(trace("1", event("é"))).replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    "windows-1252.xes": log(trace("1", event("€")))
    .replace("UTF-8", "windows-1252")
    .encode("cp1252"),
    "no-declaration.xes": log(TWO, head="<log>"),
    "crlf.xes": log(TWO).replace("\n", "\r\n").encode(),
    "one-line.xes": log(TWO).replace("\n", ""),
    "blanks-in-tags.xes": log(TWO)
    .replace("<event>", "<event >")
    .replace("</trace>", "</trace\n>")
    .replace("<string key", "<string\n\tkey")
    .replace('"/>', '" />'),
    "closed-apart.xes": log(TWO).replace('value="b"/>', 'value="b"></string>'),
    "nested.xes": log(
        trace(
            "1",
            event(
                "a",
                0,
                '<string key="x" value="1"><int key="y" value="2"/>'
                '<list key="z"><values/></list></string>\n',
            ),
        )
    ),
    "lists.xes": log(
        trace(
            "1",
            event(
                "a",
                0,
                '<list key="l"><values><int key="y" value="2"/></values></list>\n'
                '<container key="c"><string key="y" value="2"/></container>\n',
            ),
        )
    ),
    "line-break-in-value.xes": log(trace("1", event("a\nb"), event("c&#10;d", 1))),
    "zones.xes": log(
        trace(
            "1",
            *(
                f'<event>\n<string key="concept:name" value="{i}"/>\n'
                f'<date key="time:timestamp" value="{t}"/>\n</event>\n'
                for i, t in enumerate(
                    [
                        "2024-03-01T10:00:00+02:00",
                        "2024-03-01T08:01:00Z",
                        "2024-03-01T18:32:00.123456+10:30",
                        "2024-03-01T08:03:00.1234567+0000",
                        "2024-03-01T08:04:00",
                        "2024-03-01T02:05:00-06",
                        "2024-03-02",
                    ]
                )
            ),
        )
    ),
    "same-id.xes": log(trace("1", event("a")), trace("2", event("b")), trace("1", event("c"))),
    "no-id.xes": log("<trace>\n", event("a"), "</trace>\n", trace("2", event("b"))),
    "stray-events.xes": log(event("x"), TWO, event("y")),
    "no-activity.xes": log(
        trace("1", event("a"), f"<event>\n{T.format(1)}\n</event>\n", "<event/>")
    ),
    "no-time.xes": log(
        trace(
            "1",
            event("a", 1),
            '<event>\n<string key="concept:name" value="b"/>\n</event>\n',
            event("c", 0),
        )
    ),
    "unordered.xes": log(trace("1", event("c", 2), event("a", 1), event("d", 2), event("b", 1))),
    "case-called-na.xes": log(trace("NA", event("NA")), trace("null", event(""))),
    "several-types.xes": log(
        trace(
            "1",
            event("a", 0, '<int key="x" value="1"/>\n<int key="n" value="1"/>\n'),
            event("b", 1, '<string key="x" value="y"/>\n<float key="n" value="1.5"/>\n'),
        )
    ),
    "all-types.xes": log(
        trace(
            "1",
            event(
                "a",
                0,
                '<int key="i" value="-7"/>\n'
                '<float key="f" value="1.5e3"/>\n'
                '<boolean key="b" value="True"/>\n'
                '<boolean key="c" value="0"/>\n'
                '<date key="d" value="2024-01-01T00:00:00Z"/>\n'
                '<id key="u" value="9d3c"/>\n'
                '<float key="g" value=" INF "/>\n',
            ),
            more='<int key="age" value="5"/>\n',
        )
    ),
    "empty-log.xes": HEAD + "</log>",
    "empty-traces.xes": log("<trace/>\n", trace("2"), trace("3", event("a"))),
    "globals.xes": log(
        trace("1", f"<event>\n{T.format(1)}\n</event>\n"),
        head=HEAD
        + '<global scope="event"><string key="concept:name" value="DEFAULT"/></global>\n'
        + '<classifier name="A" keys="concept:name"/>\n',
    ),
    "case-attribute-on-event.xes": log(
        trace("1", event("a", 0, '<string key="case:concept:name" value="z"/>\n'))
    ),
    "repeated-key.xes": log(
        trace(
            "1", event("a", 0, '<string key="x" value="first"/>\n<string key="x" value="last"/>\n')
        )
    ),
    "case-attribute-after-events.xes": log(
        "<trace>\n", event("a"), '<string key="concept:name" value="1"/>\n</trace>\n'
    ),
    "log-attributes.xes": log(
        TWO,
        head=HEAD
        + '<string key="meta" value="x"><int key="a" value="no number"/></string>\n'
        + '<string key="concept:name" value="secret"/>\n',
    ),
    "multi-byte-at-4096.xes": log(
        TWO,
        trace("3", event("é" * 40, 2)),
        head=HEAD
        + " " * (4095 - len((HEAD + TWO + trace("3", event("", 2))).encode()) + 66)
        + "\n",
    ),
    "renamed.log": log(TWO),
    "packed-without-suffix.xes": gzip.compress(log(TWO).encode(), mtime=0),
    "two-members.xes.gz": gzip.compress(log(TWO)[:200].encode(), mtime=0)
    + gzip.compress(log(TWO)[200:].encode(), mtime=0),
    "comma.csv": (
        "case:concept:name,concept:name,time:timestamp,case:age,cost,ok,code\n"
        "1,a,2024-03-01T10:00:00+00:00,44,1.5,true,007\n"
        '1,"b ""x"", y",2024-03-01 10:01:00,,2,False,8\n'
        "2,a,2024-03-01T10:00:00Z,50,,TRUE,9\n"
    ),
    "semicolon.csv": "Case ID;Activity;Complete Timestamp;x\r\n1;a, b;2024/03/01 10:00:00.5;y\r\n",
    "tab.csv": "case\tevent\ttimestamp\nNA\tNA\t2024-03-01\n",
    "byte-order-mark.csv": (
        b"\xef\xbb\xbfcase_id,activity,timestamp\n1,\xc3\xa9,2024-03-01T10:00:00\n"
    ),
    "line-break-in-field.csv": 'case_id,activity,timestamp\n1,"a\nb",2024-03-01T10:00:00\n',
    "no-case-rows.csv": "case_id,activity,timestamp\n1,a,2024-03-01\n,b,2024-03-01\n\n2,,\n",
    "header-only.csv": "case_id,activity,timestamp\n",
    "unnamed-column.csv": ",case_id,activity,timestamp\n0,1,a,2024-03-01\n",
    "case-columns.csv": (
        "case_id,activity,timestamp,CASE_age\n"
        "1,a,2024-03-01T10:00:00Z,\n"
        "1,b,2024-03-02T10:00:00Z,7\n"
    ),
    "quoted-empty.csv": (
        '"case_id","activity","timestamp","n"\n"1","a","2024-03-01","1"\n"1","b","",""\n'
    ),
    "long-numbers.csv": (
        "case_id,activity,timestamp,id,nan\n1,a,2024-03-01,12345678901234567890,NaN\n"
    ),
    "no-last-line-break.csv": "case_id,activity,timestamp\n1,a,2024-03-01",
}

PARQUET = b"PAR1" + b"\0" * 40
BROKEN: dict[str, str | bytes] = {
    "empty.xes": b"",
    "empty.csv": b"",
    "empty.parquet": b"",
    "blank.csv": b"\n \n",
    "empty.xes.gz": gzip.compress(b"", mtime=0),
    "doctype.xes": log(TWO).replace("<log", '<!DOCTYPE log SYSTEM "log.dtd">\n<log'),
    "billion-laughs.xes": log(trace("1", event("&c;"))).replace(
        "<log",
        '<!DOCTYPE log [\n<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">\n]>\n<log',
    ),
    "external-entity.xes": log(trace("1", event("a"))).replace(
        "<log", '<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/hostname">]>\n<log'
    ),
    "undefined-entity.xes": log(trace("1", event("&nbsp;"))),
    "cut-off.xes": log(TWO)[:400],
    "cut-off-in-value.xes": log(TWO)[: log(TWO).index("10:01")],
    "cut-off-before-end.xes": log(TWO).replace("</log>", ""),
    "cut-off.xes.gz": gzip.compress(log(TWO).encode(), mtime=0)[:120],
    "damaged.xes.gz": gzip.compress(log(TWO).encode(), mtime=0)[:60] + b"\xff" * 60 + b"\0" * 8,
    "wrong-sum.xes.gz": gzip.compress(log(TWO).encode(), mtime=0)[:-8]
    + b"\1\2\3\4"
    + gzip.compress(log(TWO).encode(), mtime=0)[-4:],
    "not-gzip.xes.gz": b"PK\x03\x04 a zip archive, by mistake",
    "wrong-root.xes": '<?xml version="1.0"?>\n<html><body/></html>\n',
    "pnml.xes": '<?xml version="1.0"?>\n\n<pnml><net id="n"/></pnml>\n',
    "two-roots.xes": log(TWO) + log(TWO, head="<log>\n"),
    "text.xes": "case_id,activity,timestamp\n1,a,2024-03-01\n",
    "not-utf-8.xes": log(trace("1", event("é"))).encode("latin-1"),
    "unknown-encoding.xes": log(TWO).replace("UTF-8", "klingon"),
    "wrong-encoding.xes": log(TWO).replace("UTF-8", "UTF-16"),
    "bad-date.xes": log(TWO).replace("2024-03-01T10:01", "yesterday"),
    "impossible-date.xes": log(TWO).replace("2024-03-01T10:01", "2024-02-30T10:01"),
    "bad-int.xes": log(trace("1", event("a", 0, '<int key="cost" value="1,5"/>\n'))),
    "huge-int.xes": log(
        trace("1", event("a", 0, '<int key="cost" value="9223372036854775808"/>\n'))
    ),
    "bad-float.xes": log(trace("1", event("a", 0, '<float key="cost" value="12 euro"/>\n'))),
    "bad-boolean.xes": log(trace("1", event("a", 0, '<boolean key="ok" value="maybe"/>\n'))),
    "no-key.xes": log(trace("1", event("a", 0, '<string value="x"/>\n'))),
    "no-value.xes": log(trace("1", event("a", 0, '<string key="x"/>\n'))),
    "empty-key.xes": log(trace("1", event("a", 0, '<string key="" value="x"/>\n'))),
    "control-character.xes": log(trace("1", event("a\x01"))),
    "less-than-in-value.xes": log(trace("1", event("a < b"))),
    "crossed-tags.xes": log(TWO).replace(
        "</event>\n</trace>\n</log>", "</trace>\n</event>\n</log>"
    ),
    "repeated-value.xes": log(TWO).replace('value="b"', 'value="b" value="c"'),
    "unbound-prefix.xes": log(TWO).replace(
        '<string key="concept:name" value="b"/>', '<xes:string key="concept:name" value="b"/>'
    ),
    "no-activity.csv": "case_id,label,timestamp\n1,a,2024-03-01\n",
    "misspelt.csv": "case_id,activty,timestamp\n1,a,2024-03-01\n",
    "no-header.csv": "1,a,2024-03-01T10:00:00\n1,b,2024-03-01T11:00:00\n",
    "repeated-column.csv": "case_id,activity,timestamp,x,x\n1,a,2024-03-01,1,2\n",
    "two-case-columns.csv": "case_id,activity,timestamp,case:age,CASE_age\n1,a,2024-03-01,1,2\n",
    "too-many-fields.csv": "case_id,activity,timestamp\n1,a,2024-03-01\n1,b,2024-03-01,oops\n",
    "too-few-fields.csv": "case_id,activity,timestamp\n1,a,2024-03-01\n1,b\n",
    "open-quote.csv": (
        'case_id,activity,timestamp\n1,a,2024-03-01\n1,"b,2024-03-01\n2,c,2024-03-01\n'
    ),
    "text-after-quote.csv": 'case_id,activity,timestamp\n1,"a"b,2024-03-01\n',
    "not-utf-8.csv": "case_id,activity,timestamp\n1,a,2024-03-01\n1,é,2024-03-01\n".encode(
        "latin-1"
    ),
    "utf-16.csv": "case_id,activity,timestamp\n1,a,2024-03-01\n".encode("utf-16"),
    "bad-time.csv": 'case_id,activity,timestamp\n1,"a\nb",2024-03-01\n1,b,01.03.2024 10:00\n',
    "cut-off.csv.gz": gzip.compress(
        b"case_id,activity,timestamp\n" + b"1,a,2024-03-01\n" * 50, mtime=0
    )[:-12],
    "damaged.parquet": PARQUET,
    "text.parquet": "case_id,activity,timestamp\n1,a,2024-03-01\n",
    "log.docx": b"PK\x03\x04 some other thing",
    "notes.txt": "Dear reader,\n",
}


def parquet_files() -> dict[str, bytes]:
    """The Parquet files, which polars writes: their bytes may differ between its versions."""
    import polars as pl

    frame = pl.DataFrame(
        {"case_id": ["1", "1"], "activity": ["a", "b"], "timestamp": [1, 2], "cost": [1.5, None]}
    )
    timed = frame.with_columns(pl.col("timestamp").cast(pl.Datetime("ms")))
    tables = {
        "edge/zoneless.parquet": timed.with_columns(
            pl.Series("tags", [["x"], []]), pl.col("activity").cast(pl.Categorical)
        ),
        "broken/no-activity.parquet": frame.drop("activity"),
        "broken/number-as-time.parquet": frame,
    }
    written = {}
    for name, table in tables.items():
        table.write_parquet(out := io.BytesIO())
        written[name] = out.getvalue()
    return written


def main() -> None:
    for folder, files in (("edge", EDGE), ("broken", BROKEN)):
        for name, content in files.items():
            (HERE / folder / name).write_bytes(
                content.encode() if isinstance(content, str) else content
            )
    for name, content in parquet_files().items():
        (HERE / name).write_bytes(content)


if __name__ == "__main__":
    main()
