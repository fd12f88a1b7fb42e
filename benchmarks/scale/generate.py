"""A log of any size, made from a small one: fresh cases, more variants as it grows, little memory.

    python benchmarks/scale/generate.py OUT EVENTS [--seed-log LOG] [--files 4] [--mutate 0.0005]
                                        [--people 0] [--attributes] [--amounts 0]
                                        [--copies 1] [--seed 1]

OUT ends in ``.parquet``, ``.csv.gz`` or ``.xes.gz``; or it is a folder, which gets ``--files``
Parquet files. Each case is one of the seed log's under a fresh id, later by as much as the log has
grown and with each step longer or shorter; each event takes another activity with probability
``--mutate``. With ``--copies N`` each case has a number below N, which its activities carry, so
that there are N times as many activities; ``--amounts N`` gives each event N numbers. Cases overlap
in time, and rows of tables are in order of time, so that those of a case lie apart; XES holds whole
cases. Written is as much as was asked for, cases being whole: some events more.
"""

import argparse
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.log.formats import read_log

ROOT = Path(__file__).resolve().parents[2]
SEED_LOG = ROOT / "examples" / "logs" / "hospital.xes.gz"
PERSON = "case:person"
CASES_AT_ONCE = 20_000
ROW_GROUP = 200_000
STAGGERED = 2_000
"""So many cases start in the time that half of the cases take."""
RESOURCES = 500


@dataclass(frozen=True)
class SeedCases:
    """The cases of the seed log: activities as codes, and microseconds since each case's start."""

    alphabet: list[str]
    codes: np.ndarray
    since_start: np.ndarray
    offsets: np.ndarray
    first: int
    typical: int

    @classmethod
    def of(cls, path: Path) -> "SeedCases":
        """Read it."""
        log = read_log(path)
        labels = log.events[ACTIVITY].fill_null("")
        alphabet = labels.unique().sort().to_list()
        codes = labels.cast(pl.Enum(alphabet)).to_physical().to_numpy().astype(np.int64)
        times = log.events[TIMESTAMP].forward_fill().backward_fill()
        clock = times.cast(pl.Int64).to_numpy()
        kept = np.flatnonzero(np.diff(log.offsets) > 0)
        starts = clock[log.offsets[kept]]
        ends = clock[log.offsets[kept + 1] - 1]
        since_start = clock - np.repeat(
            clock[np.minimum(log.offsets[:-1], len(clock) - 1)], np.diff(log.offsets)
        )
        typical = int(np.median(ends - starts))
        offsets = np.append(log.offsets[kept], log.offsets[-1])
        return cls(
            alphabet, codes, since_start, offsets, int(starts.min()), max(typical, 1_000_000)
        )


def alphabet_of(activities: list[str], copies: int) -> list[str]:
    """The activities, and as many again under another number for each further copy."""
    numbered = [f"{activity} {copy}" for copy in range(1, copies) for activity in activities]
    return activities + numbered


def case_batches(seed: SeedCases, asked: argparse.Namespace) -> Iterator[pl.DataFrame]:
    """Tables of whole cases by their starts, one row an event, until there are enough."""
    draws = np.random.default_rng(asked.seed)
    lengths = np.diff(seed.offsets)
    people = max(1, round(asked.events / lengths.mean() / asked.people)) if asked.people else 0
    labels = pl.Series(alphabet_of(seed.alphabet, asked.copies))
    cases, events, now = 0, 0, float(seed.first)
    while events < asked.events:
        chosen = draws.integers(0, len(lengths), CASES_AT_ONCE)
        enough = np.searchsorted(events + np.cumsum(lengths[chosen]), asked.events) + 1
        chosen = chosen[:enough]
        per_case = lengths[chosen]
        first_rows = np.concatenate([[0], np.cumsum(per_case)[:-1]])
        rows = np.arange(per_case.sum()) + np.repeat(seed.offsets[chosen] - first_rows, per_case)
        codes = seed.codes[rows]
        changed = draws.random(len(rows)) < asked.mutate
        codes[changed] = draws.integers(0, len(seed.alphabet), int(changed.sum()))
        starts = now + np.cumsum(draws.exponential(seed.typical / STAGGERED, len(chosen)))
        now = float(starts[-1])
        if asked.copies > 1:
            copy_of_case = draws.integers(0, asked.copies, len(chosen))
            codes += np.repeat(copy_of_case, per_case) * len(seed.alphabet)
        slower = np.repeat(np.exp(draws.normal(0, 0.3, len(chosen))), per_case)
        times = np.repeat(starts, per_case) + slower * seed.since_start[rows]
        of_case = np.repeat(np.arange(len(chosen)), per_case)
        columns = {
            CASE_ID: pl.Series(np.arange(cases, cases + len(chosen)))
            .cast(pl.String)
            .str.zfill(9)[of_case],
            ACTIVITY: labels[codes],
            TIMESTAMP: pl.Series(times.astype(np.int64))
            .cast(pl.Datetime("us", "UTC"))
            .dt.truncate("1ms"),
        }
        if people:
            persons = pl.Series(draws.integers(0, people, len(chosen)))
            columns[PERSON] = ("person " + persons.cast(pl.String))[of_case]
        if asked.attributes:
            columns["org:resource"] = "staff " + pl.Series(
                draws.integers(0, RESOURCES, len(rows))
            ).cast(pl.String)
            columns["amount"] = pl.Series(np.round(draws.exponential(100, len(rows)), 2))
        for number in range(asked.amounts):
            amounts = np.round(draws.exponential(100, len(rows)), 2)
            columns[f"amount {number}"] = pl.Series(amounts)
        cases, events = cases + len(chosen), events + len(rows)
        yield pl.DataFrame(columns)


def by_time(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows in the order of time; held back is what later cases may come before."""
    waiting: pl.DataFrame | None = None
    for batch in batches:
        held = batch if waiting is None else pl.concat([waiting, batch])
        # The last case to start is the last of the batch, and later batches start later.
        until = batch[TIMESTAMP][int(batch[CASE_ID].search_sorted(batch[CASE_ID][-1]))]
        ready = held[TIMESTAMP] <= until
        yield held.filter(ready).sort(TIMESTAMP, maintain_order=True)
        waiting = held.filter(~ready)
    if waiting is not None:
        yield waiting.sort(TIMESTAMP, maintain_order=True)


def write_parquet(batches: Iterator[pl.DataFrame], asked: argparse.Namespace) -> None:
    """One file; or as many as were asked for, of about as many rows."""
    single = asked.out.suffix == ".parquet"
    if not single:
        asked.out.mkdir(parents=True)
    most = asked.events * 2 if single else asked.events / asked.files
    writer, written, number = None, 0, 0
    for batch in batches:
        table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
        if writer is None:
            path = asked.out if single else asked.out / f"part-{number:03}.parquet"
            writer = pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=ROW_GROUP)
        written += table.num_rows
        if written >= most * (number + 1):
            writer.close()
            writer, number = None, number + 1
    if writer is not None:
        writer.close()


def write_csv(batches: Iterator[pl.DataFrame], asked: argparse.Namespace) -> None:
    """One packed table."""
    with gzip.open(asked.out, "wb", compresslevel=1) as out:
        for number, batch in enumerate(batches):
            out.write(
                batch.write_csv(include_header=number == 0, datetime_format="%FT%T%.3fZ").encode()
            )


def write_xes(batches: Iterator[pl.DataFrame], asked: argparse.Namespace) -> None:
    """One packed log, case after case."""
    with gzip.open(asked.out, "wb", compresslevel=1) as out:
        out.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1849-2016">\n')
        for batch in batches:
            out.write("".join(_traces(batch)).encode())
        out.write(b"</log>\n")


def _traces(batch: pl.DataFrame) -> Iterator[str]:
    kinds: dict[Any, str] = {pl.String: "string", pl.Float64: "float"}
    of_events = [name for name in batch.columns if not name.startswith("case:")]
    parts = []
    for name in of_events:
        kind = kinds.get(batch.schema[name], "date")
        text = pl.col(name)
        if kind == "date":
            text = text.dt.strftime("%FT%T%.3f+00:00")
        parts.append(pl.format(f'<{kind} key="{name}" value="{{}}"/>', text))
    event = pl.concat_str(pl.lit("<event>"), *parts, pl.lit("</event>\n"))
    persons = [pl.col(PERSON).first()] if PERSON in batch.columns else []
    traces = batch.group_by(CASE_ID, maintain_order=True).agg(event.str.join(), *persons)
    for case, events, *person in traces.iter_rows():
        yield f'<trace><string key="concept:name" value="{case}"/>'
        yield from (f'<string key="person" value="{each}"/>' for each in person)
        yield f"\n{events}</trace>\n"


def main(arguments: list[str] | None = None) -> None:
    """Write the log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("events", type=int)
    parser.add_argument("--seed-log", type=Path, default=SEED_LOG)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--mutate", type=float, default=0.0005)
    parser.add_argument("--people", type=float, default=0, help="cases of a person, on average")
    parser.add_argument("--attributes", action="store_true")
    parser.add_argument("--amounts", type=int, default=0, help="numbers of each event")
    parser.add_argument("--copies", type=int, default=1, help="of each activity")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    seed = SeedCases.of(asked.seed_log)
    batches = case_batches(seed, asked)
    if asked.out.name.endswith(".xes.gz"):
        write_xes(batches, asked)
    elif asked.out.name.endswith(".csv.gz"):
        write_csv(by_time(batches), asked)
    else:
        write_parquet(by_time(batches), asked)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main()
