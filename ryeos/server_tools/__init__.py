"""Tools of MCP servers as signed items: what a server offers, written down tool by tool.

Page: ``docs/mcp-manager.md``. Pure: `names`, `documents`, `offers`.
"""
