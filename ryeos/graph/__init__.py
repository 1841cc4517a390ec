"""State graphs: their files as values, and the walk through them."""
