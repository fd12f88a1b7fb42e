"""The console's folder: what is found there, and that no name leads out of it."""

import pytest

from cloakwork.authoring.versions import text_digest
from cloakwork.console.visits import (
    MOST_ENTRIES,
    OutsideFolder,
    Workplace,
    write_text,
)
from console.conftest import LOG, POLICY

OUTSIDE = [
    "",
    ".",
    "..",
    "../secret.yaml",
    "sub/../../secret.yaml",
    "/etc/passwd",
    "//etc/passwd",
    "sub//x.yaml",
    "link.yaml",
    "linked/secret.yaml",
    ".hidden.yaml",
    "sub\\x.yaml",
    "x\0.yaml",
]


@pytest.fixture
def with_links(folder):
    """A folder from which links lead out, and a file outside it."""
    secret = folder.parent / "secret.yaml"
    secret.write_text("kind: the secret\n")
    (folder / ".hidden.yaml").write_text("kind: the secret\n")
    (folder / "link.yaml").symlink_to(secret)
    (folder / "linked").symlink_to(folder.parent)
    (folder / "sub").mkdir()
    return folder


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_leads_out(with_links, name):
    place = Workplace.at(with_links)
    with pytest.raises(OutsideFolder):
        place.existing(name)
    with pytest.raises(OutsideFolder):
        place.new(name, ending=".yaml")


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_page_shows_what_lies_outside(with_links, visitor, name):
    asked = ("/policy?file", "/release?folder", "/release/report?folder", "/packed?file")
    for page in asked:
        path, field = page.split("?")
        answer = visitor.get(path, params={field: name})
        assert answer.status_code == 400
        assert "the secret" not in answer.text


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_form_reads_or_writes_outside(with_links, visitor, name):
    before = {path: path.stat().st_mtime_ns for path in with_links.parent.rglob("*")}
    sent = [
        visitor.send("/policy/save", file=name, text="x", digest=text_digest("x")),
        visitor.send("/policy/check", file=name, text="x"),
        visitor.send("/policy/lint", file=name, log=LOG),
        visitor.send("/policy/lint", file=POLICY, log=name),
        visitor.send("/suggest", log=LOG, out=name, audience="share"),
        visitor.send("/suggest", log=name, out="new", audience="share"),
        visitor.send("/plan", policy=name, log=LOG),
        visitor.send("/plan", policy=POLICY, log=name),
        visitor.send("/apply", policy=POLICY, log=LOG, out=name),
        visitor.send("/release/verify", folder=name),
        visitor.send("/release/pack", folder=name, out="x"),
    ]
    assert [answer.status_code for answer in sent] == [400] * len(sent)
    assert {path: path.stat().st_mtime_ns for path in with_links.parent.rglob("*")} == before


def test_what_the_folder_holds(with_links):
    found = Workplace.at(with_links).look()
    assert (found.policies, found.logs, found.releases) == ((POLICY,), (LOG,), ())
    assert found.all_seen


def test_a_folder_of_too_much_says_so(folder, monkeypatch):
    monkeypatch.setattr("cloakwork.console.visits.MOST_ENTRIES", 1)
    assert MOST_ENTRIES > 1
    assert not Workplace.at(folder).look().all_seen


def test_nothing_is_overwritten_by_a_new_file(folder):
    with pytest.raises(OutsideFolder, match="exists already"):
        Workplace.at(folder).new("dp-control-flow", ending=".yaml")


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["policy.yaml"]


def test_object_centric_logs_are_listed(visitor):
    """By their beginning, where others have their ending, too; an error names the file as here."""
    kept = {"a.json": '{"eventTypes": [], "objectTypes": []}', "b.json": '{"name": "x"}'}
    for name, text in kept.items():
        (visitor.folder / name).write_text(text, "utf-8")
    (visitor.folder / "c.sqlite").write_bytes(b"SQLite format 3\0")
    assert {"a.json", "c.sqlite"} == set(visitor.state.workplace.look().logs) - {LOG}
    job = visitor.job(visitor.send("/suggest", log="a.json", out="new", audience="share"))
    assert job.state == "failed"
    assert job.problem.startswith("a.json: ")
