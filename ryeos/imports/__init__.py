"""What a project has already, read as items: the readers of ``rye import``, one for each kind."""
