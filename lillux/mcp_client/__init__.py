"""The client side of MCP: one call of one tool of a server, over stdio or HTTP, in both eras."""
