"""Where a warning goes when nobody else takes it. Imports `logging`, which is slow, when used."""


def log_warning(text: str) -> None:
    """Log one line for a person."""
    import logging

    logging.getLogger("ryeos").warning("%s", text)
