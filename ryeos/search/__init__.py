"""Finding items by words."""
