"""``rye-node.pyz`` as it is built: started by a Python that has no library."""

import json
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from lillux.uids import obstacle_to
from rye_services.settings import DEFAULT_UIDS
from rye_services.storage.database import REVISION
from ryeos import __version__
from ryeos.remote.identity import read_identity
from tests.support.built import BASE_PYTHON, ROOT, Machine, run
from tests.support.node import Node, running_node
from tests.support.other_pythons import require_python
from tests.support.registry import running_registry
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

KEYS = "/admin/authorized-keys"


@pytest.fixture(scope="module")
def packed_node(built_node_pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The built node, serving."""
    folder = tmp_path_factory.mktemp("packed")
    command = (str(BASE_PYTHON), "-I", str(built_node_pyz))
    with running_node(folder / "node", command=command) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path, built_node_pyz: Path) -> Machine:
    """A user's machine, with the built node."""
    return Machine(tmp_path, BASE_PYTHON, "-I", built_node_pyz)


def test_the_built_node_serves(packed_node: Node) -> None:
    identity = read_identity(packed_node.ask("GET", "/public-key").json)

    assert identity.node_id == packed_node.keys.node_id
    assert packed_node.ask("GET", "/health").json["version"] == __version__
    assert packed_node.owner.ask("GET", KEYS).status == 200
    assert packed_node.owner.ask("GET", KEYS, auth="bearer").status == 200


def test_its_bundle_is_the_signed_one(packed_node: Node) -> None:
    provided = packed_node.ask("GET", "/status").json["capabilities"]["provides"]

    assert "rye.execute.tool.rye.bash.bash" in provided


def test_pages_and_tables_are_in_the_file(packed_node: Node, built_node_pyz: Path) -> None:
    page = packed_node.ask("GET", "/").body.decode()

    assert 'name="key"' in page
    assert packed_node.ask("GET", "/page/files/htmx.min.js").status == 200
    assert "/execute" in packed_node.ask("GET", "/docs").body.decode()
    listed = (ROOT / "rye_services").rglob("*")
    files = {path for path in listed if path.is_file() and "__pycache__" not in path.parts}
    with ZipFile(built_node_pyz) as built:
        packed = set(built.namelist())
    names = {f"site-packages/{path.relative_to(ROOT).as_posix()}" for path in files}
    assert names - packed == set()


def test_a_database_is_made_by_the_file_alone(server: Machine, tmp_path: Path) -> None:
    data = tmp_path / "made"

    server.ask("init", "--data", str(data))

    with sqlite3.connect(data / "node.db") as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert found == [(REVISION,)]


def test_the_built_node_ends_well(built_node_pyz: Path, tmp_path: Path) -> None:
    command = (str(BASE_PYTHON), "-I", str(built_node_pyz))
    with running_node(tmp_path / "node", command=command) as node:
        assert node.end() == 0
        node.start()


def test_the_built_node_is_a_registry_where_its_settings_say_so(
    built_node_pyz: Path, tmp_path: Path
) -> None:
    command = (str(BASE_PYTHON), "-I", str(built_node_pyz))
    with running_registry(tmp_path / "registry", command=command) as registry:
        account = registry.account()
        item_id = f"{account.name}/greetings/hello"

        assert account.push(item_id).status == 200
        assert registry.ask("GET", f"/v1/pull/tool/{item_id}").json["author"] == account.name
        assert b"hello" in registry.ask("GET", "/browse?query=hello").body
        assert registry.ask("GET", "/browse/files/style.css").status == 200


def test_commands_work_without_a_server(server: Machine, tmp_path: Path) -> None:
    server.ask("init", "-q")

    made = json.loads(
        server.ask("api-keys", "create", "--user", "ada", "--name", "x", "--json", "-q")
    )

    listed = json.loads(server.ask("api-keys", "list", "--json"))
    assert made["key"].startswith("rye_sk_")
    assert [key["id"] for key in listed["keys"]] == [made["id"]]
    assert (server.home / ".rye-node" / "node.db").is_file()


@pytest.mark.skipif(obstacle_to(DEFAULT_UIDS) != "", reason="the node is not root")
def test_its_executions_have_user_ids_that_can_read_what_it_unpacked(
    packed_node: Node, workspace: Workspace
) -> None:
    workspace.project.signed_yaml("who", "config: {command: id -u}")
    project = RemoteProject(workspace, packed_node.user()).pushed()

    uid = project.execute("tool:who")["result"]["data"]

    assert DEFAULT_UIDS.first <= uid <= DEFAULT_UIDS.last, packed_node.log


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
@pytest.mark.parametrize("variable", ["SHIV_ROOT", "RYE_CACHE_DIR"])
def test_its_unpacked_files_are_for_its_owner_alone(
    server: Machine, tmp_path: Path, variable: str
) -> None:
    root = tmp_path / "unpacked"

    server.ask("version", environ=server.environ(**{variable: str(root)}))

    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (root, *root.iterdir())}
    assert modes == {0}
    assert not (server.home / ".shiv").exists()


def test_it_runs_from_any_folder_under_any_name(
    server: Machine, built_node_pyz: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "node with blanks"
    copy.write_bytes(built_node_pyz.read_bytes())

    ended = run([BASE_PYTHON, copy, "version"], environ=server.environ(), cwd=Path(os.sep))

    assert (ended.stdout, ended.stderr) == (f"rye-node {__version__}\n", "")


DATABASE = "postgresql+psycopg://rye@127.0.0.1:9/rye"
IMPORTED, NO_DRIVER = 99, "start with PYTHONPATH=DIR"


@pytest.mark.parametrize("where", ["a folder", "a project", "the folder it starts in"])
def test_it_imports_the_libraries_of_its_operator_from_no_project(
    server: Machine, built_node_pyz: Path, where: str
) -> None:
    folder = server.home / "libraries"
    (folder / ".ai" if where == "a project" else folder).mkdir(parents=True)
    (folder / "psycopg.py").write_text(f"raise SystemExit({IMPORTED})\n", "utf-8")
    named = "." if where == "the folder it starts in" else str(folder)
    environ = server.environ(PYTHONPATH=named, RYE_NODE_DATABASE_URL=DATABASE)

    ended = run([BASE_PYTHON, built_node_pyz, "users", "list"], environ=environ, cwd=folder)

    assert (ended.returncode == IMPORTED) == (where == "a folder"), ended.stderr
    assert (NO_DRIVER in ended.stderr) == (where != "a folder")


def test_what_python_has_itself_is_imported_from_no_folder_of_a_variable(
    server: Machine, built_node_pyz: Path
) -> None:
    for library in ("csv", "platform", "sysconfig", "uuid"):
        (server.home / f"{library}.py").write_text(f"raise SystemExit({IMPORTED})\n", "utf-8")

    # Without what the interpreter itself imports before the first line (-S: no *.pth).
    start: list[str | Path] = [BASE_PYTHON, "-S", built_node_pyz, "init"]
    ended = run(start, environ=server.environ(PYTHONPATH=str(server.home)))

    assert ended.returncode == 0, ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the loader's variable")
def test_it_goes_on_without_libraries_of_a_project(server: Machine, built_node_pyz: Path) -> None:
    library = server.project / "lib"
    for name in (".ai", "lib", "modules"):
        (server.project / name).mkdir()
    (server.home / "psycopg.py").write_text(
        f"import os, sys\nprint(os.environ['LD_LIBRARY_PATH'])\nsys.exit({IMPORTED})\n", "utf-8"
    )
    environ = server.environ(
        LD_LIBRARY_PATH=f"{library}:/opt/lib",
        PYTHONPATH=str(server.home),
        RYE_NODE_DATABASE_URL=DATABASE,
    )

    ended = run([BASE_PYTHON, built_node_pyz, "users", "list"], environ=environ, cwd=server.home)

    assert (ended.returncode, ended.stdout) == (IMPORTED, "/opt/lib\n")


def test_a_wrong_python_gets_an_error_with_the_reason(
    server: Machine, built_node_pyz: Path
) -> None:
    other = require_python("3.12" if sys.version_info[:2] != (3, 12) else "3.11")

    ended = run([other, built_node_pyz, "version"], environ=server.environ())

    assert (ended.returncode, ended.stdout) == (78, "")
    assert ended.stderr.startswith("error: rye-node.pyz: built for cpython-3")


def test_the_list_of_contents_and_the_signature_beside_it_are_true(
    built_node_pyz: Path, tmp_path: Path
) -> None:
    contents = json.loads(built_node_pyz.with_name("rye-node.pyz.cdx.json").read_bytes())
    names = {component["name"] for component in contents["components"]}
    key = tmp_path / "public_key.pem"
    with ZipFile(built_node_pyz) as packed:
        key.write_bytes(packed.read("site-packages/ryeos/bundle/public_key.pem"))

    ended = run(
        [sys.executable, ROOT / "rye.py", "self", "verify", built_node_pyz, "--key", key, "--json"]
    )

    libraries = {"fastapi", "uvicorn", "sqlalchemy", "mcp", "pynacl", "shiv"}
    of_pages = {"htmx.org", "jinja2", "markdown-it-py", "nh3", "pygments"}
    assert libraries | of_pages <= names
    licences = {
        component["name"]: component["licenses"][0]["expression"]
        for component in contents["components"]
    }
    assert [name for name in of_pages if licences[name] == "NOASSERTION"] == []
    assert json.loads(ended.stdout)["status"] == "success"


def test_the_built_node_shows_its_pages(packed_node: Node) -> None:
    first = packed_node.ask("GET", "/")
    script = packed_node.ask("GET", "/page/files/htmx.min.js")

    assert (first.status, script.status) == (200, 200)
    assert b'type="password"' in first.body
    assert packed_node.ask("GET", "/docs").status == 200


@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is for POSIX")
def test_the_built_node_executes_a_pushed_item(packed_node: Node, workspace: Workspace) -> None:
    remote = RemoteProject(workspace, packed_node.user())
    tool = "def execute(params, project_path):\n    return {'said': params['text']}\n"
    function = "rye/core/runtimes/python/function"
    workspace.project.signed_tool("echo", tool, executor=function)
    remote.pushed()

    answer = remote.execute("tool:echo", parameters={"text": "hello"})

    assert answer["result"]["status"] == "success", answer["result"]
    assert answer["result"]["data"]["said"] == "hello"
