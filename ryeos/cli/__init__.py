"""The command line: the only place that reads the real environment and talks to a person."""
