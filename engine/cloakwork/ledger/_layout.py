"""Which layout a ledger's tables have, and how an earlier one is brought up to date.

The number stands in a table of its own, as alembic keeps it. A ledger without one is of a version
that had only the first layout. New ledgers are made with today's at once; alembic is loaded only
where there is something to bring up to date.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloakwork.ledger._tables import VERSIONS, all_tables, versions_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

LAYOUTS: Final = ("0001", "0002")
"""Every layout there was, the last one being today's."""


def make_tables(connection: "Connection") -> None:
    """Make the tables of today's layout."""
    for table in all_tables():
        table.create(connection)
    connection.execute(versions_table().insert().values(version_num=LAYOUTS[-1]))


def later_layout(connection: "Connection") -> str | None:
    """The layout of a ledger that a later version of Cloakwork made; None where it is known."""
    found = _layouts_of(connection)
    return next((layout for layout in found if layout not in LAYOUTS), None)


def is_current(connection: "Connection") -> bool:
    """Whether the tables have today's layout."""
    return _layouts_of(connection) == (LAYOUTS[-1],)


def bring_up_to_date(connection: "Connection") -> None:
    """Bring the tables to today's layout, in the transaction of the connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes.update(connection=connection, version_table=VERSIONS)
    command.upgrade(config, "head")


def _layouts_of(connection: "Connection") -> tuple[str, ...]:
    from sqlalchemy import inspect

    if not inspect(connection).has_table(VERSIONS):
        return ()
    return tuple(connection.execute(versions_table().select()).scalars())
