"""Reports: each audience reads what it may, and the pages stand alone."""

import json
import math
import re
import shutil
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.errors import OutputError, VerificationFailed
from cloakwork.guarantees.claims import Homogeneity, NoTotal, SingleTimesOnly
from cloakwork.plan.model import UnprovenClaim
from cloakwork.plan.sentences import reasons_in_words
from cloakwork.publishing.from_plan import plan_bytes, statement_of
from cloakwork.report.html import bar, figure
from cloakwork.report.model import INTERNAL_BANNER, Audience
from cloakwork.report.render import render
from publishing.conftest import RAW_FIGURES, RAW_NAME, a_plan, a_policy

BOTH: tuple[Audience, ...] = ("public", "internal")


class Page(HTMLParser):
    """The text of a page, the tags that it opens and never closes, and every address in it."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("audience", BOTH)
def test_a_page_is_whole_and_needs_nothing_else(pages, audience):
    page = pages[audience]
    read = Page(page)
    assert read.open == []
    assert read.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert read.addresses == []
    assert "http" not in page and "url(" not in re.sub(r"url\(#tip[a-z-]*\)", "", page)


@pytest.mark.parametrize("audience", BOTH)
def test_exposed_columns_come_before_guarantees_and_these_in_plain_words(pages, audience):
    text = Page(pages[audience]).text
    assert text.index("Not protected: how many cases") < text.index("What is guaranteed")
    for claim in a_plan().claims:
        assert claim.sentence in text
        assert reasons_in_words(claim)[0] in text


@pytest.mark.parametrize("audience", BOTH)
def test_texts_from_the_policy_are_escaped(pages, audience):
    page = pages[audience]
    assert "an &lt;external&gt; research partner" in page
    assert "<external>" not in page


def test_the_internal_page_says_first_what_it_is(pages):
    text = Page(pages["internal"]).text
    assert text.startswith(INTERNAL_BANNER)
    assert RAW_NAME in text and f"{RAW_FIGURES[0]:,}" in text
    assert "kanon/tlkc" in text and "PRETSA is preferred" in text
    assert "nested values: 1, –, yes" in text


@pytest.mark.parametrize("format_", ["html", "json"])
def test_the_public_report_needs_only_public_files(published, format_):
    shutil.rmtree(published / "internal")
    for path in published.glob("log.*"):
        path.unlink()
    report = render(published, "public", format_)  # type: ignore[arg-type]
    assert RAW_NAME not in report and "INTERNAL" not in report
    assert [word for word in (f"{number:,}" for number in RAW_FIGURES) if word in report] == []


def test_the_json_reports_are_json(published, key):
    public, internal = (json.loads(render(published, audience, "json")) for audience in BOTH)
    assert public["keyids"] == [key.keyid]
    assert public["statement"]["exposed"][0]["column"] == "metadata"
    assert next(iter(internal.items())) == ("warning", INTERNAL_BANNER)
    assert internal["source"]["cases"] == RAW_FIGURES[0]


def test_the_verdict_says_what_the_plan_warns_of(publish_as):
    """Under what does not hold, the weightiest first, a clause each; whole in the JSON."""
    caveats = (NoTotal(), Homogeneity(attributes=("age",)), SingleTimesOnly())
    folder = publish_as(plan=a_plan(warnings=caveats)).folder
    for audience in BOTH:
        text = Page(render(folder, audience)).text
        verdict = text[text.index("What does not") : text.index("Who answers for it")]
        places = [
            verdict.index(words)
            for words in (
                "metric privacy protects single times, not cases",
                "k-anonymity says nothing about values",
                "the policy sets no budget.total",
            )
        ]
        assert places == sorted(places)
        assert "cloakwork risk" not in verdict
        warnings = json.loads(render(folder, audience, "json"))["warnings"]
        assert "'cloakwork risk' measures how often" in warnings[0]


def test_a_reproducible_release_says_so_on_every_page(publish_as):
    folder = publish_as(private=False).folder
    for audience in BOTH:
        assert "reproducible: NOT PRIVATE" in Page(render(folder, audience)).text


def test_a_release_that_exposes_nothing_says_so(publish_as):
    folder = publish_as(plan=a_plan(exposed=(), charges=(), considered=(), warnings=())).folder
    for audience in BOTH:
        assert "Nothing is exposed" in Page(render(folder, audience)).text


def test_what_is_unproven_comes_first(publish_as):
    plan = a_plan()
    item = UnprovenClaim(
        guarantee=plan.claims[0].guarantee,
        mechanism="variants/x-published",
        published="is 1-DP",
        currency="unit",
        cost=None,
        why=("raw counts are released",),
    )
    folder = publish_as(plan=a_plan(unproven=(item,), claims=())).folder
    for audience in BOTH:
        text = Page(render(folder, audience)).text
        assert text.index("UNPROVEN: not guaranteed") < text.index("Not protected")
        assert "is NOT guaranteed: variants/x-published" in text and "Nothing." in text


@pytest.mark.parametrize("audience", BOTH)
def test_whether_it_was_verified_stands_in_the_report(published, audience):
    """Examined where the log is there; what fails is the first thing that is said."""
    assert "verified 11 checks hold" in Page(render(published, audience)).text
    (published / "notes.txt").write_text("not ours")
    failed = Page(render(published, audience)).text
    assert failed.index("Verification failed: do not rely") < failed.index("What holds")
    assert "'notes.txt': does not belong to the release" in failed
    (published / "notes.txt").unlink()
    next(published.glob("log.*")).unlink()
    assert "The released log was not examined" in Page(render(published, audience)).text


def test_the_report_that_is_written_says_that_it_was_checked(published):
    written = Page((published / "internal" / "report.html").read_text("utf-8")).text
    assert "checked as it was written" in written
    assert "How to make it again" in written and "cloakwork apply plan.json LOG" in written


def test_the_public_report_draws_the_released_log_alone(published):
    report = json.loads(render(published, "public", "json"))
    flow = report["pictures"]["flow"]
    assert {(step["first"], step["second"], step["released"]) for step in flow["steps"]} == {
        (None, "register", 6),
        ("register", "treat", 3),
        ("treat", "leave", 3),
        ("register", "leave", 3),
        ("leave", None, 6),
    }
    assert all(step["source"] == 0 and step["source_median"] is None for step in flow["steps"])
    assert all(curve["source"] == [] for curve in report["pictures"]["curves"])
    assert "What the released log shows" in Page(render(published, "public")).text


def test_formats_that_belong_to_the_other_audience_are_refused(published):
    with pytest.raises(OutputError, match="--audience internal"):
        render(published, "public", "dpia")
    with pytest.raises(OutputError, match="--audience public"):
        render(published, "internal", "dpv")


def test_a_character_that_turns_the_line_round_is_named(publish_as):
    policy = a_policy()
    owner = policy.metadata.model_copy(update={"owner": "dpo\u202emoc.elpmaxe@"})
    policy = policy.model_copy(update={"metadata": owner})
    folder = publish_as(plan=a_plan(policy=policy)).folder
    page = render(folder, "public")
    assert "dpo[U+202E]moc" in page and "\u202e" not in page


@pytest.mark.parametrize(
    ("audience", "missing"),
    [("internal", "internal/report.json"), ("public", "plan.json"), ("public", "statement.json")],
)
def test_a_missing_file_is_named(published, audience, missing):
    (published / missing).unlink()
    with pytest.raises((OutputError, VerificationFailed), match=re.escape(missing)):
        render(published, audience)


@pytest.mark.parametrize(
    ("audience", "damaged"),
    [("internal", "internal/report.json"), ("public", "plan.json"), ("public", "statement.json")],
)
def test_a_damaged_file_is_one_line(published, audience, damaged):
    (published / damaged).write_bytes(b"\xff{")
    with pytest.raises((OutputError, VerificationFailed)) as refused:
        render(published, audience)
    assert "\n" not in str(refused.value)


def test_a_plan_that_the_statement_does_not_sign_is_not_shown(published):
    (published / "plan.json").write_bytes(plan_bytes(a_plan(warnings=())))
    with pytest.raises(VerificationFailed, match=r"plan\.json: is not the file that was signed"):
        render(published, "public")


def test_budget_bars_compare_with_the_declared_total():
    charges = (
        Charge(currency="unit", cost=Cost(epsilon=math.inf)),
        Charge(currency="metric", cost=Cost(epsilon=1.0), shift=timedelta(hours=1)),
    )
    unbounded, spent = map(
        bar, statement_of(a_plan(charges=charges), "r", released=(), private=True).budget
    )
    assert (unbounded.share, spent.share) == (None, 0.25)
    assert spent.says == "this release spends ε 1 of ε 4, δ 1e-05 (25% of ε)"


def test_without_a_total_there_is_no_bar():
    plan = a_plan(policy=a_policy(budget={}))
    assert bar(statement_of(plan, "r", released=(), private=True).budget[0]).share is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.5, "0.5"),
        ([1, "a"], "1, a"),
        ({"a": 1}, "a: 1"),
        ("x", "x"),
    ],
)
def test_figures_read_well(value, text):
    assert figure(value) == text  # type: ignore[arg-type]
