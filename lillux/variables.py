"""Environment variables of tools: their names, and values of an ``env_config``."""

import os

from lillux.errors import ConfigurationError


def as_text(where: str, value: object) -> str:
    """The value, if it is a string that programs can be given; else ConfigurationError."""
    if not isinstance(value, str):
        raise ConfigurationError(where, f"expected a string, got {kind_of(value)}")
    return require_passable(where, value)


def as_texts(where: str, value: object) -> tuple[str, ...]:
    """The strings of a list; none where there is no list at all. Else ConfigurationError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ConfigurationError(where, f"expected a list of strings, got {kind_of(value)}")
    return tuple(as_text(f"{where}[{index}]", item) for index, item in enumerate(value))


def as_variable_name(where: str, value: object) -> str:
    """The value, if it can name an environment variable; else ConfigurationError."""
    name = as_text(where, value)
    if not name or "=" in name:
        raise ConfigurationError(where, f"expected the name of a variable, got {name!r}")
    return name


def require_passable(where: str, text: str) -> str:
    """The text, if it can be passed to a program; else ConfigurationError."""
    if "\0" in text:
        raise ConfigurationError(where, "expected text without NUL characters")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        found = ascii(text[error.start])
        problem = f"expected text this system can encode, found {found}"
        raise ConfigurationError(where, problem) from error
    return text


def kind_of(value: object) -> str:
    """Word of an error for a value: the name of the value's type, ``nothing`` for None."""
    return "nothing" if value is None else type(value).__name__


def canonical_name(name: str, platform: str) -> str:
    """The one spelling of an environment variable's name: upper case where case says nothing."""
    return name.upper() if platform == "win32" else name
