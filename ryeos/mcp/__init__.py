"""The MCP server: a pure protocol engine, a wire, and what Rye offers over it.

`session` knows the protocol and nothing of Rye, `stdio` knows pipes and threads, `features` is Rye.
Page: ``docs/mcp.md``.
"""
