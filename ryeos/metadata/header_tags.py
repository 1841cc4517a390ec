"""The words that a comment can say about a file: ``@version 1.0.0`` is ``__version__``."""

from collections.abc import Mapping

TAGS: Mapping[str, str] = {
    "name": "__name__",
    "version": "__version__",
    "tool_type": "__tool_type__",
    "executor_id": "__executor_id__",
    "category": "__category__",
    "description": "__tool_description__",
    "tool_description": "__tool_description__",
    "author": "__author__",
    "params_mode": "__params_mode__",
}
"""Tag -> the name that a constant of the same meaning has. Other words in comments are prose."""
