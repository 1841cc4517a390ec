"""The verbs that the command line, MCP and nodes offer."""
