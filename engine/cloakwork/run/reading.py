"""Reading a log as its policy says, and which engine it is worked on by."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

from cloakwork.base.errors import CloakworkError, LogError, PlanMoved
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import START
from cloakwork.base.progress import Reporter
from cloakwork.engines.base import Engine
from cloakwork.engines.executors import InThisProcess, Processes
from cloakwork.engines.memory import MemoryEngine
from cloakwork.engines.workspace import Workspace
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog, LogHandle
from cloakwork.log.formats.column_names import column_names
from cloakwork.log.formats.csv import csv_tables
from cloakwork.log.formats.csv_records import CsvBlocks
from cloakwork.log.formats.options import LONGEST_NAME, InputOptions
from cloakwork.log.formats.reading import asked_of, given_log, log_of_table, open_rows, read_log
from cloakwork.log.formats.row_source import WHOLE, Keeps, ReadRequest, RowSource
from cloakwork.log.formats.source import LogStream, files_of, is_pattern
from cloakwork.log.limits import OnExcess
from cloakwork.log.pandas_tables import table_of
from cloakwork.plan.model import Plan
from cloakwork.policy.model import LogForm, Policy
from cloakwork.run.prepare import SourceFigures


def read_under(
    policy: Policy,
    log: object,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Keeps | None = None,
    on_excess: OnExcess = "refuse",
    read: Callable[..., Any] = read_log,
) -> Any:
    """``log``, read as ``spec.input`` and the roles of ``policy`` say; ``columns`` go before its
    own. Arguments and errors as of ``read_log``; an EventLog is returned as it is. ``read``: what
    reads a file, such as ``read_sample``.
    """
    source = given_log(log)
    if isinstance(source, EventLog):
        return source
    if not isinstance(source, Path):
        return log_in_memory(policy, source, columns)
    request = request_under(policy, columns=columns, keep=keep, on_excess=on_excess)
    return read(source, request=request)


def request_under(
    policy: Policy,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Keeps | None = None,
    on_excess: OnExcess = "refuse",
) -> ReadRequest:
    """What ``policy`` says of reading; other arguments as of ``read_under``."""
    unit = policy.spec.unit
    of_unit = {unit.attribute} if unit.attribute else set[str]()
    employees = {goal.employees for goal in policy.goals() if goal.employees is not None}
    return ReadRequest(
        options=policy.spec.input,
        columns=columns,
        keep=keep,
        text=of_unit | employees if policy.spec.input is not None else frozenset(),
        varying=of_unit if unit.on_conflict == "split" else frozenset(),
        case_id=policy.attribute_with("case-id") or CASE_ID,
        activity=policy.attribute_with("control-flow") or ACTIVITY,
        timestamp=policy.attribute_with("timestamp") or TIMESTAMP,
        on_excess=on_excess,
    )


read_sample: Final = partial(read_log, sampled=True)
"""Reads a log, and of a large one a random sample of its cases."""


def rows_or_log(source: Path, most: int | None = None, **asked: Any) -> RowSource | EventLog:
    """As ``read_log``; of more than ``most`` events (by default ``IN_MEMORY``) rows to be read."""
    rows = open_rows(source, **asked)
    # Opened, and not yet read: about how many events there are says which engine suits.
    is_large = _expected_events(rows, source) > (IN_MEMORY if most is None else most)
    return rows if is_large else read_log(source, **asked)


def read_in_batches(source: Path, **asked: Any) -> LogHandle:
    """As ``read_log``, a log of more than ``WHOLE`` events in batches on disk."""
    found = rows_or_log(source, WHOLE, **asked)
    if isinstance(found, EventLog):
        return found
    return local_engine().open(found, lambda log: log, None, SourceFigures()).log


def log_in_memory(policy: Policy, table: object, columns: Mapping[str, str] | None) -> EventLog:
    """The log of a table, its columns named as ``read_under`` would; of ``spec.input`` nothing else
    counts there. LogError for what is no table, or lacks a column.
    """
    frame = table_of(table)
    # Which column of the table holds what, by full names.
    options = policy.spec.input or InputOptions()
    try:
        options = options.with_columns(columns=columns)
    except ValueError as error:
        raise LogError("table", f"the mapping of columns {error}") from None
    case_id = policy.attribute_with("case-id")
    if case_id is not None:
        options = options.model_copy(update={"columns": {CASE_ID: case_id, **options.columns}})
    held = frame.columns
    # A role of the policy is a column of that name, too: one column under both names.
    for role, full in (("control-flow", ACTIVITY), ("timestamp", TIMESTAMP)):
        own = policy.attribute_with(role)  # type: ignore[arg-type]  # both are roles
        if own in held and full not in (*held, *options.columns):
            frame = frame.with_columns(frame.get_column(own).alias(full))
    log = log_of_table(frame, options, policy.attribute_with("control-flow"))
    mapped = {column: full for full, column in options.columns.items() if column in held}
    _require_one_value_a_case(policy, log, mapped)
    return log


def _require_one_value_a_case(
    policy: Policy,
    log: EventLog,
    mapped: Mapping[str, str],
) -> None:
    unit = policy.spec.unit
    for column, name in mapped.items():
        is_split = name == unit.attribute and unit.on_conflict == "split"
        if name in log.source.conflicts and not is_split:
            place = log.source.conflicts[name]
            raise LogError(
                "table",
                f"{place}: column '{column}' names two values in one case, and spec.input makes it "
                f"'{name}', an attribute of cases",
                hint="correct the table, or leave the column to the events",
            )


@frozen
class OpenedLog:
    """A log, what to call it, and what came with it, if it is a release: its plan, and its id.

    ``log``: an ``EventLog``, or what another way of reading gives.
    """

    log: Any
    name: str
    plan: Plan | None = None
    release: str | None = None


class AttributesLeft:
    """Which attributes of a log are read, and, once it was, a note of which are not, for inside.

    A reader may ask about a name both as a case's and as an event's attribute, so names are noted
    without the prefix. ``starts``: the attribute that is read as service times.
    """

    def __init__(self, needs: Keeps, starts: str | None = None) -> None:
        self._needs, self._starts = needs, starts
        self._read = set[str]()
        self._left = set[str]()

    def __call__(self, attribute: str) -> bool:
        """Whether an attribute is read."""
        needs = self._needs(attribute)
        (self._read if needs else self._left).add(attribute.removeprefix(CASE_PREFIX))
        return needs

    def notes(self) -> Iterator[str]:
        """One note, where a file was read."""
        if self._read or self._left:
            names = sorted(self._left - self._read - {ACTIVITY, TIMESTAMP, self._starts})
            yield f"attributes that were not read: {', '.join(names) or 'none'}"
            if START in names:
                yield f"when work began was not read: under spec.input say starts: {START}"


ENGINES: Final = ("memory", "local", "spark")
ALIASES: Final = {"polars": "memory"}

ENGINE_ENTRIES: Final = "cloakwork.engines"
"""The group under which a package registers an engine."""

IN_MEMORY: Final = 5_000_000
"""Events up to which a log is worked on in memory where nobody says otherwise: about 1 GB."""

SMALL_FILE: Final = 20_000_000
"""Bytes of a file, packed or not, that are fewer events than ``IN_MEMORY``."""

PROCESSES: Final = "CLOAKWORK_PROCESSES"
"""The environment's name for how many processes work on batches."""


@frozen
class Choice:
    """An engine, and what it opens. ``because``: why it was chosen, where nobody named it."""

    engine: Engine
    source: object
    because: str | None = None


def choice_for(
    engine: str | Engine | None,
    log: object,
    plan: Plan,
    columns: dict[str, str] | None,
    keep: Keeps,
    reporter: Reporter,
) -> Choice:
    """The engine, and what it opens of a log in memory, at a path or in a table; LogError for what
    is none of these. ``engine``: a name, or an engine of Spark.
    """
    policy = plan.policy
    request = request_under(policy, columns=columns, keep=keep, on_excess=on_excess_under(plan))
    # Told by its module: pyspark is not loaded to find out.
    if not isinstance(engine, str | None) or type(log).__module__.startswith("pyspark."):
        return Choice(*registered_engine("spark").opened(engine, log, policy, request))
    named = engine_name(engine)
    if named != "spark":
        log = given_log(log)
    if isinstance(log, str | Path):
        reporter(f"reading {log}")
        chosen = _choice_of_file(named, log, plan, request)
        # What was made of an object-centric log.
        options = policy.spec.input
        if options is not None and options.object_type and isinstance(chosen.source, EventLog):
            for note in chosen.source.notes:
                reporter(f"internal, never publish: {note}")
        return chosen
    log = read_under(policy, log, columns=columns)
    if named in (None, "memory"):
        return Choice(MemoryEngine(), log)
    if named == "local":
        return Choice(local_engine(), log)
    return Choice(*registered_engine(named).opened(named, log, policy, request))


def _choice_of_file(
    named: str | None,
    path: str | Path,
    plan: Plan,
    request: ReadRequest,
) -> Choice:
    """Without a name ``memory``, or ``local`` for a log of more than ``IN_MEMORY`` events."""
    if named not in (None, "memory", "local"):
        return Choice(*registered_engine(named).opened(named, path, plan.policy, request))
    because = None
    if named != "memory":
        # Opened, and not yet read: about how many events there are says which engine suits.
        rows = open_rows(path, request=request)
        events = _expected_events(rows, Path(path)) if named is None else 0
        if events > IN_MEMORY:
            because = f"about {events:,} events: worked on in batches on disk (engine local)"
        if named == "local" or because is not None:
            return Choice(local_engine(), rows, because)
    return Choice(MemoryEngine(), read_log(path, request=request))


def in_form_of(plan: Plan, log: object, columns: Mapping[str, str] | None) -> Plan:
    """The plan, which says how ``log`` is written where its policy's output is ``auto``. Nothing is
    read but how a CSV file calls its columns, and what separates them.

    Raises PlanMoved where the plan was made for a log of another form, LogError for what is none.
    """
    if plan.policy.spec.output.format != "auto":
        return plan
    form = LogForm()
    path = given_log(log) if isinstance(log, str | Path) else None
    # An address that Spark alone can read is no file here.
    if isinstance(path, Path) and (path.exists() or (is_pattern(path) and path.parent.is_dir())):
        form = _form_of(plan, path, columns)
    if plan.form not in (None, form):
        raise PlanMoved("the plan was made for a log of another format, or with other columns")
    return plan.model_copy(update={"form": form})


def _form_of(plan: Plan, path: Path, columns: Mapping[str, str] | None) -> LogForm:
    file = files_of(path)[0]
    form, request = asked_of(path, file, request_under(plan.policy, columns=columns))
    if form not in ("xes", "csv", "parquet"):
        return LogForm()
    options = None
    if form == "csv":
        with LogStream(file, request.bounds) as stream:
            blocks = CsvBlocks(stream, request.written)
            header, _ = csv_tables(blocks)
        kept = column_names(file, header, request).kept
        names = {full: name for name, full in kept.items()}
        # The plan is public: of the columns it names those that are released.
        own = {
            full: name
            for full, name in names.items()
            if full.startswith(CASE_PREFIX) and plan.releases(full)
        }
        own |= {CASE_ID: names[CASE_ID], ACTIVITY: names[request.activity]}
        if TIMESTAMPS in plan.released:
            own[TIMESTAMP] = names[request.timestamp]
        # A name that no policy could hold gives way to that of the attribute.
        own = {full: name for full, name in own.items() if full != name == name[:LONGEST_NAME]}
        options = InputOptions(columns=own, delimiter=blocks.separator)
    packed = ".gz" if form != "parquet" and file.suffix == ".gz" else ""
    return LogForm.model_validate({"format": form + packed, "options": options})


class RegisteredEngine(Protocol):
    """An engine of a package, under the entry-point group ``cloakwork.engines``."""

    def opened(
        self,
        engine: object,
        log: object,
        policy: Policy,
        request: ReadRequest,
    ) -> tuple[Engine, object]:
        """The engine, and what it opens of ``log``: an event log, a path, or what it alone reads.

        ``engine``: its name, None, or an engine that it made before. ``request``: what ``policy``
        and the caller ask of reading.
        """
        ...

    def in_files(self, table: str) -> Workspace:
        """A folder with the rows of a table, in any order, in files of Parquet."""
        ...


def registered_engine(name: str) -> RegisteredEngine:
    """The engine that a package registers as ``name``; CloakworkError where none does."""
    for entry in entry_points(group=ENGINE_ENTRIES, name=name):
        found: RegisteredEngine = entry.load()()
        return found
    raise CloakworkError(
        f"the engine '{name}' is not installed: no package registers it under {ENGINE_ENTRIES}"
    )


def _expected_events(rows: RowSource, path: Path) -> int:
    """About how many events a log has; 0 for a file that is small whatever it holds."""
    found = rows.expected_rows()
    if found or sum(file.stat().st_size for file in files_of(path)) < SMALL_FILE:
        return found
    # What a text holds is known from its beginning; reading starts anew afterwards.
    chunks = rows.chunks()
    next(chunks, None)
    return rows.expected_rows()


def on_excess_under(plan: Plan) -> OnExcess:
    """Under a claim that noise pays for, one case's value must not decide whether there is a
    release.
    """
    return "drop" if any(claim.cost is not None for claim in plan.claims) else "refuse"


def engine_name(name: str | None) -> str | None:
    """The name of an engine, of which it may be another; CloakworkError for one that is none."""
    named = ALIASES.get(name, name) if name is not None else None
    if named is not None and named not in ENGINES:
        raise CloakworkError(f"there is no engine '{name}'; there are {', '.join(ENGINES)}")
    return named


def local_engine() -> Engine:
    """The engine ``local``, with as many processes as ``CLOAKWORK_PROCESSES`` says; one by
    default.
    """
    from cloakwork.engines.batched import LocalEngine

    text = os.environ.get(PROCESSES, "1")
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise CloakworkError(f"{PROCESSES}: must be a number from 1 to 256 (got {text!a})")
    count = int(text)
    return LocalEngine(executor=InThisProcess() if count == 1 else Processes(count))
