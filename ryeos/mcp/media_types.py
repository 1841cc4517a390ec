"""What the file of an item is, as clients are told. Pure."""

_MIME_TYPES = {
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".json": "application/json",
    ".toml": "application/toml",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".cjs": "text/javascript",
    ".ts": "text/x-typescript",
    ".sh": "application/x-sh",
}
_PLAIN = "text/plain"


def mime_type(suffix: str) -> str:
    """What a file of this suffix is, as clients are told."""
    return _MIME_TYPES.get(suffix, _PLAIN)
