"""The documentation site: it holds every document, builds without a warning and fetches nothing."""

import os
import re
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import cloakwork
from repository.checkout import ROOT, environment, tracked

DOCS = ROOT / "docs"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//[^"]*"
    |   <link\b[^>]*\bhref="(?:https?:)?//[^"]*"
    |   url\(\s*["']?(?:https?:)?//[^)]*\)""",
    re.VERBOSE,
)
"""What a browser fetches from elsewhere without being asked."""


def pages(nav: list[dict[str, object]]) -> list[str]:
    """The places that the navigation names, in its order."""
    found: list[str] = []
    for entry in nav:
        for content in entry.values():
            found += pages(content) if isinstance(content, list) else [str(content)]
    return found


@pytest.fixture(scope="module")
def nav() -> list[str]:
    """The navigation of ``mkdocs.yml``."""
    return pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])


def test_navigation_holds_every_document(nav: list[str]) -> None:
    """Each page of docs/ is in it once; decisions are there as a folder."""
    documents = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("*.md")}
    assert sorted(name for name in nav if "/" not in name) == sorted(documents)
    assert {path.parent for path in tracked("docs/*.md")} == {DOCS, DOCS / "decisions"}
    assert "decisions/" in nav


def test_navigation_leads_to_files(nav: list[str]) -> None:
    """What lies outside docs/ is there, too."""
    outside = [name.removeprefix("repository/") for name in nav if name.startswith("repository/")]
    assert outside
    assert [name for name in outside if not (ROOT / name).is_file()] == []


def test_reference_holds_every_public_name() -> None:
    """``cloakwork.__all__``, neither more nor less."""
    text = (DOCS / "python.md").read_text("utf-8")
    named = re.findall(r"^::: cloakwork\.(\w+)$", text, re.MULTILINE)
    assert sorted(set(named) - {"errors", "testing"}) == sorted(cloakwork.__all__)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error and no way to the network; ``test_docs`` sees
    every run that links lead somewhere.
    """
    if "CLOAKWORK_RUNS" not in os.environ:
        pytest.skip("builds the site: CLOAKWORK_RUNS=1")
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed (extra: docs)")
    folder = tmp_path_factory.mktemp("site")
    proxies = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=environment() | proxies | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"the site cannot be built:\n{done.stdout}{done.stderr}"
    return folder


def pages_of(site: Path) -> dict[str, str]:
    """The text of each page by its place on the site."""
    pages = site.rglob("*.html")
    return {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in pages}


def test_site_has_every_page(site: Path, nav: list[str]) -> None:
    """One HTML file a document; README.md of a folder is its index."""
    named = [name for name in nav if name != "decisions/"]
    named += [f"decisions/{path.name}" for path in (DOCS / "decisions").glob("*.md")]
    indexed = [re.sub(r"README\.md$", "index.md", name) for name in named]
    expected = {f"{name.removesuffix('.md')}.html" for name in indexed}
    assert expected <= pages_of(site).keys()


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures lie on the site; other addresses are links."""
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert LOADED.findall("\n".join([*pages_of(site).values(), *styles])) == []


def test_links_between_pages_lead_to_files(site: Path) -> None:
    """Every relative address of a page, files of the repository among them."""
    broken = []
    for place, text in pages_of(site).items():
        for target in re.findall(r'(?:href|src)="([^"#?]+)[^"]*"', text):
            leads = not re.match(r"[a-z]+:|//|/", target)
            if leads and not (site / os.path.normpath(Path(place).parent / target)).exists():
                broken.append(f"{place}: {target}")
    assert broken == []


def test_reference_is_made_from_docstrings(site: Path) -> None:
    """The first words of a docstring are on the page, beside the signature."""
    text = unescape(re.sub(r"<[^>]+>", "", (site / "python.html").read_text("utf-8")))
    first, *_ = str(cloakwork.make_plan.__doc__).replace("``", "").splitlines()
    assert first in text
    assert all(f"cloakwork.{name}" in text for name in cloakwork.__all__)


def test_search_works_from_a_folder(site: Path) -> None:
    """Opened from disk, without a server: what is typed is found, by scripts of the site alone."""
    pytest.importorskip("selenium", reason="drives a browser")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    from console.keyboard import CHROMIUM, keyboard

    if not CHROMIUM.is_file():
        pytest.skip("there is no browser")
    with keyboard() as browser:
        browser.driver.get((site / "index.html").as_uri())
        box = browser.driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
        box.click()
        box.send_keys("ledger")
        found = WebDriverWait(browser.driver, 20).until(
            lambda driver: driver.find_elements(By.CSS_SELECTOR, ".md-search-result__item a")
        )
        assert any("ledger" in str(each.get_attribute("href")) for each in found)
