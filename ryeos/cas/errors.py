"""What can be wrong with what travels between a project and a node."""

from collections.abc import Sequence

from ryeos.errors import RyeError


class CasObjectError(RyeError):
    """An object has another shape than its kind. ``where`` names it, like ``manifest 1f..``."""

    code, exit_status = "CAS_OBJECT_INVALID", 7

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}", hint="whoever stored it wrote it wrong; push again from there"
        )


class EntryError(RyeError):
    """An entry of a transfer that is not what it says. ``digest`` is ``unknown`` for none."""

    code, exit_status = "CAS_ENTRY_INVALID", 7

    def __init__(self, digest: str, problem: str) -> None:
        self.digest, self.problem = digest, problem
        super().__init__(
            f"entry {digest[:80]}: {problem}", hint="it was changed on its way; send it again"
        )


class ImportFailedError(RyeError):
    """Some entries of a transfer were refused. ``stored`` are the digests of the others."""

    code, exit_status = "CAS_ENTRY_INVALID", 7

    def __init__(self, stored: Sequence[str], failures: Sequence[EntryError]) -> None:
        self.stored, self.failures = tuple(stored), tuple(failures)
        self.details = tuple(str(failure) for failure in failures)
        self.facts = {
            "stored": list(stored),
            "errors": [{"hash": one.digest, "error": one.problem} for one in failures],
        }
        super().__init__(
            f"{len(failures)} of {len(failures) + len(stored)} entries refused: {failures[0]}",
            hint="the others are stored; send these again",
        )


class EntryTooLargeError(RyeError):
    """A file of which one request to a node could not hold the content."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, name: str, size: int, limit: int) -> None:
        self.name, self.size, self.limit = name, size, limit
        super().__init__(
            f"{name}: expected at most {limit} bytes in a file that travels, found {size}",
            hint="leave it out with sync.exclude in .ai/config/cas/manifest.yaml",
        )


class TreeChangedError(RyeError):
    """A file is no longer what it was when the tree it belongs to was looked at."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: changed while the project was being sent",
            hint="nothing is lost; run the command again",
        )


class LinkedFolderError(RyeError):
    """The ``.ai`` folder of a space that is to travel is a link. ``path`` is its."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: expected a folder of its own, found a link to another",
            hint="what a link leads to is not sent; put a copy in its place",
        )


class RulesUnreadableError(RyeError):
    """A file that says which files travel cannot be read, or is no YAML."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}" if path not in problem else problem,
            hint="it says which files travel, so nothing was sent or compared: mend it",
        )
