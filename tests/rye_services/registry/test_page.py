"""The pages of a registry about items, bundles and publishers."""

import re
from html import unescape

import pytest

from rye_services.registry.items import PublishedVersion
from rye_services.registry.names import ItemName
from rye_services.registry.page import Parameter, parameters_of, sender_of, unsigned_text
from ryeos.items.refs import Kind
from tests.support.registry import Account, Registry, bundle_body, item_text, signed_item

TOOL = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "a/b"
__tool_description__ = "Waters **beds**"

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "bed": {"type": "string", "description": "which one"},
        "litres": {"type": ["integer", "null"], "default": 3},
        "how": {"enum": ["slow", "fast"]},
    },
    "required": ["bed"],
}
"""


def version(
    content: str = TOOL, *, kind: Kind = Kind.TOOL, suffix: str = ".py"
) -> PublishedVersion:
    return PublishedVersion(
        item=1,
        name=ItemName(kind, "a/b/c"),
        version="1.0.0",
        suffix=suffix,
        content=content,
        sha256="0" * 64,
        author="ada",
        publisher=None,
        changelog="",
        metadata=None,
        created_at="2026-11-21T12:00:00.000000+00:00",
    )


def page(registry: Registry, address: str) -> str:
    """The words of a page, without its markup."""
    reply = registry.ask("GET", address)
    assert reply.status == 200, reply.body
    without_inline = re.sub(r"</?(?:a|code|em|span)\b[^>]*>", "", reply.body.decode())
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without_inline)).split())


def signed_push(account: Account, item_id: str) -> None:
    """Publish an item with the signature of the account's key on it."""
    assert account.push(item_id, content=signed_item(account.key, item_id)).status == 200


# --- parameters -----------------------------------------------------------------------------------


def test_the_parameters_of_a_tool_are_those_of_its_schema() -> None:
    assert parameters_of(version()) == (
        Parameter(name="bed", type="string", is_required=True, default="", description="which one"),
        Parameter(
            name="litres", type="integer, null", is_required=False, default="3", description=""
        ),
        Parameter(
            name="how", type='"slow" | "fast"', is_required=False, default="", description=""
        ),
    )


def test_the_parameters_of_a_directive_are_its_inputs() -> None:
    text = (
        '# c\n\n```xml\n<directive name="c" version="1.0.0">\n  <metadata>\n'
        "    <description>x</description>\n    <category>a/b</category>\n"
        "    <author>ada</author>\n  </metadata>\n  <inputs>\n"
        '    <input name="bed" type="string" required="true">which one</input>\n'
        "  </inputs>\n</directive>\n```\n"
    )

    (found,) = parameters_of(version(text, kind=Kind.DIRECTIVE, suffix=".md"))

    assert (found.name, found.type, found.is_required) == ("bed", "string", True)


@pytest.mark.parametrize("content", ["", "x = (", "CONFIG_SCHEMA = 3\n", TOOL.replace("{", "[")])
def test_a_header_that_cannot_be_read_has_no_parameters(content: str) -> None:
    assert parameters_of(version(content)) == ()


# --- who signed it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key_dates", "words"),
    [
        ({"0" * 16: "2026-11-20T12:00:00.000000+00:00"}, "sent unsigned"),
        ({"0" * 16: "2026-11-22T12:00:00.000000+00:00"}, "no signature verified"),
        ({}, "no signature verified"),
    ],
)
def test_only_an_unsigned_version_is_called_unsigned(key_dates: dict[str, str], words: str) -> None:
    assert sender_of(version(), key_dates).words == words


def test_the_page_of_an_item_explains_its_signature(
    shared_registry: Registry,
) -> None:
    keyed, keyless = shared_registry.account(with_key=True), shared_registry.account()
    signed, unsigned = f"{keyed.name}/a/signed", f"{keyed.name}/a/unsigned"
    signed_push(keyed, signed)
    signed_push(keyless, f"{keyless.name}/a/signed")
    assert keyed.push(unsigned).status == 200

    pages = [
        page(shared_registry, f"/browse/item/tool/{item_id}")
        for item_id in (signed, unsigned, f"{keyless.name}/a/signed")
    ]

    assert f"signed with fp:{keyed.key.fingerprint}. The registry verified" in pages[0]
    assert "sent unsigned. " in pages[1]
    assert "unsigned" not in pages[2]
    assert "no signature verified. " in pages[2]
    assert all("It does not say that the text is harmless." in each for each in pages)


# --- pages ----------------------------------------------------------------------------------------


def test_versions_are_compared_without_signature_lines(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = f"{account.name}/a/numbat"
    account.push(item_id)
    account.push(item_id, "1.1.0", content=item_text("tool", item_id, "1.1.0", "Says hi"))

    source = shared_registry.ask("GET", f"/browse/item/tool/{item_id}").body.decode()
    link = unescape(re.findall(r'href="(/browse/diff/[^"]+)"', source)[0])
    shown = page(shared_registry, link)

    assert "1.0.0 to 1.1.0" in shown
    assert 'hello"' in shown
    assert 'hi"' in shown
    assert "rye:signed" not in shown


def test_an_item_lists_the_items_that_reference_it(shared_registry: Registry) -> None:
    account = shared_registry.account()
    used, user = f"{account.name}/a/bandicoot", f"{account.name}/b/glider"
    near = f"{account.name}/b/gliders"
    account.push(used)
    account.push(user, content=item_text("tool", user) + f"# calls {used}.\n")
    account.push(near, content=item_text("tool", near) + f"# calls {used}-2 and x{used}\n")

    shown = page(shared_registry, f"/browse/item/tool/{used}")

    named = shown.partition("Items that name it")[2]
    assert f"tool:{user} " in named
    assert near not in named


def test_a_person_has_keys_namespaces_and_items(shared_registry: Registry) -> None:
    account = shared_registry.account(with_key=True)
    item_id = f"{account.name}/a/potoroo"
    account.push(item_id)

    person = page(shared_registry, f"/browse/person/{account.name}")
    namespace = page(shared_registry, f"/browse/namespace/{account.name}")

    assert f"fp:{account.key.fingerprint}" in person
    assert f"tool:{item_id}" in person
    assert f"Of {account.name} since" in namespace
    assert f"tool:{item_id}" in namespace


def test_the_page_of_a_person_without_a_key_reports_it(shared_registry: Registry) -> None:
    account = shared_registry.account()

    assert "No key is registered" in page(shared_registry, f"/browse/person/{account.name}")


@pytest.mark.parametrize("address", ["person/nobody", "namespace/none", "namespace/.."])
def test_a_missing_person_or_namespace_is_not_found(
    shared_registry: Registry, address: str
) -> None:
    assert shared_registry.ask("GET", f"/browse/{address}").status == 404


def test_a_bundle_shows_its_readme_and_its_files(shared_registry: Registry) -> None:
    account = shared_registry.account(with_key=True)
    name = account.name.replace("tester", "bundle")
    files = {
        ".ai/knowledge/a/README.md": "not this one\n",
        "README.md": "# Digging\n\nA *spade*. <script>alert(1)</script>\n",
        "lib/dig.py": "def dig(): return 1\n",
    }
    reply = account.ask("POST", "/v1/bundle/push", bundle_body(account.key, name, files))
    assert reply.status == 200, reply.json

    source = shared_registry.ask("GET", f"/browse/bundle/{name}").body.decode()
    link = unescape(re.findall(r'href="([^"]+dig\.py)"', source)[0])

    assert "<h3>Digging</h3>" in source
    assert "<em>spade</em>" in source
    assert "<script>alert" not in source
    assert "not this one" not in source
    assert "def dig(): return 1" in page(shared_registry, link)
    for other in ("none.py", "..%2f..%2fnode.db"):
        gone = shared_registry.ask("GET", link.replace("dig.py", other))
        assert gone.status == 404


def test_signature_lines_are_not_shown_as_text() -> None:
    assert unsigned_text("# rye:signed:x\n# a\n<!-- rye:covers:y -->\n") == "\n# a\n\n"
