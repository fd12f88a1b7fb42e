"""Pictures of a released log by itself: what everybody who has the log can draw."""

from functools import partial
from pathlib import Path
from typing import Final

from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.control_flow import FlowGraph
from cloakwork.evaluation.curves import ShareCurve
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.plan.model import Plan
from cloakwork.publishing.statement import Statement
from cloakwork.publishing.verify import signed_log

_DRAWN: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})


class ReleasedPictures(Frozen):
    """The released log's most frequent steps, how long its cases take and when its events happen;
    nothing of the source: counts and shares of a source are absent or 0.
    """

    flow: FlowGraph
    curves: tuple[ShareCurve, ...]


def released_pictures(folder: Path, statement: Statement, plan: Plan) -> ReleasedPictures | None:
    """Pictures of the signed log in ``folder``; None where it is not there, or cannot be read. Of
    several files one is in memory at a time: times are then those of a sample of the cases.
    """
    from cloakwork.base.errors import CloakworkError
    from cloakwork.evaluation.control_flow import flow_graph
    from cloakwork.evaluation.release_comparison import days_from
    from cloakwork.evaluation.utility import SeenLog
    from cloakwork.evaluation.whole_log import time_curves
    from cloakwork.log.formats import read_log
    from cloakwork.log.formats.file_parts import FileParts

    signed = signed_log(folder, statement)
    if any(file.is_symlink() or not file.is_file() for file in signed.files):
        return None
    timeless = TIMESTAMPS not in plan.released
    read = partial(read_log, timeless=timeless, keep=_DRAWN.__contains__)
    try:
        files = signed.files
        seen = SeenLog.of(read(files[0]) if len(files) == 1 else FileParts(files, read))
        log = seen.sample.log
        graph = flow_graph(log, log, variants=(seen.variants, seen.variants))
        curves = time_curves(log, log, days_from(plan.facts))
    except CloakworkError:
        return None
    steps = tuple(
        step.model_copy(update={"source": 0, "source_median": None}) for step in graph.steps
    )
    return ReleasedPictures(
        flow=graph.model_copy(update={"steps": steps, "source_share": None}),
        curves=tuple(curve.model_copy(update={"source": ()}) for curve in curves),
    )
