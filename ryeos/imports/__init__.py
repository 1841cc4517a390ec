"""Readers of what a project has already, as items: one for each kind of ``rye import``."""
