"""What a project may be called on a node. A name like ``me/project``: opaque, and no path."""

MAX_LENGTH = 1024


def check_project_path(project_path: str) -> str:
    """The name itself. Raises ValueError in the words that a caller is told."""
    if not project_path:
        raise ValueError("expected the name of a project, found an empty text")
    if len(project_path) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters, found {len(project_path)}")
    if not project_path.isprintable():  # nor half a surrogate pair, which no database holds
        raise ValueError("expected characters that can be printed")
    return project_path
