"""Which names say that a secret belongs to them: of variables, parameters, headers and flags.

A file of its own: whoever only asks about a name does not load what masks values.
"""

from lillux.patterns import pattern

# Anywhere in a name and in any case: some names have no sign between their words.
_SECRET = pattern(
    r"(?i)token|secret|passw|passphrase|pwd|key|auth|credential|cookie|bearer|session|signature"
    r"|dsn|connection.?string|database.?url|webhook|jwt|(?<![a-z])pat(?![a-z])"
)
# Counts of tokens, other words that contain one of those, keys that are public or name a column;
# the folder of a shell, and what desktops say of a session in ordinary words.
_NO_SECRET = pattern(
    r"(?i)(?<![a-z])(?:max|min|num|total|input|output|prompt|completion)[_-]?(?:[a-z]+[_-]?)?tokens"
    r"|tokeni[sz]|key(?:word|board)|(?<![a-z])author(?!i[sz])"
    r"|(?<![a-z])(?:public|sort|primary|foreign)[_ -]?key"
    r"|^(?:(?:old)?pwd|xdg_session_(?:class|desktop|id|path|type)|desktop_session|gdmsession|sessionname)$"
)


def says_secret(name: str) -> bool:
    """True if a name is that of a secret: ``api_key``, ``GitHubToken``; not ``max_tokens``."""
    return bool(_SECRET.search(_NO_SECRET.sub(" ", name)))
