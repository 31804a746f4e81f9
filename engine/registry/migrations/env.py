"""Where Alembic finds the connection and the tables; run by it, never imported."""

from alembic import context

from engine.registry.tables.metadata import Row

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Row.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
