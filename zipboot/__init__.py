"""What runs in ``rye.pyz`` before Rye does. Page: ``docs/building.md``."""
