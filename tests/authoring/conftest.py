"""The people of the registry's tests."""

import pytest

from authoring.people import People


@pytest.fixture
def people(tmp_path, monkeypatch):
    """Nobody trusts anybody yet, and the registry is empty."""
    return People(tmp_path, monkeypatch)


@pytest.fixture
def trusted(people):
    """The user trusts Ann's key, and Bob's to approve."""
    people.let_count("ann")
    people.let_count("bob", approves=True)
    return people
