"""Every text that the engine can print, module by module, read from the source: messages of errors,
refusals, headings, help. What is computed stands in braces.

So no message can be changed, or come in, that nobody has read. Left out are docstrings (those of
mechanisms and commands are in ``screens/``), and strings without two words, which are names.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ENGINE: Final = Path(__file__).resolve().parents[2] / "engine" / "cloakwork"
PACKAGES: Final = tuple(
    sorted(path.name for path in ENGINE.iterdir() if (path / "__init__.py").is_file())
)
NAMED: Final = (ast.Name, ast.Attribute)

_TWO_WORDS: Final = re.compile(r"[A-Za-z,;:.!?')}\]] +[({'\[]?[A-Za-z]")
_TAG: Final = re.compile(r"{#.*?#}|{%.*?%}|<style>.*?</style>|<[^<>]*>", re.DOTALL)
_FIELD: Final = re.compile(r"{{.*?}}", re.DOTALL)


def of_package(name: str) -> str:
    """The texts of a package, or of the modules beside the packages where ``name`` is empty."""
    root = ENGINE / name
    pattern = "**/*" if name else "*"
    parts = []
    for path in sorted(root.glob(f"{pattern}.py")) + sorted(root.glob(f"{pattern}.html")):
        found = list(_in_module(path) if path.suffix == ".py" else _in_template(path))
        if found:
            parts.append(f"# {path.relative_to(ENGINE).as_posix()}\n\n" + "\n".join(found) + "\n")
    return "\n".join(parts)


def _in_module(path: Path) -> Iterator[str]:
    """The texts of a module in the order of its lines, each once, on one line each."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = _docstrings(tree)
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    found: dict[str, None] = {}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr)]
    for node in sorted(strings, key=lambda node: (node.lineno, node.col_offset)):
        if id(node) in skipped or id(node) in inner:
            continue
        text = _written(node)
        if text is not None and _TWO_WORDS.search(text):
            found[text.replace("\n", "\\n").replace("\b", "\\b")] = None
    yield from found


def _docstrings(tree: ast.Module) -> set[int]:
    """The strings that stand as statements: of modules, classes, functions and constants."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _written(node: ast.expr) -> str | None:
    """A string as it is written, with the names of what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    assert isinstance(node, ast.JoinedStr)
    pieces = [
        str(part.value) if isinstance(part, ast.Constant) else "{" + _name(part) + "}"
        for part in node.values
    ]
    return "".join(pieces)


def _name(part: ast.AST) -> str:
    """What is filled in: the last name in it; dots where it has none."""
    names = [node for node in ast.walk(part) if isinstance(node, NAMED)]
    if not names:
        return "..."
    first = names[0]
    return first.attr if isinstance(first, ast.Attribute) else first.id


def _in_template(path: Path) -> Iterator[str]:
    """The words of a page between its tags, in order."""
    text = _TAG.sub("\n", _FIELD.sub("{...}", path.read_text("utf-8")))
    lines = (" ".join(line.split()) for line in text.splitlines())
    yield from (line for line in lines if re.search("[A-Za-z]", line))
