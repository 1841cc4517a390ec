"""The node: projects, runs and secrets of its users."""
