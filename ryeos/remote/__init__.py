"""The client of nodes and registries."""
