"""Rows of a log as Spark reads them: Parquet, tables by name and DataFrames, each row with a number
that says where it stands, whatever partitions there are.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import CASE_ID
from cloakwork.base.text import shown
from cloakwork.log.formats.column_names import MEANING, ColumnNames, column_names
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.limits import raising
from cloakwork_extras.spark.spark_tasks import in_one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TABLE_PREFIX: Final = "spark:"
"""In front of a table's name where a log is named by text."""

_OURS: Final = "cloakwork:"
ROW: Final = f"{_OURS}row"
PLACE: Final = f"{_OURS}place"
_FILE: Final = f"{_OURS}file"
_FIRST: Final = f"{_OURS}first"
_SALT: Final = f"{_OURS}salt"

_TABLE_FORMATS: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}
"""Folders that say that a folder of Parquet files is a table, of which some files are no part."""

_UNSIGNED: Final = "decimal(20,0)"
"""What Spark makes of a Parquet column of UINT_64."""

_EXACT_DIGITS: Final = 15  # what a floating-point number keeps of a decimal one

_POLARS_TYPES: Final[dict[str, Any]] = {
    "string": pl.String,
    "boolean": pl.Boolean,
    "tinyint": pl.Int64,
    "smallint": pl.Int64,
    "int": pl.Int64,
    "bigint": pl.Int64,
    "float": pl.Float64,
    "double": pl.Float64,
    "date": pl.Date,
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
    "void": pl.Null,
}


@frozen
class SparkSource:
    """A log that Spark reads, as ``request`` says. ``location``: a path, ``spark:TABLE`` or a
    DataFrame. ``row``: the column that numbers its rows; None: the rows of files have an order.
    """

    location: "str | Path | DataFrame"
    request: ReadRequest
    row: str | None = None

    @property
    def label(self) -> str:
        """What messages call it."""
        return label_of(self.location)

    @property
    def has_files(self) -> bool:
        """Whether it is files, so that a row stands in one of them."""
        is_named = isinstance(self.location, str | Path)
        return is_named and not str(self.location).startswith(TABLE_PREFIX)


@frozen
class SparkRows:
    """The columns of a log that are read, and ``ROW`` (int64): where a row stands among all.

    ``count``: how many rows have a case id; ``left_out``: how many have none. ``as_text``: decimals
    with more digits somewhere than a floating-point number keeps. ``notes``: what was done about
    irregularities.
    """

    frame: "DataFrame"
    names: ColumnNames
    count: int
    left_out: int
    as_text: frozenset[str]
    notes: tuple[str, ...]

    def by_place(self, places: int, salt: bytes) -> "DataFrame":
        """The rows with ``PLACE``: each case in one place, each place in one partition of Spark,
        sorted by place and row. ``salt``: keeps who writes case ids from saying which place.

        It is a value of a table and no literal, so that no plan, which Spark shows and logs, holds
        it.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        case_id = quoted(case_id_column(self.names))
        salts = self.frame.sparkSession.createDataFrame([(salt.hex(),)], f"`{_SALT}` string")
        # A digest with a salt: places are even, whatever ids a hostile log has.
        digest = F.sha2(F.concat(quoted(_SALT), F.col(case_id).cast("string")), 256)
        place = F.pmod(F.xxhash64(digest), F.lit(places)).cast("long")
        placed = self.frame.crossJoin(F.broadcast(salts)).withColumn(PLACE, place).drop(_SALT)
        parted = placed.repartition(places, quoted(PLACE))
        return parted.sortWithinPartitions(quoted(PLACE), quoted(ROW))

    def no_rows(self) -> pl.DataFrame:
        """A table of no rows with their columns."""
        types = {name: _polars_type(kind) for name, kind in self.frame.dtypes}
        return pl.DataFrame(schema={name: kind or pl.String for name, kind in types.items()})


def label_of(location: "str | Path | DataFrame") -> str:
    """What messages call a log that Spark reads."""
    return str(location) if isinstance(location, str | Path) else "DataFrame"


def quoted(name: str) -> str:
    """A column's name such that Spark takes it for nothing else."""
    return "`" + name.replace("`", "``") + "`"


def case_id_column(names: ColumnNames) -> str:
    """What the table calls the case id."""
    return next(name for name, full in names.kept.items() if full == CASE_ID)


def rows_of(session: "SparkSession", source: SparkSource) -> SparkRows:
    """The rows of ``source``. LogError where it cannot be read, lacks a column, or has rows in no
    order: that of events is part of the control flow.
    """
    label = source.label
    with in_one_line(f"reading {label}"):
        given = _table(session, source)
        header = [name for name in given.columns if name.strip()]
    # Names first, as what follows tells columns by them; then how many there are.
    _require_distinct(label, header)
    limits = source.request.bounds
    if len(header) > limits.attributes:
        said = f"the table has {len(header):,} columns, the limit is {limits.attributes:,}"
        raise LogError(label, said, hint=raising("attributes", len(header)))
    order = _order_column(source, header)
    others = [name for name in header if name != source.row]
    names = column_names(Path(label), others, source.request)
    names, notes = _simple_columns(label, given, names)
    kept = [*names.kept]
    if source.has_files:
        _require_signed(label, given, kept)
    if order is None:
        numbered, figures = _numbered_by_file(label, given, kept, names)
    else:
        numbered, figures = _numbered_by_column(label, given, kept, names, order)
    case_id = case_id_column(names)
    count, left_out = figures.counts()
    return SparkRows(
        numbered.filter(f"{quoted(case_id)} is not null"),
        names,
        count,
        left_out,
        figures.long_decimals(),
        (*names.notes, *notes),
    )


def _table(session: "SparkSession", source: SparkSource) -> "DataFrame":
    if not isinstance(source.location, str | Path):
        return source.location
    location = str(source.location)
    if location.startswith(TABLE_PREFIX):
        return session.table(location.removeprefix(TABLE_PREFIX))
    # By name alone, before Spark is asked for it.
    require_no_other_file(location)
    for folder, kind in _TABLE_FORMATS.items():
        if _is_there(session, location, folder):
            name = f"{TABLE_PREFIX}{kind.lower()}.`{location}`"
            raise LogError(
                location,
                f"this is a {kind} table, whose folder also holds files that are no part of it",
                hint=f"name it {name} (quoted), with the column of its row numbers",
            )
    return session.read.parquet(location)


def require_no_other_file(location: str) -> None:
    """Refuse a file that its name says is neither Parquet nor a table, without Spark."""
    ending = location.rstrip("/").rpartition("/")[2].rpartition(".")[2].lower()
    if ending in ("csv", "gz", "xes", "xlsx", "json", "sqlite"):
        raise LogError(
            location,
            f"the engine spark reads Parquet and tables, not {ending}",
            hint="use --engine local, or 'cloakwork convert LOG OUT' first",
        )


def _is_there(session: "SparkSession", folder: str, name: str) -> bool:
    """Whether a folder, here or at an address that Spark reads, has an entry of this name."""
    from pyspark.errors import AnalysisException

    if Path(folder).is_dir():
        return (Path(folder) / name).exists()
    path = f"{folder.rstrip('/')}/{name}"
    try:
        session.read.format("binaryFile").load(path).schema  # noqa: B018 - Spark looks only now
    except AnalysisException:
        return False
    return True


def _require_distinct(label: str, header: Sequence[str]) -> None:
    """Refuse a table in which two columns have one name for Spark, or a name that none may have."""
    # Spark tells names apart without regard to case.
    seen: set[str] = set()
    for name in header:
        if name.lower() in seen:
            raise LogError(label, f"two columns are called '{shown(name)}'", hint="rename one")
        if name.lower().startswith(_OURS):
            raise LogError(label, f"column '{shown(name)}' has a name of ours", hint="rename it")
        seen.add(name.lower())


def _order_column(source: SparkSource, header: Sequence[str]) -> str | None:
    if source.row is not None and source.row not in header:
        raise LogError(
            source.label,
            f"there is no column '{shown(source.row)}' that numbers the rows",
            hint="correct --column row=COLUMN",
        )
    if source.row is None and not source.has_files:
        raise LogError(
            source.label,
            "its rows have no order, which is part of the control flow where times are equal",
            hint="name the column that numbers them: --column row=COLUMN "
            "(in Python: columns={'row': 'COLUMN'})",
        )
    return source.row


def _simple_columns(
    label: str, given: "DataFrame", names: ColumnNames
) -> tuple[ColumnNames, tuple[str, ...]]:
    """The columns that are read and have a type that a log has, and notes on the others."""
    kept, notes = {}, []
    types = dict(given.dtypes)
    for name, full in names.kept.items():
        if _polars_type(types[name]) is not None:
            kept[name] = full
        elif full in MEANING:
            said = f"the column for the {MEANING[full]} holds {types[name]}"
            raise LogError(label, said, hint="convert it to text, or name another column")
        else:
            notes.append(f"column '{shown(full)}' holds {types[name]}, left out")
    return replace(names, kept=kept), tuple(notes)


def _require_signed(label: str, given: "DataFrame", kept: Sequence[str]) -> None:
    """Refuse what a file may hold as whole numbers or as decimals, which are of different types in
    a log: Spark shows both alike.
    """
    types = dict(given.dtypes)
    for name in kept:
        if types[name] == _UNSIGNED:
            raise LogError(
                label,
                f"column '{shown(name)}' holds whole numbers of 64 bits without a sign or decimals "
                "of 20 digits, and Spark does not say which",
                hint="store it with a sign or fewer digits, or use --engine local",
            )


def _polars_type(kind: str) -> Any:
    """What Spark's type of this name is in polars; None for one that no log has."""
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pl.Decimal(int(precision), int(scale))
    return _POLARS_TYPES.get(kind.partition("(")[0].replace("varchar", "string"))


@frozen
class _Figures:
    """Of a table, or of each of its files, one row: what an aggregate of Spark found."""

    rows: list[dict[str, Any]]
    decimals: tuple[str, ...]

    def counts(self) -> tuple[int, int]:
        """Rows with a case id, and rows without."""
        held = sum(row["held"] for row in self.rows)
        return held, sum(row["all_rows"] for row in self.rows) - held

    def long_decimals(self) -> frozenset[str]:
        """Decimals with more digits somewhere than a floating-point number keeps."""
        return frozenset(
            name
            for place, name in enumerate(self.decimals)
            if max((row[f"digits{place}"] or 0 for row in self.rows), default=0) > _EXACT_DIGITS
        )


def _aggregates(
    given: "DataFrame", kept: Sequence[str], names: ColumnNames
) -> tuple[list["Column"], tuple[str, ...]]:
    from pyspark.sql import functions as F  # noqa: N812

    case_id = case_id_column(names)
    types = dict(given.dtypes)
    decimals = tuple(name for name in kept if types[name].startswith("decimal("))
    found = [F.count(F.lit(1)).alias("all_rows"), F.count(quoted(case_id)).alias("held")]
    for place, name in enumerate(decimals):
        # Digits of the text, without sign and point.
        digits = F.regexp_replace(F.col(quoted(name)).cast("string"), "[^0-9]", "")
        found.append(F.max(F.length(digits)).alias(f"digits{place}"))
    return found, decimals


def _numbered_by_file(
    label: str, given: "DataFrame", kept: Sequence[str], names: ColumnNames
) -> tuple["DataFrame", _Figures]:
    """The rows, numbered over all files, these ordered by name."""
    from pyspark.sql import functions as F  # noqa: N812

    found, decimals = _aggregates(given, kept, names)
    # Spark's own numbers: the file of a row, and where it stands in it.
    path, row = F.col("_metadata.file_path"), F.col("_metadata.row_index")
    with in_one_line(f"reading {label}"):
        by_file = given.groupBy(path.alias("path")).agg(*found, F.max(row).alias("last")).collect()
    # By the name as people see it: addresses escape some characters.
    files = sorted((each.asDict() for each in by_file), key=lambda file: unquote(file["path"]))
    firsts, first = [], 0
    # Each file begins behind the last row of those before.
    for file in files:
        firsts.append((file["path"], first))
        first += file["last"] + 1
    columns = [quoted(name) for name in kept]
    rows = given.select(*columns, path.alias(_FILE), row.alias(ROW))
    session = given.sparkSession
    starts = session.createDataFrame(firsts, f"`{_FILE}` string, `{_FIRST}` long")
    numbered = rows.join(F.broadcast(starts), _FILE)
    number = F.col(quoted(ROW)) + F.col(quoted(_FIRST))
    return numbered.select(*columns, number.alias(ROW)), _Figures(files, decimals)


def _numbered_by_column(
    label: str, given: "DataFrame", kept: Sequence[str], names: ColumnNames, order: str
) -> tuple["DataFrame", _Figures]:
    from pyspark.sql import functions as F  # noqa: N812

    kind = dict(given.dtypes)[order]
    if kind not in ("tinyint", "smallint", "int", "bigint"):
        raise LogError(
            label,
            f"column '{shown(order)}', which numbers the rows, holds {kind}",
            hint="name a column of whole numbers",
        )
    found, decimals = _aggregates(given, kept, names)
    row = F.col(quoted(order))
    numbers = (F.count(row).alias("numbered"), F.min(row).alias("least"))
    with in_one_line(f"reading {label}"):
        figures = given.agg(*found, *numbers).collect()[0].asDict()
    # Not every row has a number, or some are negative: the order would be a guess.
    if figures["numbered"] < figures["all_rows"] or (figures["least"] or 0) < 0:
        raise LogError(
            label,
            f"column '{shown(order)}' does not number every row from 0 or more",
            hint="give each row a number of its own",
        )
    columns = [quoted(name) for name in kept]
    return given.select(*columns, row.cast("long").alias(ROW)), _Figures([figures], decimals)
