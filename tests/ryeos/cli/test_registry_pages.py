"""Commands on the pages: the command line takes them as they stand."""

import re
from html import unescape
from pathlib import Path

from tests.support.bundles import Publisher
from tests.support.command_line import CommandLine
from tests.support.registry import Account, Registry, item_text


def user_of(cli: CommandLine, registry: Registry) -> Account:
    """An account that the command line has the API key of."""
    account = registry.account()
    cli.env = {**cli.env, "REG_KEY": account.token}
    cli.json("registry", "login", "--url", registry.url, "--key-env", "REG_KEY")
    return account


def command_on(registry: Registry, page: str) -> list[str]:
    """The words of the command that a page shows, less the name of the program."""
    [found] = re.findall(r"<code>(rye [^<]*)</code>", registry.ask("GET", page).body.decode())
    return unescape(found).split()[1:]


def test_the_command_on_the_page_of_an_item_pulls_that_version(
    signer: CommandLine, shared_registry: Registry
) -> None:
    account = user_of(signer, shared_registry)
    item_id = f"{account.name}/animals/wombat"
    for version in ("1.0.0", "1.1.0"):
        account.push(item_id, version, content=item_text("tool", item_id, version))

    page = f"/browse/item/tool/{item_id}?version=1.0.0"
    done = signer.json(*command_on(shared_registry, page))

    assert done["version"] == "1.0.0"


def test_the_command_on_the_page_of_a_bundle_installs_it(
    signer: CommandLine, shared_registry: Registry, tmp_path: Path
) -> None:
    bundle_id = f"{user_of(signer, shared_registry).name}-tools"
    (tmp_path / "published").mkdir()
    signer.json("bundle", "push", Publisher.at(tmp_path / "published").bundle(bundle_id))

    done = signer.json(*command_on(shared_registry, f"/browse/bundle/{bundle_id}"))

    assert (done["bundle"], done["state"]) == (bundle_id, "installed")


def test_the_page_of_an_item_shows_its_rights(
    signer: CommandLine, shared_registry: Registry
) -> None:
    account = user_of(signer, shared_registry)
    free, held = (f"{account.name}/animals/{name}" for name in ("free", "held"))
    said = item_text("tool", held)
    block = 'SANDBOX = {"network": ["api.example.org:443"], "read": ["{project}"]}\n'
    account.push(free, content=item_text("tool", free))
    account.push(held, content=f"{said}\n{block}")

    pages = [
        shared_registry.ask("GET", f"/browse/item/tool/{one}").body.decode() for one in (free, held)
    ]

    assert "It declares no rights: it runs with all rights of its caller." in pages[0]
    assert "<dt>network</dt><dd>api.example.org:443</dd>" in pages[1]
    assert "<dt>write</dt><dd>none</dd>" in pages[1]


def test_an_item_whose_rights_cannot_be_read_is_not_published(
    signer: CommandLine, shared_registry: Registry
) -> None:
    account = user_of(signer, shared_registry)
    item_id = f"{account.name}/animals/odd"
    content = f'{item_text("tool", item_id)}\nSANDBOX = {{"network": "all"}}\n'

    reply = account.push(item_id, content=content)

    assert reply.status == 400
    assert "sandbox.network" in str(reply.json)
