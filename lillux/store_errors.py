"""Errors of a store, and of requests to one."""

from lillux.errors import LilluxError


class DigestError(LilluxError):
    """A text that is no digest, where the name of a blob or an object was expected."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"digest: expected 64 lower-case hex digits, found {text[:80]!r}")


class RefNameError(LilluxError):
    """A name that no ref of a store can have."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"ref {name[:200]!r}: {problem}")


class ObjectMissingError(LilluxError):
    """The store has no blob or object of that digest. ``space`` is which of the two."""

    code, exit_status = "OBJECT_NOT_FOUND", 3

    def __init__(self, space: str, digest: str, root: str) -> None:
        self.space, self.digest, self.root = space, digest, root
        super().__init__(f"{space} {digest} is not in {root}")


class ObjectChangedError(LilluxError):
    """A stored file does not hold what its name says it holds."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, expected: str, found: str) -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(
            f"{path}: expected content of the digest {expected}, found {found}",
            hint="the file was changed or cut short; remove it, and store it again from its source",
        )


class ObjectUnreadableError(LilluxError):
    """A stored object has the right digest and is no JSON: it was not stored as an object."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: expected canonical JSON: {problem}")


class RefUnreadableError(LilluxError):
    """The file of a ref does not hold a JSON object: cut short by a power loss, or by hand."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: expected a JSON object: {problem}")


class StoreLinkError(LilluxError):
    """A link, or anything else that is no plain folder or file, lies inside a store."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, expected: str) -> None:
        self.path, self.expected = path, expected
        super().__init__(
            f"{path}: expected {expected} of the store's own, found something else",
            hint="a store follows no links; remove it and look who put it there",
        )


class ObjectTooLargeError(LilluxError):
    """More bytes than a store takes as one blob or object."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"expected at most {limit} bytes to store as one, found {size}")
