"""``remotes.yaml`` edited as text, so that what people wrote around an entry stays. Pure."""

from collections.abc import Mapping

from ryeos.metadata.yaml_entries import UneditableYamlError, with_entry, without_entry
from ryeos.remote.remote_values import RemoteConfigError

NEW_TEXT = """\
version: "1.0.0"
category: remotes

# Nodes to run on, by name; each has a url, and may have key_env, node_id, timeout, roles.
remotes:
"""

_SECTION = "remotes"


def with_remote(text: str, name: str, settings: Mapping[str, object]) -> str:
    """The text with an entry, added or replaced as a whole. Raises RemoteConfigError."""
    try:
        return with_entry(text, _SECTION, name, settings)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def without_remote(text: str, name: str) -> str:
    """The text without an entry, which must be there. Raises RemoteConfigError."""
    try:
        return without_entry(text, _SECTION, name)
    except UneditableYamlError as error:
        raise _uneditable(error) from error


def _uneditable(error: UneditableYamlError) -> RemoteConfigError:
    return RemoteConfigError(
        _SECTION,
        "expected one entry below the other, each with lines of its own",
        hint=error.hint,
    )
