"""Steps from one schema of the hub's database to the next, for Alembic."""
