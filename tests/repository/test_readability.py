"""The measures of readability, on a package whose figures are known."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from repository.checkout import ROOT, load_script

SCRIPT = ROOT / "benchmarks" / "readability.py"

ONE = '''"""A docstring is no code, however long it is: {long}"""

LONG = "{long}"  # why it is long


class Place:
    def of(self, name):
        return name if name else None if self else 0


def read_all(path: str) -> int:
    """Typed and documented."""
    return len(path)
'''
TWO = '''class Place:
    def __init__(self) -> None:
        """Overrides do not count among names."""


class _Hidden:
    def of(self): ...


def _one(): return f"{1 + 1} {2}"  # noqa: E704
'''


@pytest.fixture
def readability() -> ModuleType:
    """The script as a module."""
    return load_script(SCRIPT)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Two modules, a test that does not count, and a project with two layers above them."""
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\nname = "one"\nlayers = ["a", "b | c"]\n', "utf-8"
    )
    root = tmp_path / "sample"
    (root / "inner" / "tests").mkdir(parents=True)
    (root / "one.py").write_text(ONE.replace("{long}", "x" * 100), "utf-8")
    (root / "inner" / "two.py").write_text(TWO, "utf-8")
    (root / "inner" / "tests" / "three.py").write_text("class Place: ...\n", "utf-8")
    return root


def test_each_measure_is_taken_as_the_script_says(readability: ModuleType, package: Path) -> None:
    """Every figure of the sample, counted by hand."""
    assert readability.measure(package) == {
        "code_lines": 11,
        "tokens": pytest.approx((3 + 3 + 8 + 10 + 10 + 5 + 3 + 8 + 3 + 7 + 7) / 11),
        "long_share": pytest.approx(100 / 11),
        "long_lines": 2,
        "conditionals": pytest.approx(2000 / 11),
        "nested_conditionals": 1,
        "comments": pytest.approx(100 / 23),
        "one_word": 75,
        "one_word_public": pytest.approx(200 / 3),
        "one_word_private": 100,
        "length_median": 2,
        "length_p90": 3,
        "length_most": 3,
        "typed": 50,
        "documented": 50,
        "import_rows": 2,
        "class_pairs": 1,
        "large_modules": 0,
    }


def test_parts_come_the_worst_first(readability: ModuleType, package: Path) -> None:
    """By package and by file; for comments the fewest come first."""
    by_package = readability.measure_parts(package, "package")
    assert list(readability.worst_first(by_package, "conditionals")) == ["one.py", "inner"]
    by_file = readability.measure_parts(package, "file")
    assert list(readability.worst_first(by_file, "comments")) == ["inner/two.py", "one.py"]


def test_an_empty_package_has_no_shares(readability: ModuleType, tmp_path: Path) -> None:
    """Nothing is divided by nothing."""
    found = readability.measure(tmp_path)
    assert found["code_lines"] == 0
    assert found["tokens"] is found["one_word"] is found["length_p90"] is found["typed"] is None


def test_the_table_has_ours_beside_the_anchors(
    readability: ModuleType,
    package: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The issue's range and the measured one, in 100 columns; the same figures as JSON."""
    target = package.parent / "found.json"
    monkeypatch.setattr(readability, "ENGINE", package)
    monkeypatch.setattr(sys, "argv", ["readability.py", "--json", str(target)])
    readability.main()
    lines = capsys.readouterr().out.splitlines()
    names = next(line for line in lines if line.startswith("one-word function names, %"))
    assert names.split()[-7:] == ["75.0", "9", "to", "49", "9.5", "to", "48.7"]
    assert max(map(len, lines)) <= 100
    assert json.loads(target.read_text("utf-8"))["cloakwork"]["one_word"] == 75


@pytest.mark.parametrize("by", ["package", "file"])
def test_parts_are_printed(
    readability: ModuleType,
    package: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by: str,
) -> None:
    """One line a part, after the names of the columns."""
    monkeypatch.setattr(readability, "ENGINE", package)
    monkeypatch.setattr(sys, "argv", ["readability.py", "--by", by, "--sort", "long_share"])
    readability.main()
    parts = [line.split()[0] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert parts == ["one.py", {"package": "inner", "file": "inner/two.py"}[by]]
