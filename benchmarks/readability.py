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
import ast
import io
import json
import math
import re
import statistics
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "engine" / "cloakwork"
ANCHORS = Path(__file__).with_name("readability_anchors.json")
WIDTH = 100
LARGE_MODULE = 400
COUNTER_EXAMPLE = "pm4py"
BY_SIZE = ("code_lines", "long_lines", "large_modules", "class_pairs", "nested_conditionals")
"""Measures that grow with a package, so that a range of them says nothing."""

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# Python 3.12 and later take f-strings apart; earlier versions have no such tokens.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)
DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|pragma:|mypy:|pylint:|ruff:)")

Function = ast.FunctionDef | ast.AsyncFunctionDef
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


@dataclass(slots=True)
class Counts:
    """What was counted in some files; ``lengths`` of functions in lines."""

    lines: int = 0
    code_lines: int = 0
    tokens: int = 0
    long_code_lines: int = 0
    long_lines: int = 0
    conditionals: int = 0
    nested_conditionals: int = 0
    comments: int = 0
    names: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    public: int = 0
    typed: int = 0
    documented: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    large_modules: int = 0


def source_files(root: Path) -> list[Path]:
    """The Python files below ``root`` without tests, in alphabetical order."""
    return [path for path in sorted(root.rglob("*.py")) if not _is_test(path.relative_to(root))]


def _is_test(path: Path) -> bool:
    inside = {"test", "tests"} & set(path.parts[:-1])
    return bool(inside) or path.stem.startswith("test_") or path.stem.endswith("_test")


def count(paths: Iterable[Path]) -> Counts:
    """Count everything in these files."""
    counts = Counts()
    for path in paths:
        source = path.read_text("utf-8")
        tree = ast.parse(source)
        _count_text(source, tree, counts)
        _count_functions(tree, counts)
        counts.conditionals += sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))
        counts.nested_conditionals += len(list(nested_conditionals(tree)))
        counts.classes.update(class_names(tree))
    return counts


def _count_text(source: str, tree: ast.Module, counts: Counts) -> None:
    lines = source.splitlines()
    docstrings = set(_docstring_places(tree))
    code: set[int] = set()
    for token in _tokens(source):
        if token.type == tokenize.COMMENT:
            counts.comments += not DIRECTIVE.match(token.string)
        elif token.type not in LAYOUT and token.start not in docstrings:
            counts.tokens += 1
            code.update(range(token.start[0], token.end[0] + 1))
    counts.lines += len(lines)
    counts.code_lines += len(code)
    counts.long_lines += len(long_lines(source))
    counts.long_code_lines += sum(number in code for number in long_lines(source))
    counts.large_modules += len(lines) > LARGE_MODULE


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a file; of an f-string only its beginning."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == FSTRING_END:
            depth -= 1
        elif depth == 0:
            yield token
        if token.type == FSTRING_START:
            depth += 1


def _docstring_places(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Line and column of every statement that is one string."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node.lineno, node.col_offset


def long_lines(source: str) -> list[int]:
    """The numbers, from 1, of the lines of more than ``WIDTH`` characters."""
    lines = source.splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > WIDTH]


def nested_conditionals(tree: ast.AST) -> Iterator[ast.IfExp]:
    """The conditional expressions that stand inside another one, each once."""
    found: dict[int, ast.IfExp] = {}
    for outer in ast.walk(tree):
        if isinstance(outer, ast.IfExp):
            inner = (node for node in ast.walk(outer) if isinstance(node, ast.IfExp))
            found.update((id(node), node) for node in inner if node is not outer)
    yield from found.values()


def class_names(tree: ast.AST) -> list[str]:
    """The name of every class that is defined, wherever it stands."""
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _count_functions(tree: ast.Module, counts: Counts) -> None:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            counts.lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
            if not _is_dunder(node.name):
                counts.names[_kind_of_name(node.name)] += 1
    for function in _public_functions(tree):
        counts.public += 1
        counts.typed += _is_typed(function)
        counts.documented += ast.get_docstring(function) is not None


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _kind_of_name(name: str) -> str:
    """``public`` or ``private``, and ``one`` word or ``more``."""
    visibility = "private" if name.startswith("_") else "public"
    words = "more" if "_" in name.strip("_") else "one"
    return f"{visibility}, {words}"


def _public_functions(node: ast.AST) -> Iterator[Function]:
    """Public functions of a module, and public methods of its public classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public_functions(child)
        elif isinstance(child, Function) and not child.name.startswith("_"):
            yield child


def _is_typed(function: Function) -> bool:
    given = function.args
    listed = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    arguments = [each for each in listed if each is not None and each.arg not in ("self", "cls")]
    return function.returns is not None and all(each.annotation for each in arguments)


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
    return figures(count(source_files(root)), root)


def measure_parts(root: Path, by: str) -> dict[str, Figures]:
    """The figures of each file, or of each folder directly in ``root``."""
    parts: dict[str, list[Path]] = {}
    for path in source_files(root):
        inside = path.relative_to(root)
        name = str(inside) if by == "file" else inside.parts[0]
        parts.setdefault(name, []).append(path)
    found = {name: figures(count(paths), root) for name, paths in parts.items()}
    return {name: part for name, part in found.items() if part["code_lines"]}


def worst_first(parts: dict[str, Figures], by: str) -> dict[str, Figures]:
    """The parts ordered by one measure; those without a figure last."""
    sign = -1 if MEASURES[by].high else 1

    def rank(name: str) -> tuple[bool, float, str]:
        figure = parts[name][by]
        return figure is None, sign * (figure or 0), name

    return {name: parts[name] for name in sorted(parts, key=rank)}


def shown(name: str, figure: float | None) -> str:
    """A figure as the tables print it."""
    if figure is None:
        return ""
    return f"{figure:,.{MEASURES[name].digits}f}"


def range_of(name: str, anchors: dict[str, Figures]) -> str:
    """The least and the largest figure of the anchors, without the counter-example."""
    known = [each[name] for title, each in anchors.items() if not title.startswith(COUNTER_EXAMPLE)]
    found = [figure for figure in known if figure is not None]
    if not found or name in BY_SIZE:
        return ""
    return f"{shown(name, min(found))} to {shown(name, max(found))}"


def print_whole(whole: Figures) -> None:
    """Our package, one measure a line, beside the anchors' ranges."""
    anchors = json.loads(ANCHORS.read_text("utf-8")) if ANCHORS.is_file() else {}
    print(f"{'':42}{'cloakwork':>10}  {'anchors, stated':17}anchors, measured")
    for name, row in MEASURES.items():
        ours, theirs = shown(name, whole[name]), range_of(name, anchors)
        print(f"{row.title:42}{ours:>10}  {row.stated:17}{theirs}".rstrip())


def print_packages(packages: dict[str, Figures]) -> None:
    """One measure a line, one package a column."""
    widths = {title: max(len(title), 7) + 2 for title in packages}
    print(f"{'':42}" + "".join(f"{title:>{width}}" for title, width in widths.items()))
    for name, row in MEASURES.items():
        texts = {title: shown(name, part[name]) for title, part in packages.items()}
        cells = (f"{text:>{widths[title]}}" for title, text in texts.items())
        print(f"{row.title:42}" + "".join(cells))


def print_parts(parts: dict[str, Figures]) -> None:
    """One part a line, one measure a column."""
    for number, name in enumerate(PARTS, 1):
        print(f"{number}: {MEASURES[name].title}")
    print(f"{'':42}" + "".join(f"{number:>7}" for number in range(1, len(PARTS) + 1)))
    for title, part in parts.items():
        print(f"{title:42}" + "".join(f"{shown(name, part[name]):>7}" for name in PARTS))


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="How easily a package reads, in figures.")
    parser.add_argument("--package", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--by", choices=("package", "file"))
    parser.add_argument("--sort", choices=PARTS, default="tokens", help="what --by sorts by")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.package:
        named = (each.partition("=") for each in given.package)
        found = {name: measure(Path(path)) for name, _, path in named}
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
