"""Item references, kinds, spaces and locations. Values only, no file access.

Formats are defined in ``docs/items.md``.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from lillux.values import dataclass, field
from ryeos.items.errors import InvalidRefError
from ryeos.items.places import AI_FOLDER

AI_DIRECTORY = AI_FOLDER
REPLACED_FOLDER, REPLACED_SETTINGS_FOLDER = "state/replaced", "state/replaced-settings"
"""Folders of user space for what a command replaced: texts of items, settings with tokens."""
LOCKS_FOLDER, THREADS_FOLDER = "state/locks", "state/agent"
CREDENTIALS_FOLDER = "state/credentials"
"""The folder of user space for keys that a person stored, a file of mode 0600 for each."""
PRIVATE_FOLDERS = (
    *("config/keys/signing", "config/keys/receipts", CREDENTIALS_FOLDER),
    *(REPLACED_SETTINGS_FOLDER, LOCKS_FOLDER, THREADS_FOLDER),
)
"""Folders below ``.ai/`` that no agent's program reads, and that stay on this machine.

They contain private keys or tokens, what was said in threads, or files that Rye locks: who can read
one can lock it.
"""
REQUESTER = "rye/core/primitives/http_client"
SHELLS = frozenset(
    {"rye/bash/bash", "rye/core/primitives/execute", "rye/core/primitives/subprocess", REQUESTER}
)
"""Items that do what their caller writes: a person approved them, not what they will do."""
RUN_COMMANDS = SHELLS | {"rye/examples/approval-gate", "rye/examples/retry-and-resume"}
"""The same with the graphs of the bundle that hand such items what their caller writes."""
EXTRACTORS_FOLDER = "rye/core/extractors"
MAX_REF_BYTES = 512
TEST_SUFFIX = ".test"

PROJECT, USER, SYSTEM = "project", "user", "system"
_RANKS = {PROJECT: 3, USER: 2, SYSTEM: 1}


class Kind(StrEnum):
    """The kind of an item; its folder decides, never its content."""

    TOOL = "tool"
    DIRECTIVE = "directive"
    KNOWLEDGE = "knowledge"
    CONFIG = "config"

    @property
    def directory(self) -> str:
        """The folder below ``.ai`` that holds items of this kind."""
        return _DIRECTORIES[self]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes in lookup order: where two files have one id, the first wins."""
        return _SUFFIXES[self]


_DIRECTORIES = {
    Kind.TOOL: "tools",
    Kind.DIRECTIVE: "directives",
    Kind.KNOWLEDGE: "knowledge",
    Kind.CONFIG: "config",
}
_SUFFIXES = {
    Kind.TOOL: (".py", ".yaml", ".yml", ".json", ".js", ".ts", ".mjs", ".cjs", ".sh", ".toml"),
    Kind.DIRECTIVE: (".md",),
    Kind.KNOWLEDGE: (".md", ".yaml", ".yml"),
    Kind.CONFIG: (".yaml", ".yml", ".toml"),
}
EXECUTABLE_KINDS = (Kind.TOOL, Kind.DIRECTIVE, Kind.KNOWLEDGE)
_KINDS_BY_DIRECTORY = {directory: kind for kind, directory in _DIRECTORIES.items()}


def kind_of_directory(name: str) -> Kind | None:
    """The kind whose items live in ``.ai/<name>``, or None."""
    return _KINDS_BY_DIRECTORY.get(name)


@dataclass(frozen=True, slots=True, order=True)
class ItemRef:
    """A kind and an id: the path below the kind's folder without its last suffix."""

    kind: Kind
    id: str

    def __str__(self) -> str:
        """Give the canonical form, ``tool:rye/bash/bash``."""
        return f"{self.kind.value}:{self.id}"

    @property
    def name(self) -> str:
        """The last segment."""
        return self.id.rpartition("/")[2]

    @property
    def is_test(self) -> bool:
        """True if it holds cases of the tool beside it, see `ryeos.app.item_tests`."""
        return self.kind is Kind.TOOL and self.id.endswith(TEST_SUFFIX)

    @property
    def category(self) -> str:
        """The folder part, ``""`` for an item at the root of its kind."""
        return self.id.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Reference:
    """The words of a caller: an id, and a kind if one was named."""

    kind: Kind | None
    id: str

    def refs(self, kinds: tuple[Kind, ...] = EXECUTABLE_KINDS) -> tuple[ItemRef, ...]:
        """Every item this may mean, in lookup order."""
        return tuple(ItemRef(kind, self.id) for kind in ((self.kind,) if self.kind else kinds))

    def __str__(self) -> str:
        """Give the reference as typed, normalised."""
        return f"{self.kind.value}:{self.id}" if self.kind else self.id


def parse_reference(text: str, item_type: str | None = None) -> Reference:
    """Parse ``tool:a/b``, or ``a/b`` with or without a separate item type.

    ``./a/b`` means ``a/b``. Absolute paths, ``..``, empty segments, backslashes, characters that
    cannot be seen, and more than 512 bytes are refused. Raises InvalidRefError.
    """
    prefix, colon, rest = text.partition(":")
    kind = parse_kind(item_type, text) if item_type else None
    if colon:
        named = parse_kind(prefix, text)
        if kind and kind is not named:
            raise InvalidRefError(text, f"says {named.value} where the item type is {kind.value}")
        kind, item_id = named, rest
        if not rest:
            raise InvalidRefError(text, f"expected an id after '{named.value}:'")
    else:
        item_id = text
    return Reference(kind, valid_id(item_id.removeprefix("./"), text))


def parse_kind(word: str, ref: str = "") -> Kind:
    """The kind called ``word``. Raises InvalidRefError that lists the kinds."""
    try:
        return Kind(word)
    except ValueError:
        known = ", ".join(kind.value for kind in Kind)
        raise InvalidRefError(
            ref or word, f"expected a kind ({known}), found {word[:60]!r}"
        ) from None


def valid_id(item_id: str, typed: str | None = None) -> str:
    """The id itself if every space could hold it. Raises InvalidRefError."""
    if len(item_id.encode("utf-8", "surrogatepass")) > MAX_REF_BYTES:
        raise InvalidRefError(typed or item_id, f"longer than {MAX_REF_BYTES} bytes")
    try:
        require_plain_path(item_id)
    except UnsafePathError as error:
        raise InvalidRefError(typed or item_id, error.problem) from None
    # Bytes that are no text are visible enough: no item has them, and messages say so.
    if not item_id.encode("utf-8", "ignore").decode().isprintable():
        raise InvalidRefError(typed or item_id, "invisible characters are not allowed")
    return item_id


# Configuration that gives rights: keys, approvals, policies, where requests may go.
RIGHTS_FOLDERS = frozenset(
    {"access", "agents", "approvals", "credentials", "file-system", "integrity", "keys"}
    | {"registry", "remotes", "sandbox", "web", "agent/agent", "agent/prices", "agent/providers"}
)


_PARTS = frozenset({"lib", "extractors"})


def is_part(item_id: str) -> bool:
    """True if an item is a part of others: a list of everything has no need of it."""
    return not _PARTS.isdisjoint(item_id.split("/")[:-1])


def id_gives_rights(config_id: str) -> bool:
    """True if configuration of this id gives rights: an agent neither signs nor copies it."""
    first, _, rest = config_id.casefold().partition("/")
    second = rest.partition("/")[0].partition(".")[0]
    return not RIGHTS_FOLDERS.isdisjoint({first, f"{first}/{second}"})


def no_types() -> "Mapping[str, FileType]":
    """No types of files but those that Rye knows."""
    return {}


def vouches_for_nothing(path: str, data: bytes) -> bool:  # noqa: ARG001 - of the interface
    """No file of a space but that of the program's own bundle is known before it is verified."""
    return False


def user_lock(ai: Path, name: str) -> Path:
    """The file of user space that is locked while what is named is changed."""
    return ai / LOCKS_FOLDER / f"{name.replace('/', '-')}.lock"


@dataclass(frozen=True, slots=True)
class Space:
    """One of the three tiers: ``project``, ``user``, or a bundle, ``system:<bundle id>``.

    ``base`` is the folder that holds ``.ai``. Only a bundle has a ``version``; ``pinned_pem`` is
    the public key that must have signed its manifest, where the bundle came with this program.
    ``added`` gives the file types that its tools may have besides, by suffix, as of now;
    ``vouches`` says whether a file, by its path below ``base``, is as this program brought it.
    """

    label: str
    base: Path
    version: str = ""
    pinned_pem: bytes = b""
    added: "Callable[[], Mapping[str, FileType]]" = field(
        default=no_types, repr=False, compare=False
    )
    vouches: "Callable[[str, bytes], bool]" = field(
        default=vouches_for_nothing, repr=False, compare=False
    )

    @property
    def tier(self) -> str:
        """``project``, ``user`` or ``system``."""
        return tier_of(self.label)

    @property
    def bundle_id(self) -> str:
        """The part after ``system:``, ``""`` for project and user."""
        return self.label.partition(":")[2]

    @property
    def ai(self) -> Path:
        """The ``.ai`` folder."""
        return _folder_in(self.base, AI_DIRECTORY)

    def lock(self, name: str) -> Path:
        """The file that is locked while this space is changed."""
        return user_lock(self.ai, name) if self.tier == USER else self.ai / "state" / f"{name}.lock"

    @property
    def within(self) -> Path | None:
        """The folder from which its files are written without following links: a project's.

        None of user space, where links are its user's own: people keep their settings elsewhere.
        """
        return self.base if self.label == PROJECT else None

    def directory(self, kind: Kind) -> Path:
        """The folder that holds this space's items of a kind."""
        return _folder_in(self.ai, kind.directory)

    def suffixes(self, kind: Kind) -> tuple[str, ...]:
        """File suffixes of a kind in lookup order, those that were added last."""
        return (*kind.suffixes, *self.added()) if kind is Kind.TOOL else kind.suffixes

    def has_suffix(self, kind: Kind, suffix: str) -> bool:
        """True if files with this suffix in lower case can be items of a kind."""
        return suffix in kind.suffixes or self.file_type(kind, suffix) is not None

    def file_type(self, kind: Kind, suffix: str) -> "FileType | None":
        """The added type of files with a suffix; None for those that Rye knows."""
        is_known = kind is not Kind.TOOL or suffix in kind.suffixes
        return None if is_known else self.added().get(suffix)


@lru_cache(maxsize=256)
def _folder_in(base: Path, name: str) -> Path:
    """A folder that is asked for with each item."""
    return base / name


def tier_of(label: str) -> str:
    """The part of a space label before the bundle id."""
    return label.partition(":")[0]


def rank_of(label: str) -> int:
    """Precedence of a space: project 3, user 2, system 1; 0 for anything else."""
    return _RANKS.get(tier_of(label), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spaces:
    """The spaces of one invocation, in precedence order. ``project`` is None outside a project."""

    project: Space | None
    user: Space
    bundles: tuple[Space, ...] = ()
    protect_core: bool = False

    def __iter__(self) -> Iterator[Space]:
        """Yield project, user, then every bundle."""
        if self.project:
            yield self.project
        yield self.user
        yield from self.bundles

    def seen_from(self, label: str) -> tuple[Space, ...]:
        """The spaces that an item of space ``label`` may use: its own tier and those below."""
        rank = rank_of(label)
        return tuple(space for space in self if rank_of(space.label) <= rank)

    def named(self, label: str) -> Space | None:
        """The space with this label; ``system`` alone means the first bundle."""
        for space in self:
            if label in (space.label, space.tier):
                return space
        return None

    @property
    def system_base(self) -> Path | None:
        """The folder for ``{system_space}``: the core bundle, else the first one."""
        core = self.named("system:ryeos-core") or self.named(SYSTEM)
        return core.base if core else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A file that holds an item in a space."""

    ref: ItemRef
    space: Space
    path: Path

    @property
    def suffix(self) -> str:
        """The last suffix in lower case, which decides the comment form and the parser."""
        return self.path.suffix.lower()

    @property
    def file_type(self) -> "FileType | None":
        """The type of the file if a space has added it."""
        return self.space.file_type(self.ref.kind, self.suffix)

    @property
    def relative(self) -> str:
        """POSIX path below ``.ai``, as bundle manifests spell it."""
        return self.path.relative_to(self.space.ai).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The place of an item, what it hides, and which paths were looked at in vain.

    ``missed`` lets a cache notice a file that appears later and would win.
    """

    location: Location
    requested: ItemRef
    shadowed: tuple[Location, ...] = ()
    missed: tuple[Path, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()


# Types of files that a space adds to those that Rye knows. Page: ``docs/items.md``.


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field, whether an item may go without it, and the checks of its value."""

    field: str
    required: bool = True
    checks: tuple[str, ...] = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileType:
    """A further suffix of tools, and how these are signed and read.

    prefix, end    the comment that holds the signature line; ``end`` is ``""`` for a line comment
    after_shebang  whether a first line ``#!/...`` stays above the signature, and is not covered
    parser         what reads the header, by its name in `ryeos.items.headers.NAMED_PARSERS`
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
    rules: tuple[FieldRule, ...] = ()
