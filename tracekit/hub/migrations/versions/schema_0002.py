"""Numbers of rows are not used again: SQLite gave the largest ones out anew once they were free."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """PostgreSQL never does that."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for table, last in (("aggregates", "last"), ("observed", "last_observed"), ("series", None)):
        with op.batch_alter_table(
            table, recreate="always", table_kwargs={"sqlite_autoincrement": True}
        ):
            pass
        if last is not None:  # rows that were released may be gone
            op.execute(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")
            op.execute(
                f"INSERT INTO sqlite_sequence SELECT '{table}',"
                f" max(coalesce((SELECT max(id) FROM {table}), 0),"
                f" coalesce((SELECT max({last}) FROM releases), 0))"
            )
