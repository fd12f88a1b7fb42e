"""A keyed digest of each window's row, by which a changed hash is noticed."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Rows from before have no digest until their key is at hand."""
    op.add_column("cloakwork_windows", sa.Column("digest", sa.Text))
