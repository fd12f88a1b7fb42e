"""How a ledger of an earlier version is brought up to date: scripts of alembic, one a layout."""
