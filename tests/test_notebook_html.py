"""What notebooks show: all that matters, and no markup of anybody else's."""

from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import cloakwork
from cloakwork.base.notebook_html import MOST_ROWS, SHORT, listing, paragraph, safe, shown, table
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.policies import parse_policy

HOSTILE = "<img src=x onerror=alert(1)>\u202e&"
ESCAPED = HOSTILE.replace("\u202e", "\\u202e")
"""As a policy may hold it: the mark of direction as such is refused."""

GOAL = "{kind: k-anonymity, k: 2, over: [control-flow]}"
NOISE = "{kind: differential-privacy, epsilon: 0.5, delta: 1.0e-9, over: [control-flow]}"
EXPOSED = f'  expose: {{"{ESCAPED}": "it is <b>harmless</b>"}}\n'
POLICY = f"""apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: q, version: 1.0.0, owner: "{ESCAPED}", purpose: test, dataset: d}}
spec:
  attributes:
    "case:concept:name": {{role: identifier}}
    "concept:name": {{role: control-flow}}
    "{ESCAPED}": {{role: insensitive, treatment: keep}}
  guarantees:
    - {GOAL}
{EXPOSED}  budget: {{total: {{epsilon: 1.0, delta: 1.0e-8}}}}
"""

ALLOWED = {"div", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}


class Tags(HTMLParser):
    """The tags of a page, and that each is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An attribute is a style or a scope: nothing that runs or fetches."""
        assert {name for name, _ in attrs} <= {"style", "scope"}
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It closes what was opened last."""
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each kind of object, as a notebook shows it."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(folder))
        policy = parse_policy(POLICY)
        plan = cloakwork.make_plan(policy)
        ledger = Ledger(str(folder / "ledger.db"))
        empty = ledger._repr_html_()
        columns = {"case:concept:name": ["1", "2"], "concept:name": ["a", "a"], HOSTILE: ["x", "y"]}
        release = cloakwork.apply(plan, pl.DataFrame(columns), ledger=ledger)
        published = cloakwork.publish(release, folder / "release")
        checked = cloakwork.verify(folder / "release")
        # A budget is shown where a release spent from it.
        noise = POLICY.replace(GOAL, NOISE).replace("treatment: keep", "treatment: drop")
        noisy = parse_policy(noise.replace(EXPOSED, ""))
        cloakwork.apply(cloakwork.make_plan(noisy), pl.DataFrame(columns), ledger=ledger)
        (summary,) = ledger.summary()
        risk = cloakwork.risk(pl.DataFrame(columns), targets=2)
        comparison = cloakwork.compare(None, [policy, noisy], ledger=ledger)
    found = {
        "policy": policy,
        "plan": plan,
        "release": release,
        "published": published,
        "verification": checked,
        "ledger": ledger,
        "summary": summary,
        "balance": summary.balances[0],
        "risk": risk,
        "comparison": comparison,
    }
    for name in ("policy", "plan", "release", "published", "verification", "risk", "comparison"):
        assert len(repr(found[name])) <= SHORT, name
    return {name: each._repr_html_() for name, each in found.items()} | {"empty": empty}


def test_each_says_what_matters(pages: dict[str, str]) -> None:
    """What it protects, what it does not, what it costs."""
    for name in ("policy", "plan", "release", "published", "verification"):
        assert "at least 2" in pages[name], name
        assert "&lt;img src=x onerror=alert(1)&gt;" in pages[name], name
    assert "Not protected" in pages["plan"] and "smallest group" in pages["release"]
    assert "measured again" in pages["verification"]
    assert "never publish" in pages["published"]
    assert "It holds no release." in pages["empty"]
    for name in ("ledger", "summary", "balance"):
        assert "epsilon 1" in pages[name], name
    assert "no budget bounds" in pages["ledger"]
    assert "never publish" in pages["risk"] and "Share of cases found" in pages["risk"]
    assert "A stand-in" in pages["comparison"] and "Attack, at most" in pages["comparison"]


def test_nothing_of_it_runs_or_fetches(pages: dict[str, str]) -> None:
    """Whatever names and reasons hold; every tag is closed."""
    for html in pages.values():
        assert Tags(html).seen <= ALLOWED
        assert "\u202e" not in html


def test_it_sets_no_colour_of_text_or_page(pages: dict[str, str]) -> None:
    """So it can be read on a light page and on a dark one."""
    for html in pages.values():
        assert "color: inherit" in html and "#" not in html.replace("&#x27;", "")


def test_long_lists_end_with_their_number() -> None:
    """A log may have thousands of attributes."""
    rows = [[str(number)] for number in range(MOST_ROWS + 5)]
    assert "and 5 more" in table(["n"], rows) and f"<td>{MOST_ROWS}" not in table(["n"], rows)
    assert "and 5 more" in listing("numbers", (row[0] for row in rows))
    assert (table(["n"], []), listing("none", [])) == ("", "")
    assert shown("<", paragraph("a\x1b[0m")).count("&lt;") == 1
    assert safe("a\x1bb") == "a\ufffdb"


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    """A ledger's address may hold one."""
    html = cloakwork.Ledger(str(tmp_path / "a.db"))._repr_html_()
    assert "a.db" in html
    assert "secret" not in cloakwork.Ledger("postgresql://me:secret@localhost/x").url
