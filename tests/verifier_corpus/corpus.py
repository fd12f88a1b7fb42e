"""The corpus, written to a folder."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import TypeAdapter

from cloakwork.publishing.keys import SigningKey
from verifier_corpus.forgeries import FORGERIES, Release
from verifier_corpus.releases import copy_of, make_releases, new_key

VERDICTS = Path(__file__).with_name("verdicts.json")


@dataclass(frozen=True)
class Verdict:
    """What a verifier should find of a release, and why; ``says``: a part of what ours says."""

    verdict: Literal["accept", "refuse"]
    because: str
    says: str = ""


def verdicts() -> dict[str, Verdict]:
    """The verdict on each release of the corpus, by its name."""
    return TypeAdapter(dict[str, Verdict]).validate_json(VERDICTS.read_bytes())


def write_corpus(out: Path) -> dict[str, Path]:
    """Write the corpus to the new folder ``out``; each release, a folder or a packed file, by name.

    Beside them stand ``signer.pub.pem``, the key to verify with, and ``verdicts.json``.
    """
    out.mkdir(parents=True)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        key, stranger = new_key(place / "signer.pem"), new_key(place / "stranger.pem")
        (out / "signer.pub.pem").write_text(key.public_pem)
        (out / "verdicts.json").write_bytes(VERDICTS.read_bytes())
        made = make_releases(place, place / "signer.pem")
        found = {f"good-{name}": copy_of(good, out / f"good-{name}") for name, good in made.items()}
        for name in FORGERIES:
            found[name] = _forged(name, made, out, key, stranger)
    return found


def _forged(
    name: str, made: dict[str, Path], out: Path, key: SigningKey, stranger: SigningKey
) -> Path:
    forgery = FORGERIES[name]
    folder = copy_of(made[forgery.of], out / name)
    before = _content(folder)
    forgery.make(Release(folder, key, stranger, made))
    if folder.is_dir():
        assert _content(folder) != before, f"{name} changes nothing"
        return folder
    return folder.with_suffix(".zip")


def _content(folder: Path) -> dict[str, object]:
    return {
        str(path): path.is_symlink() or (path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }
