"""Pages from templates: everything that they are given is escaped, and nothing may be missing."""

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import duration_text, rounded
from cloakwork.evaluation.utility import Utility
from cloakwork.plan.sentences import proof_in_words, treatment_in_words
from cloakwork.publishing.folder import log_path, names_of_log
from cloakwork.publishing.statement import PublishedCost, SpentBudget
from cloakwork.report.drawings import drawn, drawn_flows
from cloakwork.report.model import InternalReport, public_steps
from cloakwork.report.texts import (
    guarantee_line,
    main_clause,
    membership_lines,
    purpose_text,
    threshold_lines,
    unit_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment


_CURRENCIES: Final = {
    "unit": "Differential privacy per protected unit",
    "metric": "Metric privacy per value",
    "local": "Local differential privacy per value",
    "none": "Differential privacy",
}


@frozen
class Bar:
    """One budget bar: its label, what it says, and the share spent (0 to 1); None where there is no
    bound or no total.
    """

    label: str
    says: str
    share: float | None


@frozen
class Line:
    """One figure: its plain name, its value as text, and what it says."""

    name: str
    value: str
    says: str


def internal_html(report: InternalReport, digests: Mapping[str, str] | None = None) -> str:
    """The internal report as a page; its first line says that it must not be published.

    ``digests``: SHA-256 (hex) of the signed files by name, where they are known.
    """
    return page(
        "internal.html",
        report=report,
        digests=digests or {},
        bars=[bar(spent) for spent in report.statement.budget],
        steps=public_steps(report.plan),
        utility=lines(report.utility),
    )


def lines(utility: Utility | None) -> tuple[Line, ...]:
    """The figures of utility that there are, then those of times, of times and attributes as
    distributions, of models of the release, and of process discovery.
    """
    if utility is None:
        return ()
    of_kinds = (
        utility,
        utility.published,
        utility.times,
        utility.whole_log,
        utility.learned,
        utility.discovery,
    )
    models = [model for model in of_kinds if model is not None]
    return tuple(
        Line(field.title, figure(getattr(model, name)), field.description or "")
        for model in models
        for name, field in type(model).model_fields.items()
        if field.title and getattr(model, name) is not None
    )


def bar(spent: SpentBudget) -> Bar:
    """What the release takes from the declared total of one currency."""
    label = _CURRENCIES[spent.currency]
    if spent.unit is not None and spent.currency == "unit":
        label += f", per '{spent.unit}'"
    if spent.window is not None:
        label += f", window {spent.window}"
    if spent.apart_from:
        names = ", ".join(spent.apart_from)
        label += f" (kept apart from {names}: does not add up to one person's risk)"
    cost = spent.cost
    total = spent.total
    if cost.epsilon is None:
        return Bar(label, "this release is not bounded by any ε", None)
    if total is None or not total.epsilon:
        return Bar(label, f"this release spends {price(cost)}; the policy declares no total", None)
    share = min(1.0, cost.epsilon / total.epsilon)
    return Bar(
        label, f"this release spends {price(cost)} of {price(total)} ({share:.0%} of ε)", share
    )


def price(cost: PublishedCost | None) -> str:
    """Epsilon and delta as people write them."""
    if cost is None:
        return "–"
    epsilon = "no bound" if cost.epsilon is None else f"ε {cost.epsilon:.6g}"
    return epsilon + (f", δ {cost.delta:.6g}" if cost.delta else "")


def figure(value: JsonValue) -> str:
    """A figure of the internal report as text."""
    # To Python a truth value is a number, too, so it is asked for first.
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else rounded(value)
    if isinstance(value, list):
        return ", ".join(figure(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {figure(item)}" for name, item in value.items())
    return value


def seconds_text(seconds: float) -> str:
    """A duration of work, to the hundredth of a second.

    >>> seconds_text(0.684), seconds_text(0.00066)
    ('0.68 s', '0.00 s')
    """
    return f"{seconds:.2f} s"


def percent(share: float | None) -> str:
    """A share as people read it."""
    return "none" if share is None else f"{share:.0%}"


def log_name(files: Mapping[str, str]) -> str:
    """The name of the released log among the signed files, and how many parts it has."""
    of_log = names_of_log(files) or ()
    name = log_path(of_log[0]) if of_log else ""
    return f"{name} ({len(of_log):,} parts)" if len(of_log) > 1 else name


def moment(time: datetime) -> str:
    """A UTC date and time as people read it."""
    return f"{time:%d %B %Y, %H:%M} UTC"


def page(template: str, **content: object) -> str:
    """A page from one of the templates."""
    return without_controls(_environment().get_template(template).render(**content))


@cache
def _environment() -> "Environment":
    environment = templates_of("cloakwork.report")
    environment.filters |= {
        "price": price,
        "figure": figure,
        "moment": moment,
        "rounded": rounded,
        "drawn": drawn,
        "flows": drawn_flows,
        "percent": percent,
        "seconds": seconds_text,
        "treatment": treatment_in_words,
        "proof": proof_in_words,
        "plainly": guarantee_line,
        "whom": unit_text,
        "duration": duration_text,
        "log_name": log_name,
        "clause": main_clause,
        "purpose": purpose_text,
        "recognised": membership_lines,
        "beyond": threshold_lines,
    }
    return environment


_JOINERS: Final = frozenset("\u200c\u200d")
"""Without them words of some languages are spelt wrong."""
_LAST_LETTER: Final = 0x530
_SIGNS: Final = frozenset("–—‘’“”…→≤≥·•")


def without_controls(text: str) -> str:
    """The text; characters that are not seen, or turn the line round, by their number.

    >>> without_controls("a\\u202eb")
    'a[U+202E]b'
    """
    # Unicode's categories C*: controls, marks of direction, and what is no letter at all.
    unseen = (letter for letter in set(text) if unicodedata.category(letter)[0] == "C")
    return _by_number(text, frozenset(unseen) - _JOINERS - {"\n"})


def with_common_letters(text: str) -> str:
    """The text; characters beyond Latin, Greek and Cyrillic by their number, some signs apart."""
    shown = without_controls(text)
    rare = (letter for letter in set(shown) if ord(letter) >= _LAST_LETTER)
    return _by_number(shown, frozenset(rare) - _SIGNS)


def _by_number(text: str, hidden: frozenset[str]) -> str:
    # A page has few different letters, so that each is judged once and not at every place.
    numbers = {ord(letter): f"[U+{ord(letter):04X}]" for letter in hidden}
    return text.translate(numbers) if numbers else text


def templates_of(package: str) -> "Environment":
    """The templates in the folder ``templates`` of a package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
