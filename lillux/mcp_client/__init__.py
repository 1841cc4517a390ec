"""The MCP client: one call of one tool of a server, over stdio or HTTP."""
