"""What the search cache promises (decision 0026): no fault of it ever stops a run, figures of a raw
log go after a week, and its secret is one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloakwork.run.search_cache import LONGEST_KEPT, SearchCache

NO_HOME = """
import pwd

def unknown(*_):
    raise KeyError("uid not found")

pwd.getpwuid = unknown
from cloakwork.run.search_cache import SearchCache
print(SearchCache.of_user())
"""


@pytest.fixture
def searches() -> SearchCache:
    """The cache of the test's own home."""
    found = SearchCache.of_user()
    assert found is not None
    return found


@pytest.mark.skipif(os.name != "posix", reason="users without a home are of POSIX systems")
def test_a_user_without_a_home_has_no_cache() -> None:
    """As in a container that runs under any number: ``plan --ledger ...`` ended in an internal
    error (RuntimeError: Could not determine home directory).
    """
    homes = ("HOME", "CLOAKWORK_HOME", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in homes}
    ran = subprocess.run(
        [sys.executable, "-c", NO_HOME],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "None\n", ran.stderr[-300:]


@pytest.mark.parametrize("length", [0, 5])
def test_a_secret_that_is_cut_short_is_not_used(own_home: Path, length: int) -> None:
    """An empty file, as a crash may leave, is no key: everybody could name and make entries."""
    key = own_home / "search-cache" / "key"
    key.parent.mkdir(parents=True)
    key.write_bytes(bytes(length))
    key.chmod(0o600)
    found = SearchCache.of_user()
    assert found is None or len(found.secret) == 32


def test_an_old_entry_goes_without_another_search(searches: SearchCache) -> None:
    """Figures of a raw log lie there a week, not until somebody searches again."""
    searches.write("0" * 64, b"{}")
    (path,) = searches.folder.glob("*.search")
    old = path.stat().st_mtime - LONGEST_KEPT - 60
    os.utime(path, (old, old))
    again = SearchCache.of_user()
    assert again is not None
    assert again.read("0" * 64) is None
    assert not path.exists()
