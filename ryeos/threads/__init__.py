"""Background runs: a registry of them, a folder each, and what starts, watches and ends them.

A *thread* is one run that outlives the command that started it. What it is and what became of it
stands in ``registry.db``; the process that runs it is its *runner*. Page: ``docs/threads.md``.
"""
