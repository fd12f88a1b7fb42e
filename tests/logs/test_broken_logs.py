"""Files that are no well-formed logs: each is refused as a whole, with one line that says where and
what to do.
"""

from pathlib import Path

import pytest
import yaml

from cloakwork.errors import LogError
from cloakwork.log.formats import read_annotations, read_log

BROKEN = Path(__file__).parent / "broken"
EXPECTED = yaml.safe_load((BROKEN / "expected.yaml").read_text("utf-8"))


def test_every_broken_file_has_an_expectation() -> None:
    """A file without one would be tested by nobody."""
    assert sorted(EXPECTED) == sorted(
        path.name for path in BROKEN.iterdir() if path.suffix != ".yaml"
    )


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_broken_file_is_refused_in_one_line(name: str) -> None:
    """The line names the file, its line where there is one, the fault and a remedy."""
    path = BROKEN / name
    with pytest.raises(LogError) as refusal:
        read_log(path)
    assert f"{path}{EXPECTED[name]}" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.problem.hint


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """Also when the name has no suffix that tells the format."""
    for name in ("none.xes", "none.csv", "none.parquet", "none"):
        with pytest.raises(LogError, match="there is no such file; check the path"):
            read_log(tmp_path / name)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """A folder may be called like a log."""
    for name in ("folder.xes", "folder.csv", "folder.parquet", "folder"):
        (tmp_path / name).mkdir()
        with pytest.raises(LogError, match="the folder holds no log; check the path"):
            read_log(tmp_path / name)


def test_names_from_the_file_cannot_break_the_line(tmp_path: Path) -> None:
    """An attribute's key may hold line breaks; the message stays one line."""
    path = tmp_path / "log.xes"
    path.write_text('<log><trace>\n<int key="a&#10;b&#13;&#x85;c" value="x"/></trace></log>')
    with pytest.raises(LogError) as refusal:
        read_log(path)
    assert len(str(refusal.value).splitlines()) == 1
    assert refusal.value.problem.line == 2


@pytest.mark.parametrize(
    "name", ["doctype.xes", "wrong-root.xes", "text.xes", "unknown-encoding.xes"]
)
def test_annotations_of_a_broken_file_are_refused(name: str) -> None:
    """Reading only the header is no less strict about it."""
    with pytest.raises(LogError):
        read_annotations(BROKEN / name)
