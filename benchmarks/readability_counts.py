"""What the lines, tokens, names and functions of some Python files come to."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

WIDTH = 100

LARGE_MODULE = 400

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


def count_files(paths: Iterable[Path]) -> Counts:
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
    for token in _tokens_of_code(source):
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


def _tokens_of_code(source: str) -> Iterator[tokenize.TokenInfo]:
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
