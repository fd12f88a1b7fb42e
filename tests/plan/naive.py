"""A second derivation: which claims a policy gets, and what they cost, by the rules of the privacy
design (section 3, with 1, 2 and 4) and nothing else. It shares no code with the engine, reads the
policy as plain values, and was written without looking at the planner.

Two halves. ``claims_of`` goes by the policy alone: the claims, or the rule that forbids them.
``Lineage`` goes by the steps of a plan, as plain values (what each reads, measures and writes, and
which noise it draws): whether a claim follows from them, and what it costs by formulas of its own.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scipy.stats import norm

FLOW, TIMES, META = "control-flow", "timestamps", "metadata"

COVERING = {"keep", "pseudonymise", "generalise"}

MEANS = {
    "k-anonymity": ("kanon/optimal",),
    "employees": ("kanon/employees",),
    "coarser": ("kanon/generalise",),
    "closeness": ("kanon/closeness",),
    "confidence-bound": ("kanon/tlkc",),
    "flow": ("variants/adaptive", "variants/threshold", "variants/markov"),
    "drawn-times": ("timestamps/histogram", "timestamps/regression"),
    "drawn-values": ("attributes/histogram", "attributes/regression"),
    "noise-on-times": ("timestamps/laplace",),
    "domain": ("attributes/randomised-response",),
    "range": ("attributes/bounded-laplace",),
}
"""What the catalogue says that mechanisms give (``cloakwork mechanisms``)."""


class Refused(Exception):
    """The rules by which a policy has no plan, each in a few words (``args``)."""


@dataclass(frozen=True)
class Claim:
    """``strength``: the numbers and words of it; ``given``: what is taken as known, None where
    nothing is; ``hypotheses``: facts on which it rests, by the name of what declares them.
    """

    kind: str
    over: frozenset[str]
    strength: Mapping[str, Any]
    protects: str
    given: frozenset[str] | None = None
    hypotheses: frozenset[str] = frozenset()


class Reading:
    """What a policy says of columns, facts and means."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.broken: list[str] = []
        self.spec = document["spec"]
        self.rules = self.spec["attributes"]
        self.assume = self.spec.get("assume", {})
        unit = self.spec.get("unit", "case")
        self.unit = {} if unit == "case" else unit
        self.goals = [self._goal(each) for each in self.spec["guarantees"]]
        covered = [name for goal in self.goals for name in goal["over"]]
        self.covered = set(covered)
        self.exposed = {self.column(name) for name in self.spec.get("expose", {})}
        # Section 2: a column is covered, dropped or exposed. The control flow always stays.
        self.released = {FLOW}
        for name, rule in self.rules.items():
            column, treatment = self.column(name), rule.get("treatment")
            if treatment in COVERING or (treatment is None and column in self.covered):
                self.released.add(column)

    def column(self, name: str) -> str:
        role = self.rules.get(name, {}).get("role")
        return {"control-flow": FLOW, "timestamp": TIMES}.get(role, name)

    def _goal(self, written: Mapping[str, Any]) -> dict[str, Any]:
        names = written.get("over")
        if names is None:
            names = {"metric-privacy": [TIMES]}.get(written["kind"], [FLOW])
        if written["kind"] in ("t-closeness", "l-diversity"):
            names = [written["attribute"]]
        if written["kind"] == "confidence-bound":
            names = [FLOW, *([written["attribute"]] if "attribute" in written else [])]
            names += [TIMES] if written.get("background") == "relative" else []
        own = written.get("unit", self.unit) if written["kind"] == "k-anonymity" else self.unit
        own = {} if own == "case" else own
        return {**written, "over": [self.column(name) for name in names], "unit": own}

    def allows(self, means: str) -> bool:
        said = self.spec.get("mechanisms", {})
        return any(
            any(_fits(glob, name) for glob in said.get("allow", ["*"]))
            and not any(_fits(glob, name) for glob in said.get("deny", []))
            for name in MEANS[means]
        )

    def draws_times(self) -> bool:
        """Rather than adding noise to each, where that is not asked for by name."""
        preferred = self.spec.get("mechanisms", {}).get("prefer", ())
        return self.allows("drawn-times") and "timestamps/laplace" not in preferred

    def refuse(self, rule: str) -> None:
        self.broken.append(rule)

    def need(self, means: str) -> None:
        if not self.allows(means):
            self.refuse("no means")

    def is_changed(self, column: str) -> bool:
        return self.rule_of(column).get("treatment", "keep") != "keep"

    def rule_of(self, column: str) -> Mapping[str, Any]:
        return self.rules.get(column, {})


def _fits(glob: str, name: str) -> bool:
    return bool(re.fullmatch(re.escape(glob).replace(r"\*", ".*").replace(r"\?", "."), name))


def claims_of(document: Mapping[str, Any]) -> list[Claim]:
    """The claims of the release that a policy asks for, in its order; raises Refused."""
    policy = Reading(document)
    claims = [RULES[goal["kind"]](policy, goal) for goal in policy.goals]
    for rule in (_columns, _together, _process_rules):
        rule(policy)
    _within_budget(policy, claims)
    if policy.broken:
        raise Refused(*policy.broken)
    return claims


def _columns(policy: Reading) -> None:
    """Section 2: covered or exposed, and released where it is covered."""
    if policy.released - policy.covered - policy.exposed:
        policy.refuse("exposed without a reason")
    if policy.exposed & policy.covered:
        policy.refuse("exposed and covered")
    if policy.covered - policy.released:
        policy.refuse("nothing to cover")


def _process_rules(policy: Reading) -> None:
    if "rules" in policy.assume and not any(map(_is_whole, policy.goals)):
        policy.refuse("rules without drawn cases")


def _is_dp(goal: Mapping[str, Any]) -> bool:
    return bool(goal["kind"] == "differential-privacy")


def _is_bounded(goal: Mapping[str, Any]) -> bool:
    return _is_dp(goal) and goal.get("neighbours") == "bounded"


def _is_whole(goal: Mapping[str, Any]) -> bool:
    return _is_dp(goal) and not _is_bounded(goal)


def _together(policy: Reading) -> None:
    """What cannot stand side by side: one column comes out of one step (rules 4 and 5)."""
    kinds = [goal["kind"] for goal in policy.goals]
    counted = {"k-anonymity", "confidence-bound", "t-closeness", "l-diversity"}
    whole = [goal for goal in policy.goals if _is_whole(goal)]
    if whole and (counted & set(kinds) or "local-dp" in kinds or "metric-privacy" in kinds):
        # k after noise counts rows; noise after k has no claim; local noise copies raw rows.
        policy.refuse("noise on the flow beside real cases")
    if whole and len(policy.goals) > 1:
        policy.refuse("two claims over one column")
    if {"k-anonymity", "confidence-bound"} <= set(kinds):
        policy.refuse("two claims over one column")
    noisy = [c for g in policy.goals if _is_dp(g) or g["kind"] in NOISED for c in g["over"]]
    if len(noisy) != len(set(noisy)):
        policy.refuse("two claims over one column")
    if TIMES in noisy and any(
        TIMES in goal["over"] for goal in policy.goals if goal["kind"] in counted
    ):
        policy.refuse("another step reads times")
    # Of what is counted, one step writes each column: coarser values or exchanged ones, not both.
    written = [
        (c, WRITTEN_BY[g["kind"]])
        for g in policy.goals
        if g["kind"] in counted
        for c in g["over"]
        if c != FLOW
    ]
    values = {column for column, _ in written}
    if set(noisy) & values or len(written) != len(values):
        policy.refuse("two claims over one column")
    # Not by the design, which would allow it: one step treats all attributes, and the engine takes
    # each for made of all of them, so that local noise on one counts for the others as well.
    treated = [goal for goal in policy.goals if any(map(policy.is_changed, goal["over"]))]
    if len(treated) > 1 and any(goal["kind"] == "local-dp" for goal in treated):
        policy.refuse("one step treats columns of several claims")
    # Nor the flow twice, but for cases and employees, whom one step counts.
    flows = [
        (g["kind"], g["unit"].get("level") == "event") for g in policy.goals if FLOW in g["over"]
    ]
    same = [(g["kind"], *sorted(g["over"])) for g in policy.goals if g["kind"] != "k-anonymity"]
    if len(flows) != len(set(flows)) or len(same) != len(set(same)):
        policy.refuse("two claims over one column")


NOISED = {"metric-privacy", "local-dp"}

WRITTEN_BY = {
    "k-anonymity": "coarser",
    "t-closeness": "closeness",
    "l-diversity": "closeness",
    "confidence-bound": "confidence-bound",
}


def _k_anonymity(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    if FLOW not in goal["over"] or {TIMES, META} & set(goal["over"]):
        policy.refuse("k over other columns")
    _counts_source_cases(policy)
    of_employees = goal["unit"].get("level") == "event"
    policy.need("employees" if of_employees else "k-anonymity")
    if len(goal["over"]) > 1:
        policy.need("coarser")
    protects = _protected(policy, goal["unit"])
    if of_employees:
        if goal["unit"]["attribute"] in policy.released:
            policy.refuse("the unit is released")
        if len(goal["over"]) > 1:
            policy.refuse("k over other columns")
    elif goal.get("count", "cases") == "cases":
        protects = "case"
    strength = {"k": goal["k"], "scope": goal.get("scope", "variants")}
    if not of_employees:
        strength["count"] = goal.get("count", "cases")
    return Claim("k-anonymity", frozenset(goal["over"]), strength, protects)


def _counts_source_cases(policy: Reading) -> None:
    """Section 1: k counts source cases, never the parts of one."""
    if policy.unit.get("on_conflict") == "split":
        policy.refuse("parts of cases are counted")


def _closeness(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    policy.need("closeness")
    column = goal["over"][0]
    if column in (FLOW, META):
        policy.refuse("no attribute")
    if goal.get("distance") == "stochastic" and goal["t"] < 1:
        policy.refuse("t below 1 for probabilities")
    names = ("t", "l", "distance", "scale", "variety", "classes")
    strength = {name: goal[name] for name in names if name in goal}
    return Claim(goal["kind"], frozenset(goal["over"]), strength, _protected(policy, policy.unit))


def _confidence_bound(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    policy.need("confidence-bound")
    _counts_source_cases(policy)
    if goal.get("background") == "relative" and TIMES not in map(policy.column, policy.rules):
        policy.refuse("no times")
    if any(map(policy.is_changed, goal["over"])):
        policy.refuse("values are changed")
    names = ("L", "K", "C", "background", "precision", "missing")
    strength = {name: goal[name] for name in names if name in goal}
    return Claim(goal["kind"], frozenset(goal["over"]), strength, _protected(policy, policy.unit))


def _differential_privacy(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    delta = goal.get("delta", 0.0)
    # Section 4: delta is at most a tenth of one over the declared number of units.
    most = policy.assume.get("units_at_most")
    if policy.unit.get("level") == "event":
        most = None  # it counts cases, and a case has any number of employees
    if delta > (1e-6 if most is None else 1 / (10 * most)):
        policy.refuse("delta")
    strength = {"epsilon": _epsilon(goal), "delta": delta}
    strength["neighbours"] = goal.get("neighbours", "unbounded")
    over, hypotheses = set(goal["over"]), {"well-formed", "limits", *_facts(policy, goal)}
    if policy.unit.get("level") == "event":
        if "cases_per_employee" not in policy.assume:
            policy.refuse("no bound on an employee's cases")
        if policy.unit["attribute"] in policy.released:
            policy.refuse("the unit is released")
        hypotheses.add("cases_per_employee")
    elif policy.unit:
        hypotheses.add("without a unit")
        if policy.unit["attribute"] in over:
            policy.refuse("the unit is released")
    values = over - {FLOW, TIMES, META}
    for name in values:
        rule = policy.rule_of(name)
        if not ("domain" in rule or "range" in rule):
            if not rule.get("find_values"):
                policy.refuse("no public values")
            if strength["neighbours"] == "bounded" or not delta:
                policy.refuse("values cannot be found")
    protects = _protected(policy, policy.unit)
    if strength["neighbours"] == "unbounded":
        # Rule 1: presence shows in every column, the flow first.
        if FLOW not in over:
            policy.refuse("the flow is not covered")
        if policy.released - over:
            policy.refuse("raw columns beside noise")
        if not delta:
            policy.refuse("no delta")
        policy.need("flow")
        for means, needed in (("drawn-times", TIMES in over), ("drawn-values", bool(values))):
            if needed:
                policy.need(means)
        return Claim(goal["kind"], frozenset(over), strength, protects, None, frozenset(hypotheses))
    if {FLOW, META} & over:
        policy.refuse("the flow is taken as known")
    # Rule 4: drawn from tables where there is a delta, else noise of the declared widths.
    bounds = {"window", "longest_gap", "longest_case"} <= set(policy.assume)
    drawn = bool(delta) and all(
        policy.allows(means)
        for means, needed in (("drawn-times", TIMES in over), ("drawn-values", bool(values)))
        if needed
    )
    if not drawn and not (over == {TIMES} and bounds and policy.allows("noise-on-times")):
        policy.refuse("no means")
    given = (policy.released | {META}) - over
    given |= {"window"} & set(policy.assume)
    return Claim(
        goal["kind"], frozenset(over), strength, protects, frozenset(given), frozenset(hypotheses)
    )


def _metric_privacy(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    if set(goal["over"]) != {TIMES}:
        policy.refuse("metric privacy of other columns")
    policy.need("noise-on-times")
    strength = {"epsilon": goal["epsilon"], "shift": goal["shift"]}
    given = frozenset((policy.released | {META}) - {TIMES})
    hypotheses = frozenset({"well-formed", "limits", *_facts(policy, goal)})
    return Claim(goal["kind"], frozenset({TIMES}), strength, "value", given, hypotheses)


def _local_dp(policy: Reading, goal: Mapping[str, Any]) -> Claim:
    over = set(goal["over"])
    if {FLOW, TIMES, META} & over:
        policy.refuse("local noise on other columns")
    kinds = {
        means for name in over for means in ("domain", "range") if means in policy.rule_of(name)
    }
    if len(kinds) != 1 or not all(kinds <= set(policy.rule_of(name)) for name in over):
        policy.refuse("no public values")
    else:
        policy.need(kinds.pop())
    per = goal.get("per", "value")
    of_events = [name for name in over if not name.startswith("case:")]
    if per == "case" and of_events and "longest_case" not in policy.assume:
        policy.refuse("no bound on values")
    strength = {"epsilon": goal["epsilon"], "per": per}
    hypotheses = frozenset({"well-formed", "limits", *_facts(policy, goal)})
    return Claim(goal["kind"], frozenset(over), strength, per, None, hypotheses)


RULES = {
    "k-anonymity": _k_anonymity,
    "t-closeness": _closeness,
    "l-diversity": _closeness,
    "confidence-bound": _confidence_bound,
    "differential-privacy": _differential_privacy,
    "metric-privacy": _metric_privacy,
    "local-dp": _local_dp,
}


def _epsilon(goal: Mapping[str, Any]) -> float:
    """Section 4: g = tanh(loss/4); with a delta, the loss may exceed epsilon by ln(10/9) but on
    outcomes of probability ten times delta.
    """
    if "epsilon" in goal:
        return float(goal["epsilon"])
    advantage = goal["guessing_advantage"]
    loss = 2 * math.log((1 + advantage) / (1 - advantage))
    return loss - (math.log(10 / 9) if goal.get("delta") else 0.0)


def _protected(policy: Reading, unit: Mapping[str, Any]) -> str:
    if not unit:
        return "case"
    if unit.get("level") == "event":
        return f"event:{unit['attribute']}"
    return f"{unit['attribute']} x {unit.get('max_cases', 1)}"


def _facts(policy: Reading, goal: Mapping[str, Any]) -> set[str]:
    """Declared facts on which noise rests (rule 7), each to be printed with the claim."""
    over, facts = set(goal["over"]), set()
    if FLOW in over:
        facts |= {"alphabet", "longest_case", "rules"}
    if goal.get("delta", 0.0) > 1e-6:
        facts.add("units_at_most")
    if TIMES in over:
        facts |= {"window", "longest_gap"} if _is_dp(goal) else set()
        # Drawn hours are those of its clocks; noise on each time knows none.
        drawn = goal.get("delta") and policy.draws_times()
        facts |= {"time_zone"} if _is_dp(goal) and drawn else set()
    if goal.get("per") == "case":
        facts.add("longest_case")
    declared = {name for name in facts if name in policy.assume}
    if TIMES in over:
        declared.add("grid")
    public = {name for name in over if {"domain", "range"} & set(policy.rule_of(name))}
    return declared | {f"values of {name}" for name in public - {FLOW, TIMES, META}}


def _within_budget(policy: Reading, claims: Iterable[Claim]) -> None:
    """What one release costs is within what one release, and all of them, may cost."""
    budget = policy.spec.get("budget", {})
    dp = [claim for claim in claims if claim.kind == "differential-privacy"]
    spent = {"": (sum(c.strength["epsilon"] for c in dp), sum(c.strength["delta"] for c in dp))}
    for name, kind in (("metric", "metric-privacy"), ("local", "local-dp")):
        spent[name] = (sum(c.strength["epsilon"] for c in claims if c.kind == kind), 0.0)
    total = budget.get("total", {})
    caps = [("", budget.get("release")), ("", total or None)]
    # Where no total is set apart for single values, theirs is that of everything.
    for name in ("metric", "local"):
        caps += [(name, budget.get("release")), (name, total.get(name, total or None))]
    for name, most in caps:
        if most is not None and (
            spent[name][0] > _epsilon(most) * (1 + 1e-12)
            or spent[name][1] > most.get("delta", 0.0) * (1 + 1e-12)
        ):
            policy.refuse("budget")


@dataclass
class Lineage:
    """What reaches each column through the steps of a plan.

    ``raw``: source columns whose values reach it without noise; ``rippled``: whether one case more
    could change any part of it; ``too_late``: whether something was measured after that.
    """

    released: frozenset[str]
    raw: dict[str, set[str]] = field(default_factory=dict)
    rippled: set[str] = field(default_factory=set)
    too_late: bool = False
    steps: Sequence[Mapping[str, Any]] = ()

    def follow(self, steps: Sequence[Mapping[str, Any]]) -> "Lineage":
        self.steps = steps
        columns = set(self.released) | {FLOW, META}
        for step in steps:
            columns |= {*step["lineage"]["reads"], *step["lineage"]["measures"]}
        self.raw = {column: {column} for column in columns}
        for step in steps:
            self._take(step["lineage"])
        return self

    def _take(self, lineage: Mapping[str, Any]) -> None:
        reads, measures = set(lineage["reads"]), set(lineage["measures"])
        if measures & self.rippled and not lineage.get("enriches"):
            self.too_late = True
        raw = set().union(*(self.raw[column] for column in reads)) if reads else set()
        if lineage.get("generates"):
            for column in set(self.raw) - set(lineage["writes"]):
                self.raw[column] = set()
        for column in lineage["writes"]:
            own = self.raw[column] | self.raw[FLOW] if lineage.get("fills") else raw
            self.raw[column] = set(own)
            if lineage["stability"] is None:
                self.rippled.add(column)

    def gives(self, claim: Claim) -> bool:
        """Whether the steps give a claim of noise: no raw value of what it covers shows."""
        shown = self.released | {FLOW, META}
        if claim.kind == "differential-privacy" and claim.given is None:
            return not self.too_late and not any(self.raw[column] for column in shown)
        return not any(self.raw[column] & claim.over for column in shown)

    def events(self, claim: Claim) -> list[Mapping[str, Any]]:
        """All noise through which the covered columns were looked at (rule 3: composed by one
        accountant).
        """
        currency = {"metric-privacy": "metric", "local-dp": "local"}.get(claim.kind, "unit")
        return [
            step["event"]
            for step in self.steps
            if step["currency"] == currency and claim.over & set(step["lineage"]["measures"])
        ]


def leaves(events: Iterable[Mapping[str, Any]], times: int = 1) -> list[tuple[Any, int]]:
    """The single draws of noise in trees of events, each with how often it is drawn."""
    found: list[tuple[Any, int]] = []
    for event in events:
        match event["kind"]:
            case "composed":
                found += leaves(event["events"], times)
            case "repeated":
                found += leaves([event["event"]], times * event["times"])
            case "poisson-sampled" if event["rate"] == 1:
                found += leaves([event["event"]], times)
            case _:
                found.append((event, times))
    return found


def delta_of(events: Iterable[Mapping[str, Any]], epsilon: float) -> float:
    """The delta of all noise together at an epsilon.

    Gaussians add up to one (the squares of their moves), whose delta has a closed form (Balle and
    Wang 2018, theorem 8). Of the rest, and of Gaussians so fine that steps of the grid show (by
    1/12 of a slope, Euler and Maclaurin), each is some losses with their probabilities, which are
    convolved; delta is the mean of the closed form over them.
    """
    mu2, escaped = 0.0, 1.0
    losses = {0.0: 1.0}
    for event, times in leaves(events):
        if event["kind"] == "discrete-gaussian":
            if times * event["sigma"] ** 2 < 1e6:
                losses = _convolved(losses, _losses_on_grid(event, times))
                continue
            mu2 += times * (event["sensitivity"] / event["sigma"]) ** 2
            continue
        for _ in range(times):
            own, delta = losses_of(event)
            escaped *= 1 - delta
            losses = _convolved(losses, own)
    rest = sum(
        chance * _normal_delta(math.sqrt(mu2), epsilon - loss) for loss, chance in losses.items()
    )
    return 1 - escaped + escaped * rest


def losses_of(event: Mapping[str, Any]) -> tuple[dict[float, float], float]:
    """The losses of one draw of noise and their chances, and the chance that there is no bound."""
    match event["kind"]:
        case "discrete-laplace" if event["sensitivity"] <= 1000:
            moved, r = event["sensitivity"], math.exp(-1 / event["scale"])
            # Below 0 the loss is the largest, above the move the least; between it falls by two.
            chances = {moved: 1 / (1 + r), -moved: r**moved / (1 + r)}
            for x in range(1, moved):
                chances[moved - 2 * x] = (1 - r) / (1 + r) * r**x
            return {steps / event["scale"]: chance for steps, chance in chances.items()}, 0.0
        case "discrete-laplace":
            return _two_losses(event["sensitivity"] / event["scale"]), 0.0
        case "epsilon-delta":
            return _two_losses(event["epsilon"]), event["delta"]
        case "truncated-geometric":
            r, s, k = math.exp(-1 / event["scale"]), event["sensitivity"], event["bound"]
            own = r ** (k - s + 1) * (1 - r**s) / (1 + r - 2 * r ** (k + 1))
            return _two_losses(s / event["scale"]), own
    raise ValueError(f"no rule for the event {event['kind']}")


def _losses_on_grid(event: Mapping[str, Any], times: int) -> dict[float, float]:
    """Of several draws of fine noise, whose sum is discrete Gaussian to exp(-10 sigma^2)."""
    moved, variance = event["sensitivity"], event["sigma"] ** 2
    reach = math.ceil(9 * math.sqrt(times * variance))
    weights = {n: math.exp(-n * n / (2 * times * variance)) for n in range(-reach, reach + 1)}
    whole = sum(weights.values())
    return {
        (moved * n + times * moved**2 / 2) / variance: weight / whole
        for n, weight in weights.items()
    }


def _two_losses(epsilon: float) -> dict[float, float]:
    """Randomised response, the worst of what is epsilon-private."""
    lie = 1 / (1 + math.exp(epsilon))
    return {epsilon: 1 - lie, -epsilon: lie} if epsilon else {0.0: 1.0}


def _convolved(first: dict[float, float], second: dict[float, float]) -> dict[float, float]:
    both: dict[float, float] = {}
    for loss, chance in first.items():
        for other, chance_of_other in second.items():
            at = round(loss + other, 12)
            both[at] = both.get(at, 0.0) + chance * chance_of_other
    return both


def _normal_delta(mu: float, epsilon: float) -> float:
    if not mu:
        return max(0.0, -math.expm1(epsilon))
    tail = math.exp(min(epsilon + float(norm.logcdf(-mu / 2 - epsilon / mu)), 0.0))
    return float(norm.cdf(mu / 2 - epsilon / mu)) - tail


def of_group(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """Section 1: what (epsilon, delta) for one is for a group."""
    factor = size if not epsilon else math.expm1(size * epsilon) / math.expm1(epsilon)
    return size * epsilon, delta * factor


def of_member(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """What one may cost, so that a group of ``size`` costs that."""
    one = epsilon / size
    return one, delta * math.expm1(one) / math.expm1(epsilon)


def exposed_by(document: Mapping[str, Any], claims: Iterable[Claim]) -> set[str]:
    """What nobody covers: columns, and the form of the release but where all of it is drawn."""
    policy = Reading(document)
    drawn = any(claim.strength.get("neighbours") == "unbounded" for claim in claims)
    return policy.released - policy.covered | (set() if drawn else {META})


def charges_of(claims: Iterable[Claim]) -> list[tuple[str, float, float, str | None]]:
    """What the ledger is told (section 4): currency, epsilon, delta, and the protected unit."""
    named = {"metric-privacy": "metric", "local-dp": "local", "differential-privacy": "unit"}
    return [
        (
            named[claim.kind],
            claim.strength["epsilon"],
            claim.strength.get("delta", 0.0),
            None if claim.kind == "metric-privacy" else claim.protects.split(" x ")[0],
        )
        for claim in claims
        if claim.kind in named
    ]


def too_little_noise(claim: Claim, steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Where a step's parameters do not give what its event says, by the mechanism sheets (6.1, 6.7,
    6.9); an event of which a sheet says nothing passes.
    """
    found = []
    for step in steps:
        said, name = step["params"], step["mechanism"]
        if claim.kind == "metric-privacy" and name == "timestamps/laplace":
            moved = math.ceil(seconds(said["shift"]) / seconds(said["grid"]))
            moved *= 2 if said["noised"] == "gaps" else 1
            if moved / step["event"]["scale"] > claim.strength["epsilon"]:
                found.append("noise on times is too small for the shift")
        noised = name in (*MEANS["domain"], *MEANS["range"]) and claim.kind == "local-dp"
        if noised and {each["name"] for each in said["attributes"]} & claim.over:
            each_case = [
                1 if each["name"].startswith("case:") else said["longest_case"] or math.inf
                for each in said["attributes"]
            ]
            values = sum(each_case) if said["per"] == "case" else 1
            if values * said["epsilon"] > claim.strength["epsilon"] * (1 + 1e-12):
                found.append("the values of a case cost more than the case may")
        if claim.kind == "differential-privacy" and name == "timestamps/laplace":
            grid, m, longest = seconds(said["grid"]), said["max_cases"], said["longest_case"]
            span = instant(said["window"]["end"]) - instant(said["window"]["start"])
            loss = m * math.ceil(span / grid) / said["start_scale"]
            if longest > 1:
                loss += (
                    m
                    * (longest - 1)
                    * math.ceil(seconds(said["longest_gap"]) / grid)
                    / said["gap_scale"]
                )
            if loss > claim.strength["epsilon"] * (1 + 1e-9):
                found.append("noise on the times of a case is too small")
        threshold = said if name == "variants/threshold" else said.get("threshold")
        if threshold and claim.kind == "differential-privacy":
            epsilon, delta = threshold_cost(threshold)
            if epsilon > threshold["epsilon"] * (1 + 1e-9) or delta > threshold["delta"] * (
                1 + 1e-9
            ):
                found.append("the threshold is too low, or its noise too small")
    return found


def threshold_cost(said: Mapping[str, Any]) -> tuple[float, float]:
    """Section 6.1: the noise on counts of a unit of m cases, and the chance that its own pass."""
    m, tau, scale = said["max_cases"], said["tau"], said["scale"]
    r = math.exp(-1 / scale)
    if said["noise"] == "laplace":
        return m / scale, m * r ** (tau - m) / (1 + r)
    if said["noise"] == "truncated-geometric":
        return m / scale, r ** (tau - m) * (1 - r**m) / (1 + r - 2 * r**tau)
    return 0.0, m * float(norm.sf((tau - m - 0.5) / scale))


def seconds(duration: str) -> float:
    """A duration as a policy writes it."""
    return (
        float(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[duration[-1]]
    )


def instant(text: str) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
