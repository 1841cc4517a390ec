"""Types of files that a space adds to those that Rye knows. Page: ``docs/extractors.md``."""

from collections.abc import Mapping

from lillux.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Rule:
    """A field, whether an item may go without it, and the checks of its value."""

    field: str
    required: bool = True
    checks: tuple[str, ...] = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileType:
    """How tools with a further suffix are signed and read.

    prefix, end    the comment that holds the signature line; ``end`` is ``""`` for a line comment
    after_shebang  whether a first line ``#!/...`` stays above the signature, and is not covered
    parser         what reads the header, by its name in `ryeos.metadata.NAMED_PARSERS`
    comment        what the lines begin with that a parser of comments reads
    fields         field of a header -> the key that it is taken from where the file lacks it
    rules          what such a file must declare beyond what every tool must
    """

    suffix: str
    prefix: str
    end: str = ""
    after_shebang: bool = False
    parser: str
    comment: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
