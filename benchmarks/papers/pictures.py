"""One picture a table: what the paper printed, ours with its parameters, and our own choice.

A panel is a measure on a log. Hollow: published. Filled, with a bar from the least to the most of
the runs: ours. Triangles: what the engine takes by itself for the same guarantee. Colours tell the
mechanisms or algorithms of one table apart.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.papers.tables import has_figures

ALONG = {
    "libra-2": "alpha",
    "libra-3": "log",
    "sacofa": "epsilon",
    "travag": "epsilon",
    "ddpm": "epsilon",
    "pretsa-4": "log",
    "pretsa-5": "t",
    "pretsa-6": "k",
}
"""What the horizontal axis of a table's picture is."""

HELD = {"travag": {"delta": 1e-4}, "ddpm": {"delta": 1e-4}}
"""Of a grid, the settings that are drawn: those of which the paper's figures can be read."""

WHO = ("mechanism", "algorithm")


def drawn_rows(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measured rows of a table that its picture shows."""
    held = HELD.get(table, {})
    return [
        row
        for row in rows
        # Libra's second rows repeat the first ones at what their accounting really costs.
        if has_figures(row) and "claimed" not in row["parameters"]
        if all(row["parameters"].get(name) == value for name, value in held.items())
    ]


def draw(table: str, rows: list[dict[str, Any]], path: Path) -> bool:
    """Draw the picture of a table; False where nothing of it is measured."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file.
    mpl.rcParams |= {"svg.hashsalt": "papers", "svg.fonttype": "none", "font.size": 8}
    import matplotlib.pyplot as plt

    rows = drawn_rows(table, rows)
    if not rows:
        return False
    along = ALONG[table]
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    logs = ["all"] if along == "log" else list(dict.fromkeys(row["log"] for row in rows))
    shape = (len(logs), len(measures))
    figure, axes = plt.subplots(
        *shape, figsize=(2.5 * shape[1] + 1, 2.1 * shape[0] + 0.6), squeeze=False
    )
    colours = dict(zip(kinds_of(rows), mpl.color_sequences["tab10"], strict=False))
    for down, log in enumerate(logs):
        for across, measure in enumerate(measures):
            axis = axes[down][across]
            panel = [
                row for row in rows if row["measure"] == measure and log in ("all", row["log"])
            ]
            places = sorted({place_of(row, along) for row in panel})
            draw_panel(axis, panel, along, places, colours)
            axis.set_title(measure if log == "all" else f"{log}: {measure}")
            axis.set_xticks(range(len(places)), [f"{place}" for place in places])
            axis.tick_params(axis="x", rotation=30 if along == "log" else 0)
            if down == len(logs) - 1 and along != "log":
                axis.set_xlabel(along)
    handles = dict[str, Any]()
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=min(4, len(handles)))
    figure.tight_layout(rect=(0, 0.04 + 0.14 / shape[0], 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def kinds_of(rows: list[dict[str, Any]]) -> list[str]:
    """The mechanisms or algorithms of these rows; one without a name where a table has none."""
    return list(dict.fromkeys(kind_of(row) for row in rows))


def kind_of(row: dict[str, Any]) -> str:
    """Which mechanism or algorithm a row is of."""
    return next((str(row["parameters"][name]) for name in WHO if name in row["parameters"]), "")


def place_of(row: dict[str, Any], along: str) -> Any:
    """Where a row stands on the horizontal axis."""
    return row["log"] if along == "log" else row["parameters"][along]


def draw_panel(
    axis: Any,
    rows: list[dict[str, Any]],
    along: str,
    places: list[Any],
    colours: dict[str, Any],
) -> None:
    """The points of one measure on one log."""
    at = {place: number for number, place in enumerate(places)}
    kinds = kinds_of(rows)
    for number, kind in enumerate(kinds):
        # Beside each other, so that none hides another.
        shift = 0.12 * (number - (len(kinds) - 1) / 2)
        mine = [row for row in rows if kind_of(row) == kind]
        published = [(at[place_of(row, along)] + shift, row["published"]) for row in mine]
        published = [point for point in published if isinstance(point[1], int | float)]
        if published:
            axis.plot(
                *zip(*published, strict=True),
                "o",
                mfc="none",
                color=colours[kind],
                label=f"{kind} published".strip(),
            )
        for name, marker, label in (
            ("", "o", f"{kind} ours".strip()),
            ("_by_choice", "^", "our own choice"),
        ):
            points = list(points_of(mine, along, at, shift, name))
            if not points:
                continue
            over, middle, below, above = zip(*points, strict=True)
            colour = "black" if name else colours[kind]
            axis.errorbar(
                over,
                middle,
                yerr=(below, above),
                fmt=marker,
                ms=3.5,
                lw=1,
                color=colour,
                label=label,
            )


def points_of(
    rows: list[dict[str, Any]], along: str, at: dict[Any, int], shift: float, side: str
) -> Iterator[tuple[float, float, float, float]]:
    """Place, median, and how far the least and the most of the runs lie from it."""
    for row in rows:
        middle, spread = row.get(f"ours{side}"), row.get(f"spread{side}")
        if middle is None:
            continue
        low, high = spread or (middle, middle)
        # Rounding may put the median outside by a last digit.
        yield at[place_of(row, along)] + shift, middle, max(middle - low, 0), max(high - middle, 0)
