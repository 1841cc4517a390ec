"""Files below the folders that these tools may touch, opened so that no link leads out of them.

A path is walked folder by folder, each opened relative to the one before and never through a link;
a link is read and walked in its turn. Where the platform cannot do that (Windows), the real path is
compared instead. Page: ``docs/bundle-tools.md``.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
import sys
import unicodedata

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/file-system/lib"
__tool_description__ = "Opens files of the project without following links out of it"

MAX_LINKS, MAX_BYTES, MAX_COMPARED = 40, 64 << 20, 2000
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
FILE = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
FILE |= getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer must not hold us
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
HAS_AT = {os.open, os.readlink, os.stat, os.mkdir, os.rename} <= os.supports_dir_fd

# Write access to these decides what runs, and what these tools may touch.
UNWRITABLE = (
    (".git",),
    *(
        (".ai", "config", name)
        for name in (
            *("access", "agents", "approvals", "credentials", "file-system", "integrity"),
            *("keys", "registry", "remotes", "sandbox", "web"),
        )
    ),
    *((".ai", "config", "agent", name) for name in ("agent.yaml", "prices", "providers")),
    (".ai", "state"),
)
UNREADABLE = tuple((".ai", "config", "keys", name) for name in ("signing", "receipts"))
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class RefusedError(Exception):
    """What is answered instead: the problem, and what to do."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem)


def answered(act: object, params: dict, project_path: str) -> dict:
    """What ``act(params, folders)`` gives, with ``success``; errors as answers."""
    try:
        config = params.pop("resolved_config", None) or {}
        return {"success": True, **act(params, Folders(project_path, config.get("allow")))}
    except RefusedError as error:
        return {"success": False, "error": error.problem} | (
            {"hint": error.hint} if error.hint else {}
        )
    except OSError as error:
        shown = str(params.get("path", "."))
        answer = {"success": False, "error": f"{shown}: {error.strerror or error}"}
        is_of_rye = shown.replace("\\", "/").removeprefix("./").startswith(".ai/")
        if isinstance(error, PermissionError) and is_of_rye:
            answer["hint"] = "Rye alone writes below .ai: sign, with item_id and content"
        return answer


def is_below(parts: list, protected: tuple) -> bool:
    """Whether a path lies in a protected folder, however its names are spelled."""
    plain = [plain_name(part) for part in parts]
    return any(
        tuple(plain[at : at + len(names)]) == names
        for names in protected
        for at in range(len(plain))
    )


def plain_name(name: str) -> str:
    """A name as file systems see it that ignore case, marks without width, dots at its end."""
    if not name.isascii():
        normal = unicodedata.normalize("NFKC", name)
        name = "".join(mark for mark in normal if unicodedata.category(mark) != "Cf")
    name = name.casefold()
    return ".git" if name == "git~1" else name.rstrip(". ") or name


class Place:
    """Where a file is or would be: a name in an open folder (``fd``), or a whole path without one.

    ``shown`` is the path that answers name, ``root`` the allowed folder it is in, ``parts`` the
    names below that. Closes its folder as a context.
    """

    def __init__(self, root: str, parts: list, name: str, fd: object = None) -> None:
        self.root, self.parts, self.name, self.fd = root, parts, name, fd
        self.shown = "/".join(parts) or "."

    def __enter__(self):  # noqa: ANN204 - importing typing takes longer than a call
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def status(self) -> object:
        """What is there, None for nothing; a link is not followed."""
        try:
            return os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_folder(self) -> object:
        """A descriptor, or a path where a platform has none for folders."""
        if self.fd is None:
            return self.name
        return os.open(self.name, FOLDER | NO_FOLLOW, dir_fd=self.fd)

    def read(self) -> tuple:
        """The bytes of a regular file and its status."""
        status = self.status()
        if status is None:
            raise RefusedError(f"{self.shown}: there is no such file", self.meant())
        kind = kind_of(status.st_mode)
        if kind != "file":
            raise RefusedError(f"{self.shown}: expected a file, found a {kind}")
        fd = os.open(self.name, FILE | NO_FOLLOW, dir_fd=self.fd)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                problem = f"expected a file of at most {MAX_BYTES} bytes, found {status.st_size}"
                raise RefusedError(f"{self.shown}: {problem}", "use sed or tail with rye/bash/bash")
            return file.read(MAX_BYTES + 1), status

    def meant(self) -> str:
        """What to ask for where there is no such file: the names beside it that are like it."""
        from difflib import get_close_matches

        try:
            names = os.listdir(self.fd if self.fd is not None else os.path.dirname(self.name))
        except OSError:
            names = []
        shown = [name for name in names[:MAX_COMPARED] if name.isprintable()]
        close = get_close_matches(os.path.basename(self.name), shown, 2)
        paths = ["/".join((*self.parts[:-1], name)) for name in close]
        return (
            f"did you mean {' or '.join(paths)}?" if paths else "rye/file-system/glob finds files"
        )

    def replace(self, data: bytes, *, mode: object = None, owner: object = None) -> None:
        """Put a whole new file in this place, at once; without a mode only where there is none."""
        if mode is not None and not mode & 0o222:
            raise RefusedError(f"{self.shown}: it is read-only", "chmod u+w makes it writable")
        temporary = os.path.join(os.path.dirname(self.name), f".{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | getattr(os, "O_BINARY", 0)
        fd = os.open(temporary, flags | getattr(os, "O_CLOEXEC", 0), 0o666, dir_fd=self.fd)
        ends = {"src_dir_fd": self.fd, "dst_dir_fd": self.fd}
        try:
            with open(fd, "wb") as file:
                if mode is not None and hasattr(os, "fchmod"):
                    with contextlib.suppress(OSError):  # only its owner may give it away
                        if owner is not None and owner != (os.geteuid(), os.getegid()):
                            os.fchown(fd, *owner)
                    os.fchmod(fd, stat.S_IMODE(mode))
                file.write(data)
                file.flush()
                os.fsync(fd)
            if mode is None and self._link(temporary, ends):
                return
            os.replace(temporary, self.name, **ends)
        except BaseException:  # an interrupt too leaves no half file
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self.fd)
            raise

    def _link(self, temporary: str, ends: dict) -> bool:
        """Name a new file without taking the name from another; False where that is unknown."""
        try:
            os.link(temporary, self.name, **ends, follow_symlinks=False)
        except FileExistsError:
            raise RefusedError(f"{self.shown}: another program made it meanwhile") from None
        except (OSError, NotImplementedError):
            if self.status() is not None:
                raise RefusedError(f"{self.shown}: another program made it meanwhile") from None
            return False
        os.unlink(temporary, dir_fd=self.fd)
        return True


class Folders:
    """The project, and the folders that the user allows besides."""

    def __init__(self, project_path: str, allow: object = None, *, has_at: bool = HAS_AT) -> None:
        home = os.environ.get("USER_SPACE") or os.path.expanduser("~")
        real = os.path.realpath(project_path)
        if real in (os.path.dirname(real), os.path.realpath(home)):
            raise RefusedError(
                f"{project_path}: expected a project, found the folder of everything",
                "name the project: rye --project DIR, or RYE_PROJECT",
            )
        if not isinstance(allow or [], list) or not all(
            isinstance(one, str) for one in allow or []
        ):
            raise RefusedError(
                "file-system/access.yaml: allow: expected a list of absolute folders"
            )
        given = [os.path.expanduser(folder) for folder in allow or []]
        self.roots = [real, *(os.path.realpath(one) for one in given if os.path.isabs(one))]
        self.spellings = {project_path: real, real: real}
        self.spellings |= {one: os.path.realpath(one) for one in given if os.path.isabs(one)}
        self.spellings |= {root: root for root in self.roots}
        self.has_at = has_at

    def readable(self, path: str) -> Place:
        """Where something is that may be read."""
        place = self._place(path, ())
        if is_below([*names_of(place.root), *place.parts], UNREADABLE):
            with place:
                raise RefusedError(f"{place.shown}: private keys are not read")
        return place

    def writable(self, path: str, *, create_folders: bool = False) -> Place:
        """Where something may be written; its folders are made if wanted."""
        return self._place(path, UNWRITABLE, create_folders=create_folders)

    def _place(self, path: str, protected: tuple, *, create_folders: bool = False) -> Place:
        if not path or not is_name(path):
            raise RefusedError(f"path: expected the path of a file, found {path!r}")
        root, parts = self._split(path, path)
        rules = Rules(path, protected, create_folders)
        rules.check(parts)  # before a folder is made; again for what links lead to
        return (self._walk if self.has_at else self._compare)(path, root, parts, rules)

    def _split(self, path: str, given: str) -> tuple:
        """The allowed folder that a path begins in, and the names below it."""
        if not os.path.isabs(path):
            if os.path.splitdrive(path)[0]:
                raise self._outside(given)
            return self.roots[0], names_of(path)
        for spelling, root in sorted(self.spellings.items(), key=lambda entry: -len(entry[0])):
            names = names_of(spelling)
            if names_of(path)[: len(names)] == names:
                return root, names_of(path)[len(names) :]
        raise self._outside(given)

    def _outside(self, path: str) -> RefusedError:
        meant = os.path.normpath(os.path.join(self.roots[0], path))
        shown = "" if os.path.isabs(path) else f": {meant}"
        return RefusedError(
            f"{path}: expected a path in {', '.join(self.roots)}, found one outside{shown}",
            "the user may allow folders in config file-system/access.yaml of user space",
        )

    def _walk(self, path: str, root: str, parts: list, rules: "Rules") -> Place:
        """The place, through open folders; ``todo`` holds the names ahead, the next one last."""
        names, todo, links = [], parts[::-1], 0
        folders = [os.open(root, FOLDER)]
        try:
            while todo:
                part = todo.pop()
                if part == "..":
                    if not names:
                        raise self._outside(path)
                    names.pop()
                    os.close(folders.pop())
                    continue
                target = link_target(part, folders[-1])
                if target is None:
                    rules.check([*names, part])
                    if not todo:
                        return Place(root, [*names, part], part, folders.pop())
                    folders.append(rules.enter(part, folders[-1]))
                    names.append(part)
                    continue
                links += 1
                if links > MAX_LINKS:
                    raise RefusedError(f"{path}: more than {MAX_LINKS} links")
                if os.path.isabs(target):
                    root, more = self._split(target, path)
                    names = []
                    close_all(folders)
                    folders = [os.open(root, FOLDER)]
                else:
                    more = names_of(target)
                todo.extend(reversed(more))
            return Place(root, names, ".", folders.pop())
        finally:
            close_all(folders)

    def _compare(self, path: str, root: str, parts: list, rules: "Rules") -> Place:
        """The place by its real path."""
        if any(":" in part or DEVICES.fullmatch(part.rstrip(". ")) for part in parts):
            raise RefusedError(
                f"{path}: expected the name of a file, found that of a device or stream"
            )
        real = os.path.realpath(os.path.join(root, *parts))
        root, names = self._split(real, path)
        rules.check(names)
        if rules.create_folders:
            os.makedirs(os.path.dirname(real), exist_ok=True)
        return Place(root, names, real)


class Rules:
    """What a walk must keep out of, and whether it makes what is missing."""

    def __init__(self, path: str, protected: tuple, create_folders: bool) -> None:  # noqa: FBT001
        self.path, self.protected, self.create_folders = path, protected, create_folders

    def check(self, names: list) -> None:
        """Refuse a path in a protected folder."""
        if is_below(names, self.protected):
            raise RefusedError(
                f"{self.path}: nothing is written in .git, .ai/state, .ai/config/keys and"
                " .ai/config/file-system",
                "rye/code/git and the commands of rye change what is there",
            )

    def enter(self, part: str, folder: int) -> int:
        """Open the next folder."""
        if self.create_folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
        try:
            return os.open(part, FOLDER | NO_FOLLOW, dir_fd=folder)
        except FileNotFoundError:
            hint = "rye/file-system/write makes them with create_folders: true"
            raise RefusedError(
                f"{self.path}: there is no folder {part}", hint if self.protected else ""
            ) from None
        except NotADirectoryError:
            raise RefusedError(f"{self.path}: {part} is no folder") from None


def is_name(path: str) -> bool:
    """Whether a file can be called so: not with a NUL, nor with half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def names_of(path: str) -> list:
    """The names in a path; a drive and what begins it are one of them."""
    separators = "[/\\\\]" if sys.platform == "win32" else "/"
    return [name for name in re.split(separators, path) if name not in ("", ".")]


def link_target(name: str, folder: int) -> object:
    """Where a link leads, None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def close_all(folders: list) -> None:
    """Close what is left of a walk."""
    while folders:
        os.close(folders.pop())


def kind_of(mode: int) -> str:
    """In a word what a status is about."""
    if stat.S_ISREG(mode):
        return "file"
    names = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe"}
    return (names | {stat.S_IFSOCK: "socket"}).get(stat.S_IFMT(mode), "device")


def digest(data: bytes) -> str:
    """What tells one content of a file from another."""
    return hashlib.sha256(data).hexdigest()
