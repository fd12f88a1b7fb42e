"""What versions 0.1.0 and later made, as it came to be needed: entries, fingerprints, windows."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make what is missing."""
    texts = ("release", "dataset", "kind", "at", "body", "previous", "digest")
    op.create_table(
        "cloakwork_ledger",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        if_not_exists=True,
    )
    op.create_table(
        "cloakwork_fingerprints",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("release", "dataset", "sample")),
        if_not_exists=True,
    )
    names = ("release", "dataset", "window", "key_check")
    op.create_table(
        "cloakwork_windows",
        *(sa.Column(name, sa.Text, nullable=False) for name in names),
        sa.Column("hashes", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )
