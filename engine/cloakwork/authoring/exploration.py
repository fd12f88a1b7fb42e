"""What ``suggest`` sees of a log, for whoever wants to look before a policy is written."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.authoring.attributes import Proposal, classify, figures_of
from cloakwork.authoring.registry import with_questions
from cloakwork.authoring.suggestion import (
    NOTHING_DETECTED,
    Audience,
    Goal,
    PolicyHeader,
    Suggestion,
    Times,
    as_name,
    has_time,
    read_unknown,
    suggest,
    taken_columns,
    taken_in_words,
)
from cloakwork.base.notebook_html import paragraph, shown, table
from cloakwork.base.text import shown as shown_name
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.detect import DetectedInput
from cloakwork.log.formats.options import ROLES, InputOptions
from cloakwork.log.formats.reading import given_log, read_log
from cloakwork.log.variants import variants_of, with_activity

INTERNAL: Final = "Internal: figures of the raw log. Never publish them."

_HEADINGS: Final = ("attribute", "seems to be", "because it", "filled", "values", "alone")


@dataclass(frozen=True, slots=True, repr=False)
class Exploration:
    """What the attributes of a log seem to be, with figures of the raw log: internal.

    ``proposals``: one an attribute, in the log's order; ``cases``, ``events``, ``activities`` and
    ``variants`` count. ``source``: what the log was called. ``detected``: how its file was read.
    """

    log: EventLog = field(repr=False)
    proposals: tuple[Proposal, ...]
    cases: int
    events: int
    activities: int
    variants: int
    source: str = "log"
    detected: DetectedInput = NOTHING_DETECTED

    def __repr__(self) -> str:
        return (
            f"<Exploration of {shown_name(self.source)}: {self.cases:,} cases, {self.events:,} "
            f"events, {self.activities:,} activities, {self.variants:,} activity sequences, "
            f"{len(self.proposals):,} attributes; internal"
            f"{self.log.sample and f', of a random sample of {self.log.sample}'}>"
        )

    @property
    def taken(self) -> dict[str, str]:
        """What the case, the activity and the timestamp were read from."""
        return taken_columns(self.detected, has_times=has_time(self.log))

    def to_polars(self) -> pl.DataFrame:
        """One row an attribute: ``name``, ``nature``, ``role``, ``reason``, and its figures
        (``cloakwork.authoring.attributes.Figures``).
        """
        rows = [
            {"name": each.name, "nature": each.nature, "role": each.role, "reason": each.reason}
            | {key: value for key, value in asdict(each.figures).items() if key != "name"}
            for each in self.proposals
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def suggest(
        self,
        audience: Audience = "share",
        goal: Goal | None = None,
        *,
        name: str = "policy",
        dataset: str | None = None,
        owner: str | None = None,
        purpose: str | None = None,
        times: Times = "drawn",
    ) -> Suggestion:
        """A policy for the log (``.text``), as ``cloakwork policy suggest`` writes it.

        What is not said of ``dataset``, ``owner`` and ``purpose`` is a question in it. ``times``:
        how times are released.
        """
        said = {"dataset": dataset, "owner": owner, "purpose": purpose}
        header = PolicyHeader(as_name(name), **with_questions(said))
        return suggest(
            self.log,
            header,
            audience,
            goal,
            times=times,
            detected=self.detected,
            proposals=self.proposals,
        )

    def _repr_html_(self) -> str:
        counts = (
            f"{self.cases:,} cases, {self.events:,} events, {self.activities:,} activities, "
            f"{self.variants:,} activity sequences"
            f"{'' if has_time(self.log) else ', no times'}."
        )
        rows = [_row(each) for each in self.proposals]
        legend = paragraph(
            "filled: share of the events (of the cases, for an attribute of cases) that have a "
            "value; alone: share of the cases with a value that no other case has."
        )
        taken = taken_in_words(self.detected, has_times=has_time(self.log))
        said = [INTERNAL, f"{taken}.", counts]
        if self.log.sample:
            said.append(f"All of it is of a random sample of {self.log.sample}.")
        blocks = (*map(paragraph, said), table(_HEADINGS, rows), legend)
        return shown(f"What the attributes of {self.source} seem to be", *blocks)


def _row(proposal: Proposal) -> tuple[object, ...]:
    figures = proposal.figures
    return (
        proposal.name,
        f"{proposal.nature} ({proposal.role})",
        proposal.reason,
        f"{figures.filled:.0%}",
        f"{figures.distinct:,}",
        f"{figures.alone:.0%}",
    )


def explore(
    log: object,
    *,
    columns: dict[str, str] | None = None,
    options: InputOptions | None = None,
) -> Exploration:
    """What ``suggest`` sees of ``log``, which is as for ``read_log``.

    ``columns``: standard name to the file's own. ``options``: how a file is read, or a log in
    memory was read, as far as it is known; a policy that is suggested says so.
    Internal: it is computed on the raw log; of a large file, on a random sample of its cases.
    """
    given = given_log(log)
    source = given.name if isinstance(given, Path) else "the log"
    read, detected = _opened(given, columns, options)
    # An event without an activity belongs to no activity sequence.
    variants = variants_of(with_activity(read))
    return Exploration(
        log=read,
        proposals=tuple(map(classify, figures_of(read))),
        cases=read.cases.height,
        events=read.events.height,
        activities=len(variants.alphabet),
        variants=len(variants),
        source=source,
        detected=detected,
    )


def _opened(
    log: object, columns: dict[str, str] | None, options: InputOptions | None
) -> tuple[EventLog, DetectedInput]:
    if isinstance(log, Path):
        return read_unknown(log, columns, options=options)
    # Nothing was detected of a log in memory; ``options`` say what its reader was told.
    if options is None:
        detected = NOTHING_DETECTED
    else:
        taken = {full: options.columns[full] for full in ROLES.values() if full in options.columns}
        detected = DetectedInput(options, taken=taken)
    return read_log(log, columns=columns), detected
