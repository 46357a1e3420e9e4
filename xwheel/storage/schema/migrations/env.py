"""Alembic's entry: migrate the connection that :mod:`xwheel.storage.schema.migrate` hands over."""

from alembic import context
from sqlalchemy import Table, event

from xwheel.storage.schema.tables import metadata, set_collation

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
# tables that migrations make compare text alike on every server, so no migration can forget to say so
event.listen(Table, "before_create", set_collation)
try:
    with context.begin_transaction():
        context.run_migrations()
finally:
    event.remove(Table, "before_create", set_collation)
