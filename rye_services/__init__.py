"""The services of `rye-node.pyz`."""
