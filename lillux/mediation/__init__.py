"""Mediation: a supervisor makes changes of files in the place of a confined process."""
