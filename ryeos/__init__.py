"""Rye: find, verify and run signed ``.ai/`` items."""

__version__ = "0.1.0"
