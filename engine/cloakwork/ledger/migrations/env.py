"""What alembic runs first: it works in the transaction of the connection that it is handed."""

from alembic import context

connection, version_table = (
    context.config.attributes[name] for name in ("connection", "version_table")
)
context.configure(connection=connection, version_table=version_table)
context.run_migrations()
