"""Credentials: names for secrets, with the hosts that may get them and the place they are kept.

``config/credentials/NAME.yaml`` of a bundle or of user space, signed; a project's never counts. A
file of user space takes the place of a bundle's::

    hosts: ["api.github.com:443"]
    put: {header: Authorization, as: "Bearer {}"}
    source: {variable: GITHUB_TOKEN}      # or {file: ~/.github-token}, {command: [op, read, ...]}

The value is read when it is needed, and is in no file of Rye, log, error or ``repr``.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.files import file_system_error, read_bytes
from lillux.http.urls import Address, parse_address
from lillux.patterns import pattern
from lillux.values import dataclass, field, replace
from ryeos.items.context import Context
from ryeos.items.errors import RyeError, UnsignedError, UnsupportedError
from ryeos.items.refs import SYSTEM, USER, Kind, Spaces
from ryeos.trust.config import ConfigReader, Layer

if TYPE_CHECKING:
    from lillux.process.model import ProcessRunner

FOLDER = "credentials"
_MAX_BYTES = 64 * 1024
_COMMAND_S = 10.0
_NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
_HOST = r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253})(:[0-9]{1,5})?$"
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]{0,255}$"
_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 400}

_LATER = frozenset({"keychain", "oauth"})
"""Sources that files may name, and that this version does not read."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "hosts": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": _HOST},
        },
        "put": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("header", "query", "cookie"), _TEXT),
                "basic": {"type": ["string", "boolean"]},
                "as": {"type": "string", "pattern": r"\{\}"},
            },
            "additionalProperties": False,
        },
        "source": {
            "type": "object",
            "properties": {
                "variable": {"type": "string", "pattern": _VARIABLE},
                "file": _TEXT,
                "command": {"type": "array", "minItems": 1, "items": _TEXT},
                "keychain": _TEXT,
                "oauth": _TEXT,
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    },
    "required": ["hosts", "source"],
}
"""The schema of such a file, beside what any file may say about itself."""


class Secret:
    """A value that is shown nowhere: only `reveal` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for a request to a host of its credential."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a secret is not written anywhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One credential, without its value. ``source`` is its kind, and what that needs.

    put  ``header``, ``query``, ``cookie`` or ``basic``; the name; how the value is written
    """

    name: str
    path: Path
    hosts: tuple[str, ...]
    put: tuple[str, str, str]
    source: tuple[str, Any] = field(repr=False)

    def serves(self, url: str) -> bool:
        """True if an address is of its hosts, so that it may get the value."""
        return host_of(parse_address(url)) in self.hosts

    @property
    def place(self) -> str:
        """The place of its value in words for a person: never the value."""
        kind, said = self.source
        return f"{kind} {said[0] if kind == 'command' else said}"


def secret_files(spaces: Spaces) -> Iterator[str]:
    """The files that credentials of user space keep their values in, for what must not read them.

    Whatever a text says counts here, signed or not: all that follows is that a file is hidden.
    """
    from ryeos.items.yaml import parse_yaml

    folder = spaces.user.ai / "config" / FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(OSError, LilluxError, UnicodeError):
            text = read_bytes(path, max_bytes=_MAX_BYTES).decode()
            source = parse_yaml(text, path.name).get("source")
            said = source.get("file") if isinstance(source, Mapping) else None
            if isinstance(said, str) and said:
                yield os.path.realpath(_in_home(said, spaces))


def _in_home(said: str, spaces: Spaces) -> Path:
    return spaces.user.base / said[2:] if said.startswith("~/") else Path(said)


class Credentials:
    """The credentials of bundles and user space. ``environ`` is what this program was started with.

    ``runner`` runs the commands of credentials.
    """

    def __init__(
        self,
        config: "ConfigReader | LoadedConfig",
        context: Context,
        runner: "Callable[[], ProcessRunner]",
    ) -> None:
        self._config, self._context, self._runner = config, context, runner

    def names(self) -> tuple[str, ...]:
        """The names of all, sorted."""
        return names_in(self._config, self._context.spaces, FOLDER)

    def get(self, name: str) -> Credential:
        """A credential. Raises RyeError `CREDENTIAL_NOT_FOUND`, IntegrityError."""
        layers = self._layers(name) if _NAME.fullmatch(name) else ()
        if not layers:
            raise RyeError(
                f"credential {name[:80]!a}: expected .ai/config/{FOLDER}/NAME.yaml of user space",
                code="CREDENTIAL_NOT_FOUND",
                hint="a project's never counts; the page is docs/agents.md",
            )
        return _credential(name, require_signed(layers[-1]))

    def has_value(self, credential: Credential) -> bool:
        """True if its value is there; a command is not run, and is believed to have it."""
        kind, said = credential.source
        if self._context.on_node and kind != "variable":
            return False
        if kind == "variable":
            return bool(self._context.process_env.get(said))
        return kind == "command" or (kind == "file" and self._file(said).is_file())

    def value(self, credential: Credential) -> Secret:
        """The value, read now. Raises RyeError `CREDENTIAL_NOT_FOUND`, FileSystemError."""
        kind, said = credential.source
        if self._context.on_node and kind != "variable":
            raise UnsupportedError(
                f"credential {credential.name}: source: {kind}: on a node the value comes from a"
                " secret of the user",
                hint="name the secret: source: {variable: NAME}",
            )
        match kind:
            case "variable":
                text = self._context.process_env.get(said, "")
            case "file":
                text = self._of_file(credential, self._file(said))
            case "command":
                text = self._of_command(credential, said)
            case _:  # `_credential` has refused the sources of later
                raise AssertionError(kind)
        text = text.strip()
        if not text:
            raise self._missing(credential, "found no value")
        if not (text.isascii() and text.isprintable()):
            raise self._missing(credential, "found more than visible ASCII characters of one line")
        return Secret(text)

    def variables(self) -> frozenset[str]:
        """Every variable that a credential names, those that another file takes the place of too.

        Raises IntegrityError: of a file that cannot be read it is not known what it names.
        """
        layers = (layer for name in self.names() for layer in self._layers(name))
        sources = (layer.values.get("source") for layer in layers)
        named = (one.get("variable") for one in sources if isinstance(one, Mapping))
        return frozenset(one for one in named if isinstance(one, str) and one)

    def kept_from(self, context: Context) -> Context:
        """The context without these variables: for all that a thread starts, and their ``.env``."""
        return without_variables(context, self.variables())

    def _layers(self, name: str) -> tuple[Layer, ...]:
        return self._config.layers(f"{FOLDER}/{name}.yaml", tiers=(SYSTEM, USER))

    def _file(self, said: str) -> Path:
        return _in_home(said, self._context.spaces)

    def _of_file(self, credential: Credential, path: Path) -> str:
        if not path.is_absolute():
            raise self._missing(credential, "expected a path that begins with / or ~/")
        if self._context.is_in_project(str(path)):
            raise self._missing(credential, "the file lies in a project, where agents read it")
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            raise self._missing(credential, "found no such file") from None
        except OSError as error:
            raise file_system_error(path, error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._missing(credential, "expected a regular file")
            if os.name == "posix" and status.st_mode & 0o077:
                raise self._missing(
                    credential,
                    f"expected the mode 0600, found {stat.S_IMODE(status.st_mode):04o}",
                    hint=f"chmod 600 {path}",
                )
            return os.read(descriptor, _MAX_BYTES).decode("utf-8", "replace")
        finally:
            os.close(descriptor)

    def _of_command(self, credential: Credential, argv: Sequence[str]) -> str:
        from lillux.process.model import Command

        outcome = self._runner().run(
            Command(
                argv=tuple(argv),
                env=self._context.own_environment,
                cwd=self._context.spaces.user.base,
                timeout_s=_COMMAND_S,
                max_output_bytes=_MAX_BYTES,
                leaves_nothing=True,
            )
        )
        if outcome.timed_out:
            raise self._missing(credential, f"the command took more than {_COMMAND_S:g} s")
        if outcome.exit_code != 0:  # what it printed may be the value
            raise self._missing(credential, f"the command ended with {outcome.exit_code}")
        return outcome.stdout.data.decode("utf-8", "replace")

    def _missing(self, credential: Credential, problem: str, *, hint: str = "") -> RyeError:
        return RyeError(
            f"credential {credential.name}: {credential.place}: {problem}",
            code="CREDENTIAL_NOT_FOUND",
            path=str(credential.path),
            hint=hint
            or f"set it, or name another source in .ai/config/{FOLDER}/"
            f"{credential.name}.yaml of your home",
        )


_READ = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def without_variables(context: Context, names: frozenset[str]) -> Context:
    """A context whose tools get none of these variables, from wherever they come."""
    if context.platform == "win32":  # which does not mind the case
        names = frozenset(name.upper() for name in names)
        kept = {
            name: value for name, value in context.process_env.items() if name.upper() not in names
        }
    else:
        kept = {name: value for name, value in context.process_env.items() if name not in names}
    return replace(context, process_env=kept, withheld=context.withheld | names)


class LoadedConfig:
    """Files of configuration as they were read and verified before, in place of a `ConfigReader`.

    On a node the worker of an execution reads those of the bundle and of the node's operator before
    it gives its rights away; those that a user pushed are none of them.
    """

    def __init__(self, layers: Mapping[str, tuple[Layer, ...]]) -> None:
        self._layers = layers

    def layers(
        self,
        path: str,
        where: str = "",  # noqa: ARG002 - as a `ConfigReader` has it
        tiers: Sequence[str] = (),  # noqa: ARG002
    ) -> tuple[Layer, ...]:
        """The file in each of these spaces, the bundle first."""
        return self._layers.get(path, ())

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the files in a folder, sorted."""
        before, after = f"{folder}/", ".yaml"
        found = (path.removeprefix(before).removesuffix(after) for path in self._layers)
        return tuple(sorted(one for one in found if f"{before}{one}{after}" in self._layers))


def loaded_config(
    config: ConfigReader, spaces: Spaces, folders: Sequence[str], files: Sequence[str]
) -> LoadedConfig:
    """All files of these folders, and these files, of bundles and user space. Raises as reading."""
    paths = [f"{folder}/{name}.yaml" for folder in folders for name in config_names(spaces, folder)]
    return LoadedConfig(
        {path: config.layers(path, tiers=(SYSTEM, USER)) for path in (*paths, *files)}
    )


def names_in(config: "ConfigReader | LoadedConfig", spaces: Spaces, folder: str) -> tuple[str, ...]:
    """The names of the configurations in a folder of bundles and user space, sorted."""
    if isinstance(config, LoadedConfig):
        return config.names(folder)
    return config_names(spaces, folder)


def config_names(spaces: Spaces, folder: str) -> tuple[str, ...]:
    """The names of the configurations in a folder of bundles and user space, sorted."""
    own = (*spaces.bundles, spaces.user)
    folders = (space.directory(Kind.CONFIG) / folder for space in own)
    return tuple(sorted({path.stem for one in folders for path in _yaml_files(one)}))


def _yaml_files(folder: Path) -> Iterator[Path]:
    try:
        yield from (path for path in folder.iterdir() if path.suffix == ".yaml")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise file_system_error(folder, error) from error


def require_signed(layer: Layer) -> Layer:
    """The layer. Raises UnsignedError: what says who gets keys and prompts has to be signed."""
    if layer.is_signed:
        return layer
    from lillux.errors import as_word

    raise UnsignedError(str(layer.path), f"rye sign {as_word(layer.path)}")


def problems_of(values: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """The problem of a file that fits such a schema, beside what it says about itself."""
    from lillux.schema import violations

    about = ("version", "category", "name", "description", "schema_version")
    whole = {
        **schema,
        "properties": {**schema["properties"], **{key: {} for key in about}},
        "patternProperties": {"^(x-|_)": {}},
        "additionalProperties": False,
    }
    yield from (str(one) for one in violations(values, whole))


def require_fit(layer: Layer, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a layer that fit. Raises RyeError `CONFIG_ERROR`."""
    found = tuple(problems_of(layer.values, schema))
    if found:
        path = str(layer.path)
        raise RyeError(f"{path}: {'; '.join(found[:5])}", code="CONFIG_ERROR", path=path)
    return layer.values


def file_problems(relative: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Problems of the file of a credential at this path below ``config``."""
    found = tuple(problems_of(values, SCHEMA))
    yield from found
    if not found:
        try:
            _credential(Path(relative).stem, Layer(USER, Path(relative), values))
        except RyeError as error:
            yield str(error)


def _credential(name: str, layer: Layer) -> Credential:
    values = require_fit(layer, SCHEMA)
    put = dict(values.get("put") or {"header": "Authorization", "as": "Bearer {}"})
    form = str(put.pop("as", "{}"))
    if len(put) != 1:
        raise RyeError(
            f"{layer.path}: put: expected one of header, query, cookie, basic",
            code="CONFIG_ERROR",
            path=str(layer.path),
        )
    (kind, target), (source, said) = next(iter(put.items())), next(iter(values["source"].items()))
    if source in _LATER:
        raise UnsupportedError(
            f"{layer.path}: source: {source} cannot be read yet, and nothing is read in its place",
            hint="use variable, file or command",
        )
    hosts = tuple(_with_port(host) for host in values["hosts"])
    return Credential(
        name=name,
        path=layer.path,
        hosts=hosts,
        put=(kind, str(target), form),
        source=(source, tuple(said) if isinstance(said, list) else said),
    )


def _with_port(host: str) -> str:
    """A host as `host_of` writes it; without a port it is that of https."""
    bare, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        bare, port = host, "443"
    return f"{bare.lower()}:{int(port)}"


def host_of(address: Address) -> str:
    """The host of an address, with its port, as a credential names it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
