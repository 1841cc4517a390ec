"""Which files stay here though they are items: an allow-list for keys, and no pinned nodes. Pure.

Runs on a node need the user's configuration, trusted keys and items. They do not need what makes
somebody this user, nor which nodes this machine knows: ``docs/cas.md``, User spaces.
"""

import re

_KEYS = ".ai/config/keys/signing/"
_PUBLIC = frozenset({f"{_KEYS}public_key.pem", f"{_KEYS}box_pub.pem"})
_TRUSTED = ".ai/config/keys/trusted/"
_PINS = ".ai/config/remotes/pins"
_CONFIG = ".ai/config/"
_PRIVATE_MARK = b"PRIVATE KEY-----"
_OF_A_REMOTE = re.compile(rb"""^[ \t]*owner[ \t]*=[ \t]*["']remote:""", re.MULTILINE)


def stays_by_path(path: str) -> bool:
    """Whether a file stays here whatever it holds: signing keys, pins of nodes.

    In a project too, which may be the folder of a user space at the same time.
    """
    folded = path.casefold()  # a file system that does not tell case apart has one file for both
    if not folded.startswith(_CONFIG):
        return False
    if folded.startswith(_KEYS):
        return path not in _PUBLIC
    return folded.startswith((f"{_PINS}/", f"{_PINS}."))


def why_it_stays(path: str, data: bytes) -> str:
    """Why a file of a user space stays here for what it holds; ``""`` when it may travel."""
    folded = path.casefold()
    if folded.startswith(_CONFIG) and _PRIVATE_MARK in data:
        return "holds a private key"
    if folded.startswith(_TRUSTED) and _OF_A_REMOTE.search(data):
        return "the pinned key of a node, which is no key for items"
    return ""
