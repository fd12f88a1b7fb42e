"""How easily a package reads, in figures, beside those of code bases that read well.

    python benchmarks/readability.py [--by package|file] [--sort MEASURE] [--json FILE]
    python benchmarks/readability.py --package NAME=PATH ... [--json FILE]

The first prints ``engine/cloakwork`` beside the anchors: their range as issue 10 states it, and
their range as this script measures it (``readability_anchors.json``, which the second form
writes). With ``--by`` it prints the parts instead, the worst first. Folders called ``test`` or
``tests`` and files called ``test_*`` or ``*_test`` are left out.

How each measure is taken:

- *Line of code*: a line that holds a token other than a comment or a docstring. A docstring is any
  statement that is one string, wherever it stands.
- *Tokens a line*: Python's tokens without comments, docstrings, line ends and indentation, over
  lines of code. An f-string is one token, whichever version of Python runs this.
- *Over 100 characters*: the share of lines of code; beside it the number of all such lines,
  docstrings and comments included.
- *Conditionals*: expressions ``x if y else z`` on 1,000 lines of code; *nested*: how many of them
  stand inside another one.
- *Comments*: those for a reader (no ``noqa``, ``type:``, ``fmt:``, ``pragma:``) on 100 lines of
  the file, empty ones and docstrings included: the anchors' range was counted that way.
- *One-word names*: the share of functions and methods whose name holds no underscore but at its
  ends; names with two underscores at both ends do not count.
- *Function length*: lines from ``def`` to the end, docstring included.
- *Typed*, *documented*: of the public functions and methods of public classes, the share with
  every argument and the result annotated, and the share with a docstring.
- *Import-linter rows*: the layers in the ``pyproject.toml`` above the package.
- *Classes of one name*: how many pairs of classes in different places share their name.

So counted, the commit that issue 10 measured (29d00eb) has 10.7 tokens a line, 8.0 % over 100
characters, 36 conditionals, .3 comments, 64 % one-word names, and functions of 7 and 18 lines:
the figures of the issue. Over all lines that are not empty it has 8.9, 14 %, 30 and .4.
"""

import argparse
import json
import math
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from readability_counts import LARGE_MODULE, Counts, count_files, source_files

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "engine" / "cloakwork"
ANCHORS = Path(__file__).with_name("readability_anchors.json")
COUNTER_EXAMPLE = "pm4py"
BY_SIZE = ("code_lines", "long_lines", "large_modules", "class_pairs", "nested_conditionals")
"""Measures that grow with a package, so that a range of them says nothing."""


Figures = dict[str, float | None]
"""The measures by name; None where there is nothing to take a share of."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table. ``high``: larger is worse; ``stated``: the range in issue 10."""

    title: str
    stated: str = ""
    high: bool = True
    digits: int = 1


MEASURES = {
    "code_lines": Measure("lines of code", digits=0),
    "tokens": Measure("tokens a line", "5.5 to 7.8"),
    "long_share": Measure("over 100 characters, % of lines of code", "0 to .6"),
    "long_lines": Measure("over 100 characters, all lines", digits=0),
    "conditionals": Measure("conditionals on 1,000 lines of code", "1 to 19"),
    "nested_conditionals": Measure("conditionals nested in another", digits=0),
    "comments": Measure("comments on 100 lines", "2.7 to 7.5", high=False),
    "one_word": Measure("one-word function names, %", "9 to 49"),
    "one_word_public": Measure("one-word function names, public, %"),
    "one_word_private": Measure("one-word function names, private, %"),
    "length_median": Measure("function length in lines, median", "7", digits=0),
    "length_p90": Measure("function length in lines, 90th percentile", "18", digits=0),
    "length_most": Measure("function length in lines, largest", digits=0),
    "typed": Measure("public functions typed, %", high=False),
    "documented": Measure("public functions documented, %", high=False),
    "import_rows": Measure("import-linter rows", "at most 9", digits=0),
    "class_pairs": Measure("pairs of classes of one name", "0", digits=0),
    "large_modules": Measure(f"modules of more than {LARGE_MODULE} lines", digits=0),
}
PARTS = (
    "code_lines",
    "tokens",
    "long_share",
    "long_lines",
    "conditionals",
    "comments",
    "one_word",
    "length_p90",
    "length_most",
)
"""The measures that ``--by`` prints."""


def figures(counts: Counts, root: Path) -> Figures:
    """All measures of what was counted."""
    public = counts.names["public, one"], counts.names["public, more"]
    private = counts.names["private, one"], counts.names["private, more"]
    return {
        "code_lines": counts.code_lines,
        "tokens": _ratio(counts.tokens, counts.code_lines),
        "long_share": _ratio(100 * counts.long_code_lines, counts.code_lines),
        "long_lines": counts.long_lines,
        "conditionals": _ratio(1000 * counts.conditionals, counts.code_lines),
        "nested_conditionals": counts.nested_conditionals,
        "comments": _ratio(100 * counts.comments, counts.lines),
        "one_word": _ratio(100 * (public[0] + private[0]), sum(public) + sum(private)),
        "one_word_public": _ratio(100 * public[0], sum(public)),
        "one_word_private": _ratio(100 * private[0], sum(private)),
        "length_median": statistics.median_low(counts.lengths) if counts.lengths else None,
        "length_p90": _percentile(counts.lengths, 0.9),
        "length_most": max(counts.lengths, default=None),
        "typed": _ratio(100 * counts.typed, counts.public),
        "documented": _ratio(100 * counts.documented, counts.public),
        "import_rows": import_rows(root),
        "class_pairs": sum(math.comb(times, 2) for times in counts.classes.values()),
        "large_modules": counts.large_modules,
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _percentile(values: Sequence[int], share: float) -> int | None:
    """The least value that at least ``share`` of all values do not exceed."""
    if not values:
        return None
    return sorted(values)[math.ceil(share * len(values)) - 1]


def import_rows(root: Path) -> int | None:
    """The layers that the nearest ``pyproject.toml`` lists; None where there are none."""
    projects = (above / "pyproject.toml" for above in root.resolve().parents)
    project = next((path for path in projects if path.is_file()), None)
    if project is None:
        return None
    tools = tomllib.loads(project.read_text("utf-8")).get("tool", {})
    contracts = tools.get("importlinter", {}).get("contracts", [])
    return sum(len(contract.get("layers", ())) for contract in contracts) or None


def measure(root: Path) -> Figures:
    """The figures of a whole package."""
    return figures(count_files(source_files(root)), root)


def measure_parts(root: Path, by: str) -> dict[str, Figures]:
    """The figures of each file, or of each folder directly in ``root``."""
    parts: dict[str, list[Path]] = {}
    for path in source_files(root):
        inside = path.relative_to(root)
        name = str(inside) if by == "file" else inside.parts[0]
        parts.setdefault(name, []).append(path)
    found = {name: figures(count_files(paths), root) for name, paths in parts.items()}
    return {name: part for name, part in found.items() if part["code_lines"]}


def worst_first(parts: dict[str, Figures], by: str) -> dict[str, Figures]:
    """The parts ordered by one measure; those without a figure last."""
    sign = -1 if MEASURES[by].high else 1

    def rank(name: str) -> tuple[bool, float, str]:
        figure = parts[name][by]
        return figure is None, sign * (figure or 0), name

    return {name: parts[name] for name in sorted(parts, key=rank)}


def format_figure(name: str, figure: float | None) -> str:
    """A figure as the tables print it."""
    if figure is None:
        return ""
    return f"{figure:,.{MEASURES[name].digits}f}"


def range_of(name: str, anchors: dict[str, Figures]) -> str:
    """The least and the largest figure of the anchors, without the counter-example."""
    found = []
    for title, anchor in anchors.items():
        figure = anchor[name]
        if figure is not None and not title.startswith(COUNTER_EXAMPLE):
            found.append(figure)
    if not found or name in BY_SIZE:
        return ""
    return f"{format_figure(name, min(found))} to {format_figure(name, max(found))}"


def print_whole(whole: Figures) -> None:
    """Our package, one measure a line, beside the anchors' ranges."""
    anchors = json.loads(ANCHORS.read_text("utf-8")) if ANCHORS.is_file() else {}
    print(f"{'':42}{'cloakwork':>10}  {'anchors, stated':17}anchors, measured")
    for name, row in MEASURES.items():
        ours, theirs = format_figure(name, whole[name]), range_of(name, anchors)
        print(f"{row.title:42}{ours:>10}  {row.stated:17}{theirs}".rstrip())


def print_packages(packages: dict[str, Figures]) -> None:
    """One measure a line, one package a column."""
    widths = {title: max(len(title), 7) + 2 for title in packages}
    print(f"{'':42}" + "".join(f"{title:>{width}}" for title, width in widths.items()))
    for name, row in MEASURES.items():
        texts = {title: format_figure(name, part[name]) for title, part in packages.items()}
        cells = (f"{text:>{widths[title]}}" for title, text in texts.items())
        print(f"{row.title:42}" + "".join(cells))


def print_parts(parts: dict[str, Figures]) -> None:
    """One part a line, one measure a column."""
    for number, name in enumerate(PARTS, 1):
        print(f"{number}: {MEASURES[name].title}")
    print(f"{'':42}" + "".join(f"{number:>7}" for number in range(1, len(PARTS) + 1)))
    for title, part in parts.items():
        print(f"{title:42}" + "".join(f"{format_figure(name, part[name]):>7}" for name in PARTS))


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="How easily a package reads, in figures.")
    parser.add_argument("--package", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--by", choices=("package", "file"))
    parser.add_argument("--sort", choices=PARTS, default="tokens", help="what --by sorts by")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.package:
        found = {}
        for each in given.package:
            name, _, path = each.partition("=")
            found[name] = measure(Path(path))
        print_packages(found)
    elif given.by:
        found = worst_first(measure_parts(ENGINE, given.by), given.sort)
        print_parts(found)
    else:
        found = {"cloakwork": measure(ENGINE)}
        print_whole(found["cloakwork"])
    if given.json:
        rounded = {title: _rounded(part) for title, part in found.items()}
        given.json.write_text(json.dumps(rounded, indent=1) + "\n", "utf-8")


def _rounded(part: Figures) -> Figures:
    return {name: None if each is None else round(each, 3) for name, each in part.items()}


if __name__ == "__main__":
    main()
