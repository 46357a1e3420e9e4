"""Alembic's entry: migrate the connection that :mod:`xwheel.storage.migrate` hands over."""

from alembic import context

from xwheel.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
