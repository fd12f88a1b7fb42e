"""Draw the picture at the head of the README: a log before and after, and who is found in it.

    python docs/picture.py [FILE]

The example log is released by a shipped policy, and both are attacked by `cloakwork.risk`. Each
case is a row of boxes, one for each of its first events, in the colour of its activity; cases of
one sequence lie together, the commonest on top. The times are drawn anew in each run, so the shares
found in the release differ a little; what the picture was made of stands in its `metadata`.
"""

import json
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import cloakwork

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "assets" / "before-and-after.svg"
LOG = HERE.parent / "examples" / "logs" / "hospital.xes.gz"
POLICY = "flow-with-drawn-times"
K = 10
"""What the policy asks for: each released sequence is shared by at least so many cases."""
ATTACKS = {
    "linking/sequence": "its whole sequence of activities",
    "linking/start-day": "the day on which it started",
    "linking/timed-events-3": "3 of its events, times to the hour",
    "linking/case-attributes": "diagnosis, age and the like",
}
COLOURS = (
    *("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee8866", "#aa3377", "#77aadd", "#44bb99"),
    *("#bbcc33", "#aaaa00", "#eedd88", "#ffaabb", "#99ddff", "#997700", "#994455", "#6699cc"),
)
WIDTH, TOP, HEIGHT, BOX, PANEL = 860, 76, 330, 25, 400
RED = "#c1272d"
Variants = list[tuple[list[str], int]]


def variants_of(log: Any) -> Variants:
    """The sequences of a log, with how many cases have each, the commonest first."""
    counted = Counter(tuple(case) for case in sequences(log))
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [(list(sequence), count) for sequence, count in ordered]


def sequences(log: Any) -> list[list[str]]:
    """The activities of each case, in their order."""
    activities = log.activities.to_list()
    bounds = log.offsets.tolist()
    return [activities[a:b] for a, b in pairwise(bounds)]


def measured() -> dict[str, Any]:
    """One release of the example log, and what is found in both."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = f"sqlite:///{folder}/ledger.db"
        out = Path(folder) / "release"
        cloakwork.release(POLICY, LOG, out, ledger=ledger)
        released = cloakwork.read_log(next(out.glob("log.*")))
        report = cloakwork.risk(LOG, out)
    shares = {
        name: [
            None if of is None else [of.low, of.high]
            for of in (report.attack(name).before, report.attack(name).after)
        ]
        for name in ATTACKS
    }
    logs = (cloakwork.read_log(LOG), released)
    return {
        "policy": POLICY,
        "variants": [variants_of(log) for log in logs],
        "found": shares,
    }


def percent(bounds: list[float] | None) -> str:
    """A range of shares in whole percents."""
    if bounds is None:
        return "not released"
    low, high = (f"{100 * share:.0f}" for share in bounds)
    return f"{low} %" if low == high else f"{low} to {high} %"


def text(x: float, y: float, words: str, **style: str) -> str:
    """A line of text."""
    said = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}"{said}>{escape(words)}</text>'


def carpet(variants: Variants, left: float, colours: dict[str, str], title: str) -> list[str]:
    """One log: its sequences from the top, each as high as it is common."""
    cases = sum(count for _, count in variants)
    rare = sum(count for _, count in variants if count < K)
    drawn = [
        text(left, 46, title, font_weight="bold", font_size="15"),
        text(left, 64, f"{cases:,} cases, {len(variants)} sequences of activities", fill="#555"),
    ]
    at = float(TOP)
    for sequence, count in variants:
        high = HEIGHT * count / cases
        drawn += [
            f'<rect x="{left + BOX * place:g}" y="{at:.2f}" width="{BOX - 1}" height="{high:.2f}"'
            f' fill="{colours[activity]}"/>'
            for place, activity in enumerate(sequence[: (PANEL - 130) // BOX])
        ]
        at += high
    if rare:
        first = TOP + HEIGHT * (1 - rare / cases)
        x = left + PANEL - 120
        drawn += [
            f'<path d="M{x - 6} {first:.1f}h6V{TOP + HEIGHT}h-6" fill="none" stroke="{RED}"/>',
            text(x + 5, first + 14, f"{rare} cases share", fill=RED),
            text(x + 5, first + 29, "their sequence", fill=RED),
            text(x + 5, first + 44, f"with under {K - 1} others", fill=RED),
        ]
    return drawn


def picture(data: dict[str, Any]) -> str:
    """The SVG of what was measured."""
    before, after = data["variants"]
    common: Counter[str] = Counter()
    for sequence, count in before:
        for activity in sequence:
            common[activity] += count
    names = [name for name, _ in common.most_common()]
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    below = TOP + HEIGHT + 34
    bars = [
        text(20, below, "Share of cases found by who knows", font_weight="bold"),
        text(330, below, "before", fill=RED, font_weight="bold"),
        text(600, below, "after", fill="#228833", font_weight="bold"),
    ]
    for row, (name, words) in enumerate(ATTACKS.items(), start=1):
        y = below + 24 * row
        bars.append(text(20, y, words))
        for x, bounds, colour in zip(
            (330, 600), data["found"][name], (RED, "#228833"), strict=True
        ):
            long = 0.0 if bounds is None else 130 * bounds[1]
            bars.append(
                f'<rect x="{x}" y="{y - 11}" width="{long:.1f}" height="13" fill="{colour}"/>'
            )
            bars.append(text(x + long + 6, y, percent(bounds)))
    high = below + 24 * len(ATTACKS) + 22
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" width="{WIDTH}"'
            f' height="{high}" font-family="sans-serif" font-size="13" role="img">',
            "<title>A log before and after anonymization, and who is found in it</title>",
            f"<metadata>{escape(json.dumps(data, ensure_ascii=False))}</metadata>",
            f'<rect width="{WIDTH}" height="{high}" rx="6" fill="#fff"/>',
            text(
                20,
                22,
                f"Each row is a case, each box one of its first ten events. Policy: {POLICY}",
                fill="#555",
            ),
            *carpet(before, 20, colours, "Before"),
            *carpet(after, 20 + PANEL + 20, colours, "After"),
            *bars,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    target.write_text(picture(measured()), "utf-8")
    print(f"{target}: written")
