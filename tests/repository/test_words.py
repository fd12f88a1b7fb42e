"""The words that we do not use: none comes back, and none is added to what is left of them."""

from pathlib import Path

import pytest
import yaml

from repository.remaining import (
    HEADING,
    LOWER,
    NAMES,
    Found,
    counted,
    differences,
    find_names,
    find_phrases,
    find_words,
    lowered,
    prose_of,
    read_allowed,
    read_phrases,
)

TABLE = {
    "course of events": (["course of events", "the course"], "activity sequence"),
    "floor": (["floor", "floors"], "layer"),
}


@pytest.fixture(scope="module")
def found() -> list[Found]:
    """What this checkout holds."""
    return list(find_words())


@pytest.mark.parametrize("kind", ["phrases", "names"])
def test_no_word_that_we_do_not_use_is_added(found: list[Found], kind: str) -> None:
    """As many as ``remaining.yaml`` says, and no more."""
    assert not (said := list(differences(found, read_allowed(), kind))), "\n".join(said)


def test_the_glossary_and_the_names_are_read() -> None:
    """Both lists hold what the issue names."""
    before = "|floor|none|\n"
    table = f"{HEADING}\n\n| not | but |\n|---|---|\n| floor, floors | layer |\n"
    assert read_phrases(before + table) == {"floor": (["floor", "floors"], "layer")}
    names = yaml.safe_load(NAMES.read_text("utf-8"))
    assert {"told_apart", "wanted", "Ground", "tolls", "usualness", "_of"} <= names.keys()


@pytest.mark.parametrize(
    ("prose", "lines"),
    [
        ("A course of events.", [1]),
        ("text\nA Course\n    of events", [2]),
        ("# the course\n# of events", [1]),
        ("Of the course of events", [1]),
        ("two floors\n\nand a floor", [1, 3]),
        ("floor(x) and ground-floor and floored and a/floor/b", []),
    ],
)
def test_a_phrase_is_found_where_it_begins(prose: str, lines: list[int]) -> None:
    """Across the end of a line, whatever its case, once; parts of other words are none."""
    assert [each.line for each in find_phrases("a.md", prose, TABLE)] == lines


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout in which every file says ``floor`` in prose once, and elsewhere as code."""
    files = {
        "engine/cloakwork/a.py": 'floor = 1\nname = f"{floor}"\n"""A\nfloor, not ``floor``."""\n',
        "engine/cloakwork/b.py": "floor = 1  # a floor\n",
        "engine/cloakwork/c.py": 'floor = f"{floor}\\nfloor"\n',
        "docs/a.md": "`a\nfloor`\n\n```\nfloor\n```\n",
        "docs/decisions/0001-a.md": "floor\n",
        "docs/glossary.md": "floor\n\n## Words that we do not use\n\n| floor | layer |\n",
        "policies/a.yaml": "# floor\n",
        "schemas/privacy-policy-v1.json": '{"a": "floor"}',
        "schemas/privacy-statement-v1.json": '{"a": "floor"}',
        "README.md": "floor",
        "CONTRIBUTING.md": "floor",
        "CHANGELOG.md": "# Log\n\n## [Unreleased]\n\nfloor\n\n## [0.1.0]\n\nfloor\n",
        "pyproject.toml": "# floor\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_prose_is_read_and_code_is_not(tree: Path) -> None:
    """Comments and texts; no code, no decision, no section of an earlier version."""
    texts = prose_of(tree)
    found = [each for path, prose in texts for each in find_phrases(path, prose, TABLE)]
    assert [(each.path, each.line) for each in found] == [
        ("engine/cloakwork/a.py", 4),
        ("engine/cloakwork/b.py", 1),
        ("engine/cloakwork/c.py", 1),
        ("docs/a.md", 5),
        ("docs/glossary.md", 1),
        ("policies/a.yaml", 1),
        ("schemas/privacy-policy-v1.json", 1),
        ("README.md", 1),
        ("CONTRIBUTING.md", 1),
        ("CHANGELOG.md", 5),
        ("pyproject.toml", 1),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "wanted = 1",
        "def wanted(): ...",
        "def f(wanted): ...",
        "def f(*, _wanted=1): ...",
        "class wanted: ...",
        "class A:\n    wanted: int",
        "self.wanted = 1",
        "for wanted in rows: ...",
        "if (wanted := f()): ...",
        "lambda wanted: 1",
        "match a:\n    case wanted: ...",
    ],
)
def test_a_name_is_found_where_it_is_given(source: str) -> None:
    """To whatever it is given, underscores at its ends or not."""
    table = {"wanted": "required"}
    assert [each.key for each in find_names("a.py", source, table)] == ["wanted"]


@pytest.mark.parametrize(
    "source",
    ["f(wanted)", "wanted_columns = 1", "'wanted'", "# wanted", "a.wanted()", "f(wanted=1)"],
)
def test_prose_and_uses_are_no_names(source: str) -> None:
    """A use goes with what gives the name; prose is judged by phrases."""
    assert not list(find_names("a.py", source, {"wanted": "required"}))


def test_a_module_has_a_name_too() -> None:
    """That of its file."""
    said = [str(each) for each in find_names("x/whole.py", "", {"whole": "all rows"})]
    assert said == ["x/whole.py:1: whole: call it all rows"]


def test_only_the_bare_of_is_vague() -> None:
    """``of`` on a class says of what; a function ``_of`` does not."""
    source = "class A:\n    def of(self): ...\ndef _of(): ...\ndef goal_of(): ..."
    assert [each.line for each in find_names("a.py", source, {"_of": "goal_of"})] == [3]


def test_one_more_is_told_with_its_place() -> None:
    """What is found, where, and what to write; one fewer asks for a lower limit."""
    found = list(find_phrases("docs/a.md", "floor\nfloor\nthe course", TABLE))
    allowed = {"phrases": {"floor": 1, "course of events": 2}}
    assert list(differences(found, allowed, "phrases")) == [
        f"phrases, course of events: 1 are left of 2; keep it so by: {LOWER}",
        "phrases, floor: 2, and 1 may remain; one of these is new:",
        "  docs/a.md:1: 'floor': write layer",
        "  docs/a.md:2: 'floor': write layer",
    ]
    assert not list(differences(found, counted(found), "phrases"))


def test_no_limit_rises() -> None:
    """Lowering takes the lesser of both counts, and forgets what is gone."""
    now = {"names": {"a": 1, "b": 9, "d": 1}}
    assert lowered(now, {"names": {"a": 2, "b": 3, "c": 4}}) == {"names": {"a": 1, "b": 3}}
