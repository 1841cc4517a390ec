"""One thing that is wrong in a graph file, with the place where it stands."""

from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What a reader finds: as an error it keeps the graph from running, as a warning it does not.

    path  where it stands in the YAML, ``config.nodes.route.next[0].to``; ``""`` for the file
    text  what was expected and what was found
    hint  how to put it right, ``""`` where the text says it all
    """

    path: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        """Give the line that people read."""
        line = f"{self.path}: {self.text}" if self.path else self.text
        return f"{line} ({self.hint})" if self.hint else line

    def described(self) -> dict[str, str]:
        """Give the JSON form; ``hint`` only where there is one."""
        described = {"path": self.path, "message": self.text}
        return described | {"hint": self.hint} if self.hint else described
