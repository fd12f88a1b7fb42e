"""What the first steps of a plan would change: figures of the raw log, for those who may see it."""

from functools import partial

from cloakwork.base.progress import Reporter, heard_by, silent
from cloakwork.engines.base import Engine
from cloakwork.engines.memory import MemoryEngine
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.noise import secret
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.model import Plan, Step
from cloakwork.run.all_cases import SourceFigures
from cloakwork.run.execute import Stopwatch, granted, take_step
from cloakwork.run.prepare import prepared_log, require_enough_cases
from cloakwork.run.release import StepRecord
from cloakwork.run.search_cache import SearchCache


def preview(
    plan: Plan,
    log: object,
    *,
    engine: Engine | None = None,
    catalogue: Catalogue | None = None,
    reporter: Reporter = silent,
    searches: SearchCache | None = None,
) -> tuple[StepRecord, ...]:
    """What the plan's first steps would change in ``log``, as figures: for those who may see it,
    never for the public.

    Takes the steps until one measures through noise, or reads times that a claim protects; what is
    shown may depend on nothing else than what every claim of the plan takes as known
    (``docs/guarantees.md``). Charges nothing and releases nothing. Raises as ``execute`` does where
    a step refuses the log. ``searches``: where what is found is kept, for a release of the same
    log.
    """
    catalogue = all_mechanisms() if catalogue is None else catalogue
    engine = engine or MemoryEngine()
    noise = secret()
    watch = Stopwatch()
    records = list[StepRecord]()
    steps = previewable(plan)
    if not steps:
        return ()
    unit = plan.facts.unit.attribute
    result = engine.open(log, partial(prepared_log, plan=plan), unit, SourceFigures()).log
    require_enough_cases(result, plan, engine)
    for step in steps:
        reporter(f"{step.mechanism}: {step.why}")
        with heard_by(reporter):
            result, record = take_step(
                granted(step, plan, catalogue),
                result,
                engine,
                noise,
                watch,
                searches=searches,
            )
        if record.figures:
            records.append(record)
    return tuple(records)


def previewable(plan: Plan) -> tuple[Step, ...]:
    """The steps that may be tried out on the log while planning; none where a claim covers what
    they would read, or an unproven goal would.
    """
    if plan.unproven:
        return ()
    protected: set[str] = set()
    for claim in plan.claims:
        if claim.cost is not None:
            protected |= set(claim.guarantee.over)
    allowed = list[Step]()
    for step in plan.steps:
        lineage = step.lineage
        if lineage.measures or lineage.generates or lineage.reads & protected:
            break
        allowed.append(step)
    # Steps that read nothing would show nothing.
    return tuple(allowed) if any(step.lineage.reads for step in allowed) else ()
