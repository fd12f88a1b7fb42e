"""Random policies as plain values: of every kind of release that there is, with some of what must
be refused. The same seed gives the same policy.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

Document = dict[str, Any]

ATTRIBUTES = ("case:age", "case:kind", "department", "cost", "org:resource")

GROUPS = {"near": ["x", "y"], "far": ["z"]}

FAMILIES = (
    *("count", "close", "tlkc", "times", "local", "employees", "log") * 2,
    *("drawn", "flow", "any"),
)


class Draw(Random):
    """``plain``: strengths of noise are the first of their choices, so that policies share what is
    calibrated for them.
    """

    def __init__(self, seed: int, *, plain: bool) -> None:
        super().__init__(seed)
        self.plain = plain

    def strength(self, choices: Sequence[Any]) -> Any:
        return choices[0] if self.plain else self.choice(choices)


def random_policy(seed: int, *, plain: bool = False) -> Document:
    """The policy of one seed."""
    draw = Draw(seed, plain=plain)
    rules = _rules(draw)
    spec: Document = {"unit": "case", "attributes": rules}
    if draw.random() < 0.25:
        treatment = "drop" if draw.random() < 0.85 else draw.choice(["keep", "pseudonymise"])
        rules["case:patient"] = {"role": "identifier", "treatment": treatment}
        spec["unit"] = {"attribute": "case:patient", "max_cases": draw.strength([2, 1, 5])}
        spec["unit"] |= {"on_conflict": "split"} if draw.random() < 0.1 else {}
    family = draw.choice(FAMILIES)
    if family in ("times", "drawn", "log") and draw.random() < 0.9:
        rules["time:timestamp"] = {"role": "timestamp"}
    spec["guarantees"] = _goals(draw, family, spec)
    _expose(draw, spec)
    spec["assume"] = _facts(draw, spec)
    if draw.random() < 0.4:
        spec["budget"] = _budget(draw, spec["guarantees"])
    if draw.random() < 0.3:
        spec["mechanisms"] = _means(draw)
    if draw.random() < 0.08:
        spec["profile"] = draw.choice(
            [{"epsilon": 0.1}, {"epsilon": 1.5}, {"epsilon": 0.2, "delta": 1e-7}]
        )
    rules["*"] = {"treatment": "drop"}
    header = {"name": "random", "version": "1.0.0", "owner": "a", "purpose": "b", "dataset": "c"}
    return {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": header,
        "spec": {key: value for key, value in spec.items() if value},
    }


def _rules(draw: Draw) -> Document:
    rules: Document = {"concept:name": {"role": "control-flow"}}
    if draw.random() < 0.8:
        rules["time:timestamp"] = {"role": "timestamp"}
        if draw.random() < 0.15:
            rules["time:timestamp"]["treatment"] = draw.choice(["keep", "drop"])
    for name in draw.sample(ATTRIBUTES, draw.randrange(4)):
        rule: Document = {"role": draw.choice(["quasi-identifier", "sensitive", "insensitive"])}
        treatment = draw.choice([None, None, None, "drop", "keep", "pseudonymise", "generalise"])
        if treatment:
            rule["treatment"] = treatment
        numeric = name in ("case:age", "cost")
        coarsens = rule["role"] == "quasi-identifier" and treatment in (None, "keep")
        if treatment == "generalise" or (coarsens and draw.random() < 0.5):
            rule |= {"bins": [0, 20, 60, 120]} if numeric else {"hierarchy": GROUPS}
        public = {"range": [0, 120]} if numeric else {"domain": ["x", "y", "z"]}
        rule |= draw.choice([public, public, {"find_values": True}, {}])
        rules[name] = rule
    return rules


def _names(draw: Draw, spec: Document) -> list[str]:
    """Some of the declared attributes, most often of those that nothing is done with."""
    named = [name for name in spec["attributes"] if name in ATTRIBUTES]
    free = [name for name in named if "treatment" not in spec["attributes"][name]]
    pool = free if free and draw.random() < 0.9 else named
    names = draw.sample(pool, draw.randint(1, len(pool))) if pool else []
    return [*names, "case:patient"] if draw.random() < 0.02 else names


def _goals(draw: Draw, family: str, spec: Document) -> list[Document]:
    flow = [_k_anonymity(draw, spec)] if draw.random() < 0.85 else []
    names = _names(draw, spec)
    match family:
        case "count":
            return [_k_anonymity(draw, spec)]
        case "close" if names:
            return [*flow, *(_closeness(draw, name) for name in names[:2])]
        case "tlkc":
            return [_confidence_bound(draw, names)]
        case "employees":
            return _of_employees(draw, spec)
        case "times":
            return [*flow, _of_times(draw)]
        case "drawn":
            over = ["timestamps"] * (draw.random() < 0.8) + names * (draw.random() < 0.5)
            return [*flow, {**_epsilon(draw), "neighbours": "bounded", "over": over or ["cost"]}]
        case "local" if names:
            parted = [names] if draw.random() < 0.6 else [[name] for name in names]
            noise = [_local(draw, some) for some in parted]
            return [*flow, *noise, *([_of_times(draw)] * (draw.random() < 0.3))]
        case "log":
            over = ["timestamps"] * (draw.random() < 0.6) + names * (draw.random() < 0.7)
            return [{**_epsilon(draw), "over": ["control-flow", *over]}]
        case "any":
            first = flow[: draw.random() < 0.5]
            return [*first, *(_any(draw, spec, names) for _ in range(draw.randint(1, 2)))]
        case "flow":
            return [{**_epsilon(draw), "over": ["control-flow"]}]
    return [_k_anonymity(draw, spec)]


def _any(draw: Draw, spec: Document, names: list[str]) -> Document:
    columns = ["control-flow", "timestamps", *names]
    over = draw.sample(columns, draw.randint(1, len(columns))) + ["metadata"] * (
        draw.random() < 0.1
    )
    some = names or ["case:age"]
    return draw.choice(
        [
            _k_anonymity(draw, spec),
            _of_times(draw),
            _local(draw, some),
            _closeness(draw, draw.choice([*some, "timestamps"])),
            _confidence_bound(draw, names),
            {**_epsilon(draw), "over": over},
            {**_epsilon(draw), "over": over, "neighbours": "bounded"},
        ]
    )


def _k_anonymity(draw: Draw, spec: Document) -> Document:
    names = _names(draw, spec) if draw.random() < 0.3 else []
    goal: Document = {"kind": "k-anonymity", "k": draw.choice([2, 5, 20])}
    goal["over"] = ["control-flow", *names]
    if draw.random() < 0.3:
        goal["scope"] = "prefixes"
    if draw.random() < (0.05 if spec["unit"] == "case" else 0.5):
        goal["count"] = "units"
    if draw.random() < 0.05:
        goal["over"] = draw.choice(
            [names or ["timestamps"], ["control-flow", "timestamps"], ["metadata", "control-flow"]]
        )
    return goal


def _closeness(draw: Draw, name: str) -> Document:
    classes = draw.choice([{}, {"classes": "prefixes"}])
    if draw.random() < 0.4:
        return {"kind": "l-diversity", "l": draw.choice([2, 3]), "attribute": name, **classes}
    if draw.random() < 0.3:
        t = draw.choice([0.5, 1.5, 2])
        return {"kind": "t-closeness", "t": t, "attribute": name, "distance": "stochastic"}
    return {"kind": "t-closeness", "t": draw.choice([0.1, 0.4]), "attribute": name, **classes}


def _confidence_bound(draw: Draw, names: list[str]) -> Document:
    goal: Document = {"kind": "confidence-bound", "L": draw.choice([1, 2]), "K": 5}
    goal["background"] = draw.choice(["set", "multiset", "sequence", "relative"])
    if goal["background"] == "relative":
        goal["precision"] = "1d"
    if names and draw.random() < 0.5:
        goal |= {"attribute": names[0], "C": 0.6}
    return goal


def _of_employees(draw: Draw, spec: Document) -> list[Document]:
    spec["attributes"]["org:resource"] = {"role": "identifier", "treatment": "drop"}
    unit = {"attribute": "org:resource", "level": "event"}
    if draw.random() < 0.2:
        spec["attributes"]["org:resource"]["treatment"] = draw.choice(["keep", "pseudonymise"])
    counted = {"kind": "k-anonymity", "k": draw.choice([2, 3])}
    if draw.random() < 0.4:
        return [{"kind": "k-anonymity", "k": draw.choice([5, 20])}, {**counted, "unit": unit}]
    spec["unit"] = unit
    over = ["control-flow"] + ["timestamps"] * (draw.random() < 0.3)
    return draw.choice(
        [
            [counted],
            *([{**_epsilon(draw), "over": over}],) * 2,
            [counted, {**_epsilon(draw), "over": ["timestamps"], "neighbours": "bounded"}],
            [counted, _of_times(draw)],
        ]
    )


def _of_times(draw: Draw) -> Document:
    epsilon, shift = draw.choice([0.5, 1.0, 2.0]), draw.choice(["1h", "1d"])
    return {"kind": "metric-privacy", "epsilon": epsilon, "shift": shift, "over": ["timestamps"]}


def _local(draw: Draw, names: list[str]) -> Document:
    goal: Document = {"kind": "local-dp", "epsilon": draw.choice([1.0, 2.0]), "over": names}
    return goal | ({"per": "case"} if draw.random() < 0.5 else {})


def _epsilon(draw: Draw) -> Document:
    goal: Document = {"kind": "differential-privacy"}
    goal |= draw.strength(
        [{"epsilon": 1.0}] * 5 + [{"epsilon": 2.0}] * 4 + [{"guessing_advantage": 0.2}]
    )
    return goal | draw.choice([{"delta": 1e-6}] * 5 + [{"delta": draw.strength([1e-3, 1e-5])}, {}])


def _expose(draw: Draw, spec: Document) -> None:
    covered = {name for goal in spec["guarantees"] for name in goal.get("over", ["control-flow"])}
    covered |= {goal["attribute"] for goal in spec["guarantees"] if "attribute" in goal}
    shown = [
        name
        for name, rule in spec["attributes"].items()
        if rule.get("treatment") not in (None, "drop") and name not in covered
    ]
    if not covered & {"control-flow", "concept:name"}:
        shown.append("control-flow")
    of_times = "timestamps" in covered
    spec["expose"] = {
        name: "known anyway"
        for name in shown
        if draw.random() < 0.9 and not (of_times and name == "time:timestamp")
    }


def _facts(draw: Draw, spec: Document) -> Document:
    said: Document = {
        "alphabet": ["a", "b", "c"],
        "units_at_most": draw.strength([10_000, 100]),
        "longest_case": 10,
        "longest_gap": "10d",
        "window": {"start": "2023-01-01T00:00:00Z", "end": "2025-01-01T00:00:00Z"},
        "time_zone": "Europe/Amsterdam",
        "grid": "1m",
        "rules": {"starts_with": ["a"]},
    }
    rare = {"alphabet", "rules", "time_zone"}
    facts = {n: v for n, v in said.items() if draw.random() < (0.1 if n in rare else 0.5)}
    if draw.random() < 0.8 and "event" in str(spec["unit"]):
        facts["cases_per_employee"] = draw.strength([2, 20])
    return facts


def _budget(draw: Draw, goals: list[Document]) -> Document:
    """A total, or a limit of a release: too small now and then."""
    paid = [goal for goal in goals if goal["kind"] == "differential-privacy"]
    factor = draw.choice([0.5, 1.0, 1.0, 4.0])
    limit = {
        "epsilon": factor * max(1.0, sum(goal.get("epsilon", 1.0) for goal in paid)),
        "delta": sum(goal.get("delta", 0.0) for goal in paid),
    }
    return draw.choice([{"release": limit}, {"total": limit}, {"total": limit | _apart(draw)}])


def _apart(draw: Draw) -> Document:
    return {name: {"epsilon": draw.choice([0.5, 2.0])} for name in ("metric", "local")}


def _means(draw: Draw) -> Document:
    families = ["kanon/*", "variants/*", "timestamps/*", "attributes/*", "bound"]
    names = ["kanon/optimal", "variants/threshold", "timestamps/laplace", "timestamps/histogram"]
    return draw.choice(
        [
            {"allow": families},
            {"allow": draw.sample(families, 4)},
            {"deny": [draw.choice([*families[:4], *names])]},
            {"prefer": [draw.choice(names)]},
            {"prefer": [draw.choice(["variants/prefix-tree", "dfg/laplace", "kanon/pretsa"])]},
            {"deny": ["bound", "attributes/redact", "kanon/fill"]},
            {"allow": ["*"], "prefer": ["attributes/histogram"], "deny": ["kanon/optimal"]},
        ]
    )
