"""An attack by hand, on files, without Cloakwork: what its ``risk`` is compared with.

    python benchmarks/risk/attack.py LOG RELEASED_LOG TRUTH [TARGETS] > attack.json

Plain Python. LOG and RELEASED_LOG are XES (may be gzipped); TRUTH has a line a released case: its
id, and the id in LOG. Each attack looks for cases of LOG, first in LOG itself, then in
RELEASED_LOG; it guesses among the cases that fit best, and the truth says how often that is right.
"""

import csv
import gzip
import json
import random
import sys
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

HOUR, DAY = 3600, 86400


def read(path):
    """{case id: [(activity, seconds), ...]}, events by time, ties as in the file."""
    log, opener = {}, gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.rpartition("}")[2] != "trace":
                continue
            name, events = None, []
            for child in element:
                if child.get("key") == "concept:name":
                    name = child.get("value")
                if child.tag.rpartition("}")[2] == "event":
                    values = {each.get("key"): each.get("value") for each in child}
                    time = datetime.fromisoformat(values["time:timestamp"].replace("Z", "+00:00"))
                    events.append((values["concept:name"], time.timestamp()))
            events.sort(key=lambda event: event[1])
            if events:
                log[name] = events
            element.clear()
    return log


def edits(one, other):
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


class Attacked:
    """A log in which cases are looked for."""

    def __init__(self, log):
        self.log = log
        self.by_variant = defaultdict(list)
        for name, events in log.items():
            self.by_variant[tuple(a for a, _ in events)].append(name)
        self.counts = {variant: Counter(variant) for variant in self.by_variant}
        self.near = {}
        self.of_activity = {}
        for name, events in log.items():
            for activity, time in events:
                self.of_activity.setdefault(activity, {}).setdefault(name, []).append(time)

    def nearest(self, variant):
        if variant in self.by_variant:
            return [variant]
        if variant not in self.near:
            far = {other: edits(variant, other) for other in self.by_variant}
            self.near[variant] = [o for o, d in far.items() if d == min(far.values())]
        return self.near[variant]

    def variants(self, score):
        scores = {variant: score(variant) for variant in self.by_variant}
        best = max(scores.values())
        return [n for v, s in scores.items() if s == best for n in self.by_variant[v]]

    def cases(self, far, among=None):
        scores = {name: far(name) for name in (self.log if among is None else among)}
        least = min(scores.values())
        return [name for name, distance in scores.items() if distance <= least]


def away(time, known, step):
    first = known // step * step
    return max(first - time, time - first - step + 1e-6, 0)


def points(events, number, seed):
    chosen = random.Random(seed).sample(range(len(events)), min(number, len(events)))
    return [events[place] for place in sorted(chosen)]


def aligned(one, other):
    """Positions of a longest common subsequence."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            same = one[i] == other[j]
            table[i][j] = table[i + 1][j + 1] + 1 if same else max(table[i + 1][j], table[i][j + 1])
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1


def attacks(name, events, attacked):
    """Each attack's name and the cases that fit best."""
    variant, log = tuple(a for a, _ in events), attacked.log
    for number in (1, 3):
        known = Counter(a for a, _ in points(events, number, f"{name}/{number}"))
        counts = attacked.counts
        fits = attacked.variants(lambda v: sum((counts[v] & known).values()))  # noqa: B023
        yield f"events-{number}", fits
    prefix = variant[:3]

    def common(v):
        return next((i for i, a in enumerate(prefix) if v[i : i + 1] != (a,)), len(prefix))

    yield "prefix-3", attacked.variants(common)
    yield "activities", attacked.variants(lambda v: -len(set(v) ^ set(variant)))
    same = [n for v in attacked.nearest(variant) for n in attacked.by_variant[v]]
    yield "sequence", same
    start, last = events[0][1], events[-1][1]
    for words, step in (("hour", HOUR), ("day", DAY)):
        fits = attacked.cases(lambda n: away(log[n][0][1], start, step))  # noqa: B023
        yield f"start-{words}", fits
    took = last - start
    yield "duration", attacked.cases(lambda n: away(log[n][-1][1] - log[n][0][1], took, HOUR))
    total = defaultdict(float)
    for activity, time in points(events, 3, f"{name}/timed"):
        there = attacked.of_activity.get(activity, {})
        for n in log:
            total[n] += min((away(t, time, HOUR) for t in there.get(n, ())), default=1e10)
    yield "timed-events-3", attacked.cases(total.__getitem__)
    yield "sequence-start", attacked.cases(lambda n: away(log[n][0][1], start, 1), same)
    pairs = {v: list(aligned(variant, v)) for v in attacked.nearest(variant)}

    def by_times(n):
        there = log[n]
        v = tuple(a for a, _ in there)
        return round(sum(abs(events[i][1] - there[j][1]) for i, j in pairs[v]), 3)

    yield "sequence-times", attacked.cases(by_times, same)


def main(log_path, released_path, truth_path, targets=400):
    log, released = read(log_path), read(released_path)
    with Path(truth_path).open(newline="") as file:
        own = {original: name for name, original in csv.reader(file)}
    names = random.Random(7).sample(sorted(log), min(int(targets), len(log)))
    shares = {}
    for what, attacked, right in (
        ("before", Attacked(log), lambda n: n),
        ("after", Attacked(released), own.get),
    ):
        total, alone = Counter(), Counter()
        for name in names:
            for attack, fits in attacks(name, log[name], attacked):
                total[attack] += (right(name) in fits) / len(fits)
                alone[attack] += len(fits) == 1
        shares[what] = {attack: total[attack] / len(names) for attack in total}
        if what == "before":
            shares["alone"] = {attack: alone[attack] / len(names) for attack in total}
    print(json.dumps(shares, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
