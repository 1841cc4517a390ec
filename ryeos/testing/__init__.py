"""Cases of tools: read from signed files, run in a copy of the project, compared with the result.

Pages: ``docs/testing-tools.md``. Pure: `declared`, `expectations`, `junit`.
"""
