"""The text of the items that are written, and whether somebody has edited one since. Pure.

The last line of such a text has the digest of all above it. A text whose digest is another was
edited, whoever has signed it since.
"""

import re
from collections.abc import Mapping

from lillux.digests import sha256_hex
from ryeos.metadata.yaml_writing import yaml_text

FIRST_VERSION = "1.0.0"
_DIGEST = re.compile(r'^x-mcp-digest: "([0-9a-f]{64})"\n', re.MULTILINE)
_VERSION = re.compile(r'^version: "(\d+)\.(\d+)\.(\d+)"$', re.MULTILINE)


def generated(comment: str, values: Mapping[str, object]) -> str:
    """A text that says of itself that nobody has edited it. Raises ValueError for no JSON."""
    text = f"# {comment}\n{yaml_text(values)}"
    return f'{text}x-mcp-digest: "{_digest(text)}"\n'


def is_untouched(body: str) -> bool:
    """Whether a text is as it was generated."""
    above, found, below = _taken_apart(body)
    return not below and found == _digest(above)


def version_of(body: str) -> str:
    """The version in a generated text."""
    found = _VERSION.search(body)
    return ".".join(found.groups()) if found else FIRST_VERSION


def next_version(version: str) -> str:
    """The version after this one."""
    rest, _, last = version.rpartition(".")
    return f"{rest}.{int(last) + 1}"


def _taken_apart(body: str) -> tuple[str, str, str]:
    for found in list(_DIGEST.finditer(body))[-1:]:
        return body[: found.start()], found[1], body[found.end() :]
    return body, "", ""


def _digest(text: str) -> str:
    return sha256_hex(text.encode())
