"""The client of a node: identity, sync, execution elsewhere."""
