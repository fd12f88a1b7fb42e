"""The address of a ledger: an SQLAlchemy URL, or the path of an SQLite file."""

import os
import re
from typing import TYPE_CHECKING

from cloakwork.base.errors import LedgerError

if TYPE_CHECKING:
    from sqlalchemy import URL


def parse_address(address: str) -> "URL":
    """The address as a URL; raises LedgerError for what looks like a slip."""
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if "://" not in address:
        return URL.create("sqlite", database=_checked_path(address))
    shown = without_password(address)
    try:
        url = make_url(address)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise LedgerError(shown, "is not a database URL") from None
    if backend not in ("sqlite", "postgresql"):
        hint = "; write postgresql://..." if backend == "postgres" else ""
        raise LedgerError(shown, f"a ledger lives in SQLite or Postgres, not in '{backend}'{hint}")
    read_only = dict(url.query) == {"mode": "ro"}
    if backend == "sqlite" and (url.host or (url.query and not read_only)):
        hint = "write sqlite:///relative.db or sqlite:////absolute.db; ?mode=ro only reads"
        raise LedgerError(shown, f"is not the address of a file: {hint}")
    return url


def _checked_path(address: str) -> str:
    """The address as a path, unless it is a URL or a path of another system that lost a sign."""
    if "\0" in address:
        raise LedgerError(repr(address), "is not a path")
    looks_foreign = "\\" in address or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address)
    if os.name != "nt" and looks_foreign:
        hint = (
            "write a path of this system, or a URL such as sqlite:///ledger.db or "
            "postgresql://host/name"
        )
        raise LedgerError(without_password(address), f"is neither a path nor a URL; {hint}")
    return address


def without_password(address: str) -> str:
    """The address as it may be shown."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
