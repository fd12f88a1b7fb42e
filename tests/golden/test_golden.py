"""What people read changes only when somebody has read the change."""

import pytest

from golden import commands
from golden.regenerate import HERE, golden_files, stale_files

FILES = golden_files()


@pytest.mark.parametrize("name", FILES)
def test_every_text_is_the_one_that_was_read(name):
    """After reading the difference: python tests/golden/regenerate.py, engine/ on PYTHONPATH."""
    path = HERE / name
    read = path.read_text("utf-8") if path.exists() else ""
    assert FILES[name]() == read, "read the change, then run: python tests/golden/regenerate.py"


def test_no_file_is_left_of_what_is_gone():
    """A file for each thing that is printed, and none besides."""
    assert stale_files() == set()


@pytest.mark.parametrize("page", sorted({*commands.PAGES} - {"report", "internal-report"}))
def test_screens_fit_eighty_columns(page):
    """A terminal breaks nothing; pages of HTML have no columns."""
    assert commands.too_wide(page) == []
