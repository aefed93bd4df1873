"""A pair of group and label keeps its number for ever.  It was counted over the series that there
were, so that what answers had been about was misread once a series was deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Number the pairs by their first series, as it was done until now."""
    kinds = op.create_table(
        "kinds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("series", table_kwargs={"sqlite_autoincrement": True}) as series:
        series.add_column(sa.Column("kind", sa.Integer(), nullable=False, server_default="0"))
    connection = op.get_bind()
    pairs = sa.text("SELECT machine_group, label FROM series GROUP BY 1, 2 ORDER BY min(id)")
    number = sa.text("UPDATE series SET kind = :k WHERE machine_group = :g AND label = :l")
    for k, (group, label) in enumerate(connection.execute(pairs).all()):
        connection.execute(kinds.insert())
        connection.execute(number, {"k": k, "g": group, "l": label})
