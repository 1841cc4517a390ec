"""What Alembic runs to apply versions: on the connection, and in the transaction, of the caller.

A file of its own because Alembic wants one of this name.
"""

from alembic import context

config = getattr(context, "config", None)  # there is none where this is only imported
if config is not None:
    context.configure(connection=config.attributes["connection"])
    context.run_migrations()
