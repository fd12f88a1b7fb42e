"""C11: ``pack`` makes the one file to send; ``verify`` trusts no file that it did not make."""

import io
import json
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cloakwork as cloakwork_api
from cloakwork.errors import VerificationFailed
from conftest import Said
from counterexamples.test_what_verify_says import (  # noqa: F401 - fixtures
    Cloakwork,
    first_release,
    release,
)

PARTS = ["log.xes", "plan.json", "statement.json"]


@pytest.fixture
def made(release: Any) -> Path:  # noqa: F811
    """A release folder, its internal folder included."""
    return release()


@pytest.fixture(scope="session")
def packed_once(first_release: Path) -> Path:  # noqa: F811
    """The release as one file."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CLOAKWORK_HOME", str(first_release / "home"))
        cloakwork_api.pack(first_release / "release", first_release / "release.zip")
    return first_release / "release.zip"


@pytest.fixture
def packed(made: Path, packed_once: Path, tmp_path: Path) -> Path:
    """The same for each test."""
    return Path(shutil.copy(packed_once, tmp_path))


def test_it_holds_the_public_parts_and_verifies(packed: Path, cloakwork: Cloakwork) -> None:
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist() == PARTS
        assert archive.testzip() is None

    said = cloakwork("verify", packed)
    assert said.code == 0 and "never pass it on" not in said.out
    assert json.loads(cloakwork("verify", packed, "--json").out)["internal_folder"] is False


def test_the_same_parts_give_the_same_bytes(
    made: Path, packed: Path, cloakwork: Cloakwork, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(made, tmp_path / "elsewhere" / "copy")
    for path in sorted(elsewhere.iterdir(), reverse=True):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert cloakwork("pack", elsewhere, "--out", tmp_path / "again.zip").code == 0

    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


@pytest.mark.parametrize("name", PARTS)
def test_a_broken_release_is_not_packed(
    made: Path, cloakwork: Cloakwork, tmp_path: Path, name: str
) -> None:
    content = bytearray((made / name).read_bytes())
    content[len(content) // 2] ^= 1
    (made / name).write_bytes(content)

    said = cloakwork("pack", made, "--out", tmp_path / "broken.zip")
    assert said.code == 5, said.out
    assert not [path for path in tmp_path.iterdir() if "broken" in path.name]


@pytest.mark.parametrize("stranger", ["notes.txt", "log.csv", ".hidden"])
def test_a_release_with_a_stranger_is_not_packed(
    made: Path, cloakwork: Cloakwork, tmp_path: Path, stranger: str
) -> None:
    (made / stranger).write_text("")

    assert cloakwork("pack", made, "--out", tmp_path / "more.zip").code == 5
    assert not (tmp_path / "more.zip").exists()


def test_a_link_in_a_release_is_not_followed(
    made: Path, cloakwork: Cloakwork, tmp_path: Path
) -> None:
    (made / "log.xes").rename(tmp_path / "aside.xes")
    (made / "log.xes").symlink_to(tmp_path / "aside.xes")

    assert cloakwork("pack", made, "--out", tmp_path / "link.zip").code == 5
    assert not (tmp_path / "link.zip").exists()


def test_nothing_is_overwritten_and_nothing_lands_in_the_release(
    made: Path, cloakwork: Cloakwork, packed: Path
) -> None:
    before = packed.read_bytes()

    assert cloakwork("pack", made, "--out", packed).code == 1
    assert packed.read_bytes() == before
    assert cloakwork("pack", made, "--out", made / "in.zip").code == 1
    assert cloakwork("pack", made, "--out", made.parent / "release.tar").code == 2
    assert cloakwork("verify", made).code == 0


def parts_of(packed: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(packed) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, mode << 16
    return info


def written(entries: list[tuple[zipfile.ZipInfo, bytes]], comment: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for info, content in entries:
            archive.writestr(info, content)
        archive.comment = comment
    return buffer.getvalue()


def honest(parts: dict[str, bytes]) -> list[tuple[zipfile.ZipInfo, bytes]]:
    return [(entry(name), content) for name, content in parts.items()]


def deflated(name: str, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    info = entry(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info, content


def with_extra(name: str, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    info = entry(name)
    info.extra = struct.pack("<HH4s", 0x6666, 4, b"more")
    return info, content


def patched(content: bytes, offset_of: bytes, offset: int, value: bytes) -> bytes:
    """``content`` with ``value`` at ``offset`` behind the first ``offset_of``."""
    place = content.index(offset_of) + offset
    return content[:place] + value + content[place + len(value) :]


HOSTILE: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "compressed": lambda parts: written(
        [deflated(name, content) for name, content in parts.items()]
    ),
    "a bomb": lambda parts: written([*honest(parts)[1:], deflated("log.xes", b"\0" * 50_000_000)]),
    "a stranger": lambda parts: written([*honest(parts), (entry("readme.txt"), b"")]),
    "a stranger in place of the log": lambda parts: written(
        [*honest(parts)[1:], (entry("notes"), b"")]
    ),
    "a path upwards": lambda parts: written(
        [*honest(parts)[1:], (entry("../log.xes"), parts["log.xes"])]
    ),
    "an absolute path": lambda parts: written(
        [*honest(parts)[1:], (entry("/tmp/log.xes"), parts["log.xes"])]
    ),
    "a folder": lambda parts: written(
        [(entry("release/", stat.S_IFDIR | 0o755), b""), *honest(parts)[1:]]
    ),
    "in a folder": lambda parts: written(
        [(entry(f"release/{name}"), content) for name, content in parts.items()]
    ),
    "a link": lambda parts: written(
        [*honest(parts)[1:], (entry("log.xes", stat.S_IFLNK | 0o777), b"/etc/passwd")]
    ),
    "a name twice": lambda parts: written(
        [*honest(parts)[:2], (entry("plan.json"), parts["plan.json"])]
    ),
    "a name twice, and all others": lambda parts: written(
        [*honest(parts), (entry("plan.json"), b"{}")]
    ),
    "another order": lambda parts: written(honest(parts)[::-1]),
    "a comment": lambda parts: written(honest(parts), b"hidden"),
    "bytes before": lambda parts: b"hidden" + written(honest(parts)),
    "bytes behind": lambda parts: written(honest(parts)) + b"hidden",
    "an extra field": lambda parts: written(
        [with_extra("log.xes", parts["log.xes"]), *honest(parts)[1:]]
    ),
    "another time": lambda parts: patched(written(honest(parts)), b"PK\x03\x04", 10, b"\x01\x00"),
    "another name in the local header": lambda parts: patched(
        written(honest(parts)), b"PK\x03\x04", 30, b"bog.xes"
    ),
    "a wrong checksum": lambda parts: patched(
        written(honest(parts)), b"PK\x01\x02", 16, b"\0\0\0\0"
    ),
    "an impossible size": lambda parts: patched(
        written(honest(parts)), b"PK\x01\x02", 20, b"\xff\xff\xff\x7f" * 2
    ),
    "an encrypted part": lambda parts: patched(
        written(honest(parts)), b"PK\x01\x02", 8, b"\x01\x00"
    ),
    "an unknown compression": lambda parts: patched(
        written(honest(parts)), b"PK\x01\x02", 10, b"\x63\x00"
    ),
    "a huge list": lambda parts: patched(
        written(honest(parts)), b"PK\x05\x06", 12, b"\xff\xff\xff\x7f"
    ),
    "no end": lambda parts: written(honest(parts))[:-1],
    "nothing": lambda _: b"",
    "garbage": lambda _: b"\xff" * 1000,
    "only an end": lambda _: b"PK\x05\x06" + bytes(18),
    "a changed log": lambda parts: written(honest(parts | {"log.xes": parts["log.xes"] + b"\n"})),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_pack_did_not_make_is_refused(
    packed: Path, cloakwork: Cloakwork, tmp_path: Path, what: str
) -> None:
    parts = parts_of(packed)
    assert written(honest(parts)) == packed.read_bytes(), "what is spoilt here is what pack makes"
    folder = tmp_path / "received"
    folder.mkdir()
    hostile = folder / "release.zip"
    hostile.write_bytes(HOSTILE[what](parts))

    said: Said = cloakwork("verify", hostile)

    assert said.code == 5, said.out
    assert said.err.startswith("verification failed: ") and "Traceback" not in said.err
    assert [path.name for path in folder.iterdir()] == ["release.zip"]
    assert [path.name for path in tmp_path.iterdir() if "log.xes" in path.name] == []


def test_every_flipped_byte_of_a_packed_release_is_found(packed: Path) -> None:
    """Sixty places spread over the file: nothing in it is left unsigned."""
    original = packed.read_bytes()
    for place in range(0, len(original), len(original) // 60):
        packed.write_bytes(original[:place] + bytes([original[place] ^ 16]) + original[place + 1 :])
        with pytest.raises(VerificationFailed):
            cloakwork_api.verify(packed)


def test_a_file_of_another_kind_is_a_usage_error(made: Path, cloakwork: Cloakwork) -> None:
    assert cloakwork("verify", made / "plan.json").code == 2
