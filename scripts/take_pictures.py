"""Take the pictures of pages for the documentation, into ``docs/pictures/``.

A real node that is a registry as well, with real runs, in a headless Chromium: `scripts/install`
first; chromium and chromedriver have to be installed. The pictures are made again when the pages
change in a way that readers see; no test compares them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.browser import Browser, chromedriver, chromium  # noqa: E402 - of this checkout
from tests.support.node import User  # noqa: E402
from tests.support.registry import Account, running_registry, signed_item  # noqa: E402
from tests.support.remote_projects import FUNCTION, RemoteProject  # noqa: E402
from tests.support.workspace import Workspace  # noqa: E402
from tests.support.workspace import publish as publish_bundle  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
DESKTOP, PHONE = (1280, 800), (390, 844)

COUNT = '''
from pathlib import Path

def execute(params, project_path):
    """Count the words of the plan."""
    words = Path(project_path, "src/plan.md").read_text().split()
    report = Path(project_path, "src/report.md")
    report.write_text(f"# Report\\n\\n{len(words)} words in {params.get('name', 'the plan')}.\\n")
    return {"words": len(words), "written": "src/report.md"}
'''
FAIL = """
def execute(params, project_path):
    raise ValueError("the well is dry")
"""
WAIT = """
import time

def execute(params, project_path):
    time.sleep(params["seconds"])
    return {"waited": params["seconds"]}
"""
GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: garden
description: Water, count, report
permissions: ["rye.*"]
config:
  start: look
  nodes:
    look: {action: {item_id: "tool:garden/wait", params: {seconds: 0.3}}, next: water}
    water: {action: {item_id: "tool:garden/wait", params: {seconds: 0.8}}, next: count}
    count: {action: {item_id: "tool:garden/count", params: {name: the garden}}, next: rest}
    rest: {action: {item_id: "tool:garden/wait", params: {seconds: 0.2}}}
"""
TOOL = '''\
__version__ = "{version}"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "{category}"
__tool_description__ = """Waters a **bed** of the garden.

- counts the litres, see [the manual](https://example.org/water)
- stops when it rains: `rain: true`
"""

CONFIG_SCHEMA = {{
    "type": "object",
    "properties": {{
        "bed": {{"type": "string", "description": "which bed"}},
        "litres": {{"type": "number", "default": {litres}, "description": "how much at most"}},
    }},
    "required": ["bed"],
}}


def execute(params, project_path):
    """Water it."""
    return {{"bed": params["bed"], "litres": params.get("litres", {litres})}}
'''


def main() -> int:
    """Take them all."""
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="pictures") as folder:
        place = Path(folder)
        with (
            running_registry(place / "node", role="all") as registry,
            chromedriver(place) as port,
        ):
            user = registry.node.user(scopes=("*",), name="Ada's laptop")
            graph_run, changing_run = fill(user, place)
            item_id = publish(registry.account("ada", with_key=True))
            run = f"/page/thread?id={quote(graph_run)}"
            with window(port, DESKTOP, "light") as browser:
                log_in(browser, user)
                take(browser, user, "home", "/")
                take(browser, user, "run", f"{run}#steps")
                take(browser, user, "changes", f"/page/thread?id={quote(changing_run)}#changes")
                take(browser, user, "item", f"/browse/item/tool/{item_id}")
            with window(port, PHONE, "dark") as browser:
                log_in(browser, user)
                take(browser, user, "home-phone", "/")
                take(browser, user, "run-phone", run)
    return 0


def fill(user: User, folder: Path) -> tuple[str, str]:
    """Push a project and have some runs in it; that of a graph, and one that changed a file."""
    workspace = Workspace(folder / "workspace", (publish_bundle(folder / "bundle"),))
    project = RemoteProject(workspace, user)
    for name, text in {"count": COUNT, "fail": FAIL, "wait": WAIT}.items():
        workspace.project.signed_tool(f"garden/{name}", text, executor=FUNCTION)
    workspace.project.signed("tools/garden/day.yaml", GRAPH)
    project.let_files_travel()
    project.write("src/plan.md", "# Plan\n\nSow, water and wait.\n")
    project.pushed()
    project.execute("tool:garden/count")
    project.write("src/plan.md", "# Plan\n\nSow, water, weed and wait.\n")
    project.head = project.history()[0]["_hash"]
    project.write("src/report.md", project.text("src/report.md"))
    project.push()
    project.ask("tool:garden/fail")
    project.execute("tool:garden/wait", parameters={"seconds": 0.1})
    graph = project.execute("tool:garden/day")["thread_id"]
    plan = {"name": "a smaller plan"}
    changing = project.execute("tool:garden/count", parameters=plan)["thread_id"]
    project.ask("tool:garden/wait", parameters={"seconds": 60}, **{"async": True})
    return str(graph), str(changing)


def publish(account: Account) -> str:
    """Publish two versions of an item; its id."""
    item_id = f"{account.name}/garden/water"
    for version, litres in (("1.0.0", 5), ("1.1.0", 8)):
        text = TOOL.format(version=version, category=f"{account.name}/garden", litres=litres)
        content = signed_item(account.key, item_id, text)
        reply = account.push(item_id, version, content=content, changelog=f"{litres} litres")
        if reply.status != HTTPStatus.OK:
            raise SystemExit(f"{item_id}: {reply.json}")
    return item_id


@contextmanager
def window(port: int, size: tuple[int, int], scheme: str) -> Iterator[Browser]:
    """A window of this size for somebody who prefers these colours."""
    with chromium(port) as browser:
        browser.show_in(*size)
        browser.prefer_colours(scheme)
        yield browser


def log_in(browser: Browser, user: User) -> None:
    """Log in with the key of a user."""
    browser.open(user.node.url)
    browser.find("#key").type(user.token)
    browser.find("main button").click()
    browser.find(".facts")


def take(browser: Browser, user: User, name: str, address: str) -> None:
    """A picture of what is seen at an address of the node."""
    browser.open(f"{user.node.url}{address}")
    browser.find("main")
    path = PICTURES / f"{name}.png"
    browser.screenshot(path)
    sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    raise SystemExit(main())
