"""Running an item: the executor, its primitives, and background runs."""
