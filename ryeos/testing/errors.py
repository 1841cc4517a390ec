"""What keeps cases from being read or found."""

from ryeos.errors import RyeError


class CaseFileError(RyeError):
    """A file of cases is not what such a file is."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, path: str, issues: tuple[str, ...]) -> None:
        self.path = path
        self.details = issues
        self.facts = {"issues": list(issues)}
        super().__init__(
            f"{path}: {'; '.join(issues)}",
            hint="its schema, for editors too: rye help --schema test",
        )


class NoCasesError(RyeError):
    """No file of cases is where it was asked for."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, asked: str) -> None:
        self.asked = asked
        super().__init__(
            f"no test cases: {asked}",
            hint="write them beside the tool, in NAME.test.yaml, and sign that: rye help test",
        )
