"""Entropy of the tests: what ``noise.secret()`` draws follows from the test's name.

A test that draws from it draws the same in every run, on every machine and in any order, so none
fails by chance. Tests marked ``true_noise`` draw the operating system's entropy, and so do all
where ``CLOAKWORK_RUNS`` is set, and processes that a test starts (``processes.yaml``).
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from cloakwork.noise import source


class NamedEntropy:
    """Stands where ``source`` has ``os``: its bytes follow from a name and how often it was
    asked.
    """

    def __init__(self, name: str) -> None:
        self._name, self._requests = name, count()

    def urandom(self, size: int) -> bytes:
        """``size`` bytes."""
        asked = f"cloakwork test {self._name} {next(self._requests)}"
        return hashlib.shake_256(asked.encode()).digest(size)


@contextmanager
def entropy_of(name: str) -> Iterator[None]:
    """``secret()`` draws what follows from ``name``."""
    before = source.os
    source.os = NamedEntropy(name)
    try:
        yield
    finally:
        source.os = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """A test with the fixtures that are made for it."""
    if item.get_closest_marker("true_noise") or "CLOAKWORK_RUNS" in os.environ:
        return (yield)
    with entropy_of(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> Any:
    """A fixture of several tests, whichever of them asks for it first."""
    if fixturedef.scope == "function" or source.os is os:
        return (yield)
    param = getattr(request, "param_index", 0)
    with entropy_of(f"{request.node.nodeid} {fixturedef.argname} {param}"):
        return (yield)
