"""The execution node: its routes, and what they stand on."""
