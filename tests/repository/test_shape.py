"""What makes code hard to read at a glance: none of it is added to what is left."""

from pathlib import Path

import pytest

from repository.remaining import Found, counted, differences, find_shapes, read_allowed


@pytest.fixture(scope="module")
def found() -> list[Found]:
    """What this checkout holds."""
    return list(find_shapes())


@pytest.mark.parametrize("kind", ["classes", "conditionals", "long lines"])
def test_nothing_that_is_hard_to_read_is_added(found: list[Found], kind: str) -> None:
    """No two classes of one name, no conditional inside another, no line over 100 characters."""
    assert not (said := list(differences(found, read_allowed(), kind))), "\n".join(said)


def test_each_of_them_is_seen(tmp_path: Path) -> None:
    """In the engine all three; in tests and benchmarks only long lines."""
    hard = f"class A: ...\nb = 1 if c else 2 if d else 3\nlong = '{'x' * 100}'\n"
    for name in ("engine/one.py", "engine/two.py", "tests/one.py", "benchmarks/one.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(hard, "utf-8")
    found = list(find_shapes(tmp_path))
    assert counted(found) == {
        "classes": {"A": 2},
        "conditionals": {"nested": 2},
        "long lines": {"benchmarks": 1, "engine": 2, "tests": 1},
    }
    assert str(found[0]) == "engine/one.py:1: class A: give each class a name of its own"


def test_easy_code_is_let_be(tmp_path: Path) -> None:
    """One class of each name, conditionals side by side, lines of 100 characters."""
    easy = f"b = (1 if c else 2, 3 if d else 4)\nlong = '{'x' * 91}'\n"
    for name in ("one", "two"):
        (tmp_path / "engine").mkdir(exist_ok=True)
        path = tmp_path / "engine" / f"{name}.py"
        path.write_text(f"class {name.title()}: ...\n{easy}", "utf-8")
    assert not list(find_shapes(tmp_path))
