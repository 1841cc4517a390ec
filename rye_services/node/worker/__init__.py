"""A worker: a process that runs the items of one checkout, what it gets, and what it reports."""
