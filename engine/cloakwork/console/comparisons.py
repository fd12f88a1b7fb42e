"""Settings beside each other, before one of them is chosen."""

from dataclasses import dataclass

from starlette.responses import Response

from cloakwork.comparing.compare import compare
from cloakwork.comparing.model import ComparedSetting, Comparison, FigureSpread
from cloakwork.console.jobs import JobProgress, JobResult
from cloakwork.console.sources import policy_names, policy_source
from cloakwork.console.visits import Visit
from cloakwork.console.workplace import OutsideFolder


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as a row of a table; ``figures``: what is left of the log, by column."""

    number: int
    policy: str
    values: str
    guarantees: tuple[str, ...]
    bounds: tuple[str, ...]
    cost: tuple[str, ...]
    figures: tuple[str, ...]
    remarks: tuple[str, ...]
    refused: str


@dataclass(frozen=True, slots=True)
class SettingPoint:
    """One setting in the picture: ``x``, the most that an attack gains, and ``y``, the similarity,
    both in pixels.
    """

    number: int
    x: float
    y: float


COLUMNS = ("similarity", "cases", "events", "durations", "attributes")
WIDTH, HEIGHT, MARGIN = 560, 260, 40


def compare_form(visit: Visit) -> Response:
    """Which settings to compare on which log."""
    return visit.page(
        "compare.html",
        policies=policy_names(visit),
        logs=visit.workplace.look().logs,
        chosen=visit.asked("policy"),
        log=visit.asked("log"),
    )


def compare_settings(visit: Visit) -> Response:
    """Compare them; the ledger notes that, and is charged nothing."""
    log_name, names = visit.sent("log"), visit.fields.get("policy", ())
    if not names:
        raise OutsideFolder("no policy was chosen; choose one or more")
    log = visit.workplace.existing_file(log_name)
    policies = [policy_source(visit, name).policy() for name in names]
    sweeps = [part.strip() for part in visit.sent("sweep").split(";") if part.strip()]

    def work(progress: JobProgress) -> JobResult:
        progress("comparing")
        found = compare(
            log,
            policies,
            sweep=sweeps,
            ledger=visit.state.ledger(progress),
            window=visit.sent("window") or None,
            reporter=progress,
        )
        rows = [_row(number, each) for number, each in enumerate(found.settings, start=1)]
        content = {"log": log_name, "found": found, "rows": rows, "points": points_of(found)}
        size = {"width": WIDTH, "height": HEIGHT, "margin": MARGIN}
        return JobResult("compared.html", content | size)

    return visit.begin(f"Compare {len(names)} of the policies for {log_name}", work)


def _row(number: int, setting: ComparedSetting) -> SettingRow:
    figures = [getattr(setting.figures, name, None) for name in COLUMNS]
    return SettingRow(
        number=number,
        policy=setting.policy,
        values=", ".join(f"{name} {value}" for name, value in setting.values.items()),
        guarantees=setting.guarantees,
        bounds=tuple(f"{each.attack}: at most {_percent(each.most)}" for each in setting.bounds),
        cost=setting.cost,
        figures=tuple(map(spread_text, figures)),
        remarks=setting.remarks,
        refused=setting.refused or "",
    )


def spread_text(spread: FigureSpread | None) -> str:
    """A figure of several runs in a few letters."""
    if spread is None:
        return "–"
    middle, low, high = (f"{value:.2f}" for value in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def points_of(found: Comparison) -> tuple[SettingPoint, ...]:
    """The settings of which both a bound and a similarity are known."""
    points = []
    for number, setting in enumerate(found.settings, start=1):
        similarity = None if setting.figures is None else setting.figures.similarity
        if similarity is None or not setting.bounds:
            continue
        most = max(bound.most for bound in setting.bounds)
        x = MARGIN + most * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - similarity.median * (HEIGHT - 2 * MARGIN)
        points.append(SettingPoint(number, round(x, 1), round(y, 1)))
    return tuple(points)


def _percent(share: float) -> str:
    return "less than 1%" if 0 < share < 0.005 else f"{share:.0%}"
