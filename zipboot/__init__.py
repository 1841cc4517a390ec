"""Start of ``rye.pyz``, before Rye itself. Page: ``docs/building.md``."""
