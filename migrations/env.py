"""What Alembic runs: the migrations, on the connection and in the transaction that it is given.

`stores.upkeep.migrate` gives it both, so that everything up to the target happens, or nothing does.
`docs/architecture.md` says how to write one.
"""

from alembic import context

from setwise.service.stores.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite changes most things by rebuilding the table.
    render_as_batch=context.config.attributes["connection"].dialect.name == "sqlite",
    transactional_ddl=True,
)
context.run_migrations()
