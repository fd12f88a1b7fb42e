"""No test fails by chance: what it draws follows from its name, or a list says why it may not."""

import os
import re

import numpy as np
import pytest
import yaml

from cloakwork.noise import secret
from conftest import ROOT
from drawn_entropy import entropy_of

LISTED = ROOT / "tests" / "repository" / "true_noise.yaml"
MAY_DRAW = re.compile(
    r"mark\.true_noise|sys\.executable|"
    r"\b(?:subprocess|multiprocessing|own_process|forks|forking_server)\b"
)
FIXED = pytest.mark.skipif("CLOAKWORK_RUNS" in os.environ, reason="each run draws anew there")


def drawn() -> list[list[int]]:
    """By the source's words, and under the key of a stream: 96 bits in all."""
    source = secret()
    return [
        source.uniform(np.full(2, 2**32)).tolist(),
        list(source.stream().secret[:4]),
    ]


@pytest.fixture(scope="module")
def of_the_module() -> list[list[int]]:
    return drawn()


@FIXED
def test_what_a_test_draws_follows_from_its_name(request: pytest.FixtureRequest) -> None:
    here = drawn()
    with entropy_of(request.node.nodeid):
        assert drawn() == here


@FIXED
def test_what_a_fixture_of_several_tests_draws_follows_from_its_name(
    of_the_module: list[list[int]], request: pytest.FixtureRequest
) -> None:
    """Not from that of the test which needs it first."""
    with entropy_of(f"{request.node.parent.nodeid} of_the_module 0"):
        assert drawn() == of_the_module


@pytest.mark.true_noise
def test_a_marked_test_draws_anew(request: pytest.FixtureRequest) -> None:
    here = drawn()
    with entropy_of(request.node.nodeid):
        assert drawn() != here


def test_what_may_draw_true_noise_says_why_none_fails_by_chance() -> None:
    """The mark, and processes that a test starts: no other way leads past the test's name."""
    files = (ROOT / "tests").rglob("*.py")
    found = {
        path.relative_to(ROOT / "tests").as_posix()
        for path in files
        if MAY_DRAW.search(path.read_text("utf-8"))
    }
    listed = yaml.safe_load(LISTED.read_text("utf-8"))
    new, gone = sorted(found - listed.keys()), sorted(listed.keys() - found)
    assert not new, f"{LISTED.name}: say why honest noise fails no test of {new} (CONTRIBUTING.md)"
    assert not gone, f"{LISTED.name}: {gone} draw no true noise any more"
