"""What travels between a project and a node: objects, trees, merges."""
