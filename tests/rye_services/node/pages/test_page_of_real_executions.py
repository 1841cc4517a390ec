"""A user watches the page while a project is pushed and executed for real."""

import os
from pathlib import Path

import pytest

from ryeos.remote.envelopes import seal_secrets
from tests.support.browser import Browser
from tests.support.endings import wait_until
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]

SCRIPT = "while ! [ -e $TMPDIR/go ]; do sleep 0.02; done; echo of the execution > src/x.txt"


def folders(project: RemoteProject) -> list[Path]:
    """The private temporary folders of runs in executions of this user."""
    workspaces = project.user.node.data / "workspaces" / project.user.user_id
    return [one for one in workspaces.glob("*/*/tmp/rye-*/*") if one.is_dir()]


def test_a_run_is_followed_to_its_end(
    shared_node: Node, workspace: Workspace, browser: Browser
) -> None:
    project = RemoteProject.with_tools(workspace, shared_node.user())
    thread_id = project.begun("echo new > src/x.txt; echo digging; echo stones >&2")

    browser.open(shared_node.url)
    browser.find("#key").type(project.user.token)
    browser.find("main button").click()
    browser.find_xpath("//a[text()='tool:sh']").click()
    assert browser.find("#run .state").text == "running"
    browser.run("window.notReloaded = true")
    assert "digging" in browser.find("pre.log").text
    assert browser.find("pre.log .bad").text == "stones"

    project.release()

    assert browser.find("#run .state.good").text == "completed"
    assert browser.find("tr.added code").text == "new"
    assert thread_id in browser.find(".command").text
    assert browser.run("return document.querySelector('[hx-get]')") is None
    assert browser.run("return window.notReloaded") is True
    assert browser.log() == []


def test_a_conflict_appears_on_the_open_page(
    shared_node: Node, workspace: Workspace, browser: Browser
) -> None:
    workspace.project.signed_yaml("sh", 'config: {command: "sh -c \\"$SCRIPT\\""}')
    project = RemoteProject(workspace, shared_node.user())
    project.let_files_travel()
    project.write("src/x.txt", "of both\n")
    project.pushed()
    envelope = seal_secrets({"SCRIPT": SCRIPT}, shared_node.keys.box_public)

    browser.open(shared_node.url)
    browser.find("#key").type(project.user.token)
    browser.find("main button").click()
    browser.find("#runs .empty")

    project.ask("tool:sh", secret_envelope=envelope, **{"async": True})
    assert browser.find("#runs .state.live").text == "running"

    wait_until(lambda: bool(folders(project)))
    project.write("src/x.txt", "of the push\n")
    project.push()
    for folder in folders(project):
        (folder / "go").touch()

    assert browser.find("#runs .state.warn").text == "completed"
    assert "1 conflict" in browser.find("#runs").text
    browser.find_xpath("//a[text()='tool:sh']").click()
    browser.find(".conflicts")
    assert [each.text for each in browser.all(".sides mark")] == [
        "of the push",
        "of the execution",
    ]
    browser.find_xpath("//summary[text()='What both began with']").click()
    assert "of both" in browser.find(".conflicts").text

    browser.open(shared_node.url)
    assert browser.find("meter").label == "Storage"
    assert int(browser.find("meter").attribute("value") or 0) > 0
