"""The addresses of the page. Pure."""

from urllib.parse import quote, urlencode

HOME = "/"
LOGIN = "/page/login"
LOGOUT = "/page/logout"
PROJECT = "/page/project"
THREAD = "/page/thread"
EXECUTIONS = "/page/executions"
STYLE = "/page/files/style.css"
SCRIPT = "/page/files/page.js"
ICON = "/page/files/icon.svg"
API = "/docs"
OPENAPI = "/openapi.json"


def project_link(project_path: str) -> str:
    """The history of a project."""
    return f"{PROJECT}?{urlencode({'path': project_path}, quote_via=quote)}"


def thread_link(thread_id: str) -> str:
    """One execution."""
    return f"{THREAD}?{urlencode({'id': thread_id}, quote_via=quote)}"


def snapshot_anchor(digest: str) -> str:
    """The row of a snapshot in its table."""
    return f"snapshot-{digest[:16]}"
