"""The least that anybody pays: a streaming group-by of polars over the whole file.

    python benchmarks/scale/group_by.py LOG

For each case its events and its first and last time; of these, how many cases have so many events.
"""

import sys
from pathlib import Path

import polars as pl

CASE, TIME = "case:concept:name", "time:timestamp"


def main(path: Path) -> None:
    """Print how many cases and events there are."""
    if path.name.endswith(".csv.gz"):
        rows = pl.scan_csv(path, try_parse_dates=True)
    else:
        rows = pl.scan_parquet(path / "*.parquet" if path.is_dir() else path)
    cases = rows.group_by(CASE).agg(
        pl.len().alias("events"),
        pl.col(TIME).min().alias("first"),
        pl.col(TIME).max().alias("last"),
    )
    lengths = cases.group_by("events").agg(pl.len().alias("cases"))
    found = lengths.collect(engine="streaming")
    print(found["cases"].sum(), (found["cases"] * found["events"]).sum())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
