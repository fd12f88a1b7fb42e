"""Write ``frozen.json`` anew: only where a decision says why an output may change.

    PYTHONPATH=engine:tests python tests/frozen/regenerate.py [--only WORD] [--dump FOLDER]

``--dump`` writes the texts of the cells to a folder instead, to compare two states of the engine.
"""

import argparse
import json
import tempfile
from pathlib import Path

from frozen.cells import all_cells, digest

FILE = Path(__file__).with_name("frozen.json")


def regenerate() -> None:
    """Make each cell, and keep its digests or its texts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--dump", type=Path)
    asked = parser.parse_args()
    kept = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for place, cell in enumerate(all_cells()):
        if asked.only not in cell.name:
            continue
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as searches:
            texts = cell.texts(Path(folder), Path(searches))
        if asked.dump is None:
            kept[cell.name] = {part: digest(text) for part, text in sorted(texts.items())}
            continue
        asked.dump.mkdir(parents=True, exist_ok=True)
        for part, text in texts.items():
            (asked.dump / f"{place:02d}-{part}.txt").write_text(f"{cell.name}\n{text}", "utf-8")
    if asked.dump is None:
        FILE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    regenerate()
