"""How a text of an item asks for an input: ``{input:k}``, with an optional default.

``{input:k?}`` is empty where the input is not given, ``{input:k:default}`` and
``{input:k|default}`` are the default then.
"""

PATTERN = r"\{input:(?P<input>[A-Za-z_][\w-]*)(?:(?P<optional>\?)|[:|](?P<default>[^{}]*))?\}"
"""A part of a regular expression; its groups are ``input``, ``optional`` and ``default``."""
