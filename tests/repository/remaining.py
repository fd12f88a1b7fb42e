"""What a reader still stumbles over: counted, and compared with what is allowed to remain.

    PYTHONPATH=tests python -m repository.remaining --list        # how often each, in which files
    PYTHONPATH=tests python -m repository.remaining --list WORD   # where one of them is
    PYTHONPATH=tests python -m repository.remaining --lower       # after some of it is gone

Counted are phrases of the glossary's table, names of ``words.yaml``, classes of one name,
conditional expressions inside one another, and lines of more than 100 characters.
``remaining.yaml`` holds how much of each is left. No count may rise; what is gone stays gone.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import yaml

from repository.checkout import ROOT, load_script

GLOSSARY = ROOT / "docs" / "glossary.md"
HEADING = "## Words that we do not use"
NAMES = Path(__file__).with_name("words.yaml")
ALLOWED = Path(__file__).with_name("remaining.yaml")
LOWER = "PYTHONPATH=tests python -m repository.remaining --lower"
FOLDERS = ("engine", "tests", "benchmarks")
PUBLISHED = {"schemas/privacy-statement-v1.json"}
"""Files that stay as an earlier version published them."""
ONLY_BARE = {"_of"}
"""Names that are judged with their underscores."""
CODE = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\n\n)[^`])+\1(?!`)")
"""What stands between backticks, also across the end of a line; no block between fences."""
PROSE = {
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),  # from Python 3.12 on
}


@dataclass(frozen=True, slots=True)
class Found:
    """One place. ``kind``: the table of ``remaining.yaml`` that counts it; ``key``: its entry."""

    kind: str
    key: str
    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}: {self.instead}"


def find_words(root: Path = ROOT) -> Iterator[Found]:
    """The phrases and names that a checkout still holds, in order of files."""
    phrases = read_phrases(GLOSSARY.read_text("utf-8"))
    for path, prose in prose_of(root):
        yield from find_phrases(path, prose, phrases)
    names = yaml.safe_load(NAMES.read_text("utf-8"))
    for path in sorted((root / "engine").rglob("*.py")):
        yield from find_names(str(path.relative_to(root)), path.read_text("utf-8"), names)


def find_shapes(root: Path = ROOT) -> Iterator[Found]:
    """Classes of one name, conditionals inside one another, and lines that are too long."""
    yield from find_classes(root)
    yield from find_conditionals(root)
    yield from find_long_lines(root)


def read_phrases(glossary: str) -> dict[str, tuple[list[str], str]]:
    """The glossary's table: by the first phrase of a row all of them, and what to write instead."""
    table: dict[str, tuple[list[str], str]] = {}
    for line in glossary.partition(HEADING)[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 and cells[0] not in ("not", "---"):
            phrases = [phrase.strip() for phrase in cells[0].split(",")]
            table[phrases[0]] = phrases, cells[1]
    return table


def find_phrases(
    path: str,
    prose: str,
    table: Mapping[str, tuple[list[str], str]],
) -> Iterator[Found]:
    """Where ``prose`` holds one of the phrases, also across the end of a line."""
    lower = prose.lower()
    for key, (phrases, instead) in table.items():
        # Most texts hold no first word of most phrases, which is sooner seen.
        if not any(each.split()[0].lower() in lower for each in phrases):
            continue
        # The longest first: of "course of events" and "the course" one place counts once.
        ordered = sorted(phrases, key=len, reverse=True)
        either = "|".join(r"[\s#>*]+".join(map(re.escape, each.split())) for each in ordered)
        # A word with a bracket behind it is a function: floor(x); one with a slash, a path.
        for match in re.finditer(rf"(?<![\w/-])(?:{either})(?![\w(/-])", prose, re.IGNORECASE):
            line = prose.count("\n", 0, match.start()) + 1
            said = " ".join(re.sub(r"[#>*]", " ", match[0]).split())
            yield Found("phrases", key, path, line, f"'{said}'", f"write {instead}")


def prose_of(root: Path) -> Iterator[tuple[str, str]]:
    """Every text that is read, by its path; what is no prose is blank: lines keep their numbers."""
    for path in _texts(root):
        text, name = path.read_text("utf-8"), str(path.relative_to(root))
        match path.suffix, name:
            case ".py", _:
                text = _prose_of_python(text)
            case _, "CHANGELOG.md":
                text = text[: _second_heading(text)]
            case _, "docs/glossary.md":
                text = text.partition(HEADING)[0]
        yield name, CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)


def _texts(root: Path) -> Iterator[Path]:
    engine = root / "engine" / "cloakwork"
    for suffix in ("py", "yaml", "html", "j2", "css"):
        yield from sorted(engine.rglob(f"*.{suffix}"))
    yield from sorted((root / "docs").glob("*.md"))
    yield from sorted((root / "policies").glob("*.yaml"))
    schemas = sorted((root / "schemas").glob("*.json"))
    yield from (path for path in schemas if str(path.relative_to(root)) not in PUBLISHED)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml"):
        yield root / name


def _second_heading(changelog: str) -> int:
    """Where the section behind [Unreleased] begins: versions that are out are not written anew."""
    headings = [match.start() for match in re.finditer(r"^## \[", changelog, re.MULTILINE)]
    return headings[1] if len(headings) > 1 else len(changelog)


def _prose_of_python(source: str) -> str:
    """Comments and texts of a module, everything else blank."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    kept = [character if character == "\n" else " " for character in source]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in PROSE:
            begin = starts[token.start[0] - 1] + token.start[1]
            text = _without_escapes(token)
            kept[begin : begin + len(text)] = text
    return "".join(kept)


def _without_escapes(token: tokenize.TokenInfo) -> str:
    """The text of a token, as long as it was; an f-string's text is one of several tokens from
    Python 3.12 on.
    """
    if token.type == tokenize.STRING:
        return _without_syntax(token.string)
    if token.type == tokenize.COMMENT:
        return token.string
    return re.sub(r"\\[^\n]", "  ", token.string)


def _without_syntax(literal: str) -> str:
    """A string literal with blanks for prefix, quotes, escapes and an f-string's expressions."""
    parts = re.fullmatch(r"([A-Za-z]*)(\"{3}|'{3}|\"|')(.*)\2", literal, re.DOTALL)
    if parts is None:
        return literal
    prefix, quote, text = parts.groups()
    text = re.sub(r"\\[^\n]", "  ", text)
    if "f" in prefix.lower():
        text = re.sub(r"\{[^{}\n]*\}", lambda code: " " * len(code[0]), text)
    return " " * len(prefix + quote) + text + " " * len(quote)


def find_names(path: str, source: str, table: Mapping[str, str]) -> Iterator[Found]:
    """Where a module gives one of the names, its own included."""
    given = [(1, Path(path).stem), *_given_names(ast.parse(source))]
    for line, name in sorted(given):
        key = name if name in ONLY_BARE else name.strip("_")
        if key in table and (key in ONLY_BARE) == (name in ONLY_BARE):
            yield Found("names", key, path, line, name, f"call it {table[key]}")


def _given_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each class, function, argument, variable and attribute that is made."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def find_classes(root: Path) -> Iterator[Found]:
    """Every class of the engine that shares its name with another."""
    places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for path in sorted((root / "engine").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append((str(path.relative_to(root)), node.lineno))
    for name, several in sorted(places.items()):
        if len(several) > 1:
            for path, line in several:
                instead = "give each class a name of its own"
                yield Found("classes", name, path, line, f"class {name}", instead)


def find_conditionals(root: Path) -> Iterator[Found]:
    """Every conditional expression of the engine that stands inside another."""
    for path in sorted((root / "engine").rglob("*.py")):
        tree, name = ast.parse(path.read_text("utf-8")), str(path.relative_to(root))
        for node in _readability().nested_conditionals(tree):
            said = "a conditional inside another"
            yield Found("conditionals", "nested", name, node.lineno, said, "use if statements")


def find_long_lines(root: Path) -> Iterator[Found]:
    """Every line of more than 100 characters in a Python file, counted by top folder."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for number in _readability().long_lines(path.read_text("utf-8")):
                name, said = str(path.relative_to(root)), "a line of more than 100 characters"
                yield Found("long lines", folder, name, number, said, "one idea a line")


def _readability() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "readability_counts.py")


def counted(found: list[Found]) -> dict[str, dict[str, int]]:
    """How many places each entry has, in the form of ``remaining.yaml``."""
    tables: dict[str, Counter[str]] = {}
    for each in found:
        tables.setdefault(each.kind, Counter())[each.key] += 1
    return {kind: dict(sorted(tables[kind].items())) for kind in sorted(tables)}


def read_allowed() -> dict[str, dict[str, int]]:
    """How much of each may remain."""
    return yaml.safe_load(ALLOWED.read_text("utf-8")) or {}


def differences(
    found: list[Found],
    allowed: Mapping[str, Mapping[str, int]],
    kind: str,
) -> Iterator[str]:
    """What has become more, with every place; what has become less, with what to do."""
    now, before = counted(found).get(kind, {}), allowed.get(kind, {})
    for key in sorted(now.keys() | before.keys()):
        count, limit = now.get(key, 0), before.get(key, 0)
        if count > limit:
            yield f"{kind}, {key}: {count}, and {limit} may remain; one of these is new:"
            yield from (f"  {each}" for each in found if (each.kind, each.key) == (kind, key))
        elif count < limit:
            yield f"{kind}, {key}: {count} are left of {limit}; keep it so by: {LOWER}"


def lowered(
    now: Mapping[str, Mapping[str, int]],
    allowed: Mapping[str, Mapping[str, int]],
) -> dict[str, dict[str, int]]:
    """The allowed counts, each at most what there is now; none rises, and those of nothing go."""
    tables: dict[str, dict[str, int]] = {}
    for kind, table in allowed.items():
        left = now.get(kind, {})
        least = {key: min(limit, left.get(key, 0)) for key, limit in table.items()}
        tables[kind] = {key: count for key, count in least.items() if count}
    return tables


def main() -> None:
    """List what remains, or lower what may."""
    parser = argparse.ArgumentParser(description="What a reader of the code still stumbles over.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", nargs="?", const="", metavar="WORD", help="counts, or all places")
    action.add_argument("--lower", action="store_true", help="what is gone may not come back")
    given = parser.parse_args()
    found = [*find_words(), *find_shapes()]
    if given.lower:
        tables = lowered(counted(found), read_allowed())
        ALLOWED.write_text(yaml.safe_dump(tables, allow_unicode=True), "utf-8")
    elif given.list:
        print(*(each for each in found if each.key == given.list), sep="\n")
    else:
        print_counts(found)


def print_counts(found: list[Found]) -> None:
    """How often each, then how often all of them in each file, the most first."""
    for kind, table in counted(found).items():
        print(f"{kind}: {sum(table.values())}")
        for key, count in sorted(table.items(), key=lambda entry: -entry[1]):
            print(f"  {count:6,}  {key}")
    for kind in ("phrases", "names"):
        files = Counter(each.path for each in found if each.kind == kind)
        print(f"{kind}, by file:")
        for path, count in files.most_common():
            print(f"  {count:6,}  {path}")


if __name__ == "__main__":
    main()
