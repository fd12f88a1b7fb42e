"""``cloakwork risk`` beside the attack by hand: a table in Markdown, and the largest difference.

cloakwork risk LOG FOLDER/release --json > risk.json
python benchmarks/risk/attack.py LOG FOLDER/release/log.xes.gz FOLDER/truth.csv > attack.json
python benchmarks/risk/compare.py risk.json attack.json
"""

import json
import sys
from pathlib import Path


def main(risk: str, attack: str) -> None:
    """Print the table."""
    found = {each["name"]: each for each in json.loads(Path(risk).read_text())["attacks"]}
    by_hand = json.loads(Path(attack).read_text())
    print("| knows | alone | by hand | before | by hand | after | by hand |")
    print("|---|---|---|---|---|---|---|")
    largest = 0.0
    for name in by_hand["before"]:
        cells = []
        for kind, when, hand in (
            ("uniqueness", "before", "alone"),
            ("linking", "before", "before"),
            ("linking", "after", "after"),
        ):
            ours, theirs = found[f"{kind}/{name}"][when]["share"], by_hand[hand][name]
            largest = max(largest, abs(ours - theirs))
            cells += [f"{100 * ours:.1f}", f"{100 * theirs:.1f}"]
        print(f"| {found[f'linking/{name}']['knows']} | {' | '.join(cells)} |")
    print(f"\nlargest difference: {100 * largest:.1f} points")


if __name__ == "__main__":
    main(*sys.argv[1:3])
