import pytest

from lillux.digests import sha256_hex
from ryeos.items.refs import Kind
from ryeos.sync.item_files import item_source, kind_of
from ryeos.sync.objects import ItemSource

CORE = f"rye:signed:2026-02-14T00:27:54Z:{'a' * 64}:c2ln_-0=:0123456789abcdef"
INFO = {
    "timestamp": "2026-02-14T00:27:54Z",
    "hash": "a" * 64,
    "ed25519_sig": "c2ln_-0=",
    "pubkey_fp": "0123456789abcdef",
}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".ai/tools/a.py", Kind.TOOL),
        (".ai/directives/a/b.md", Kind.DIRECTIVE),
        (".ai/knowledge/x", Kind.KNOWLEDGE),
        (".ai/config/keys/signing/public_key.pem", Kind.CONFIG),
        (".ai/tools", None),
        (".ai/tools/", None),
        (".ai/state/x", None),
        (".ai/bundles/x/.ai/tools/y.py", None),
        (".ai/x", None),
        ("src/.ai/tools/a.py", None),
        ("tools/a.py", None),
    ],
)
def test_the_folder_directly_below_ai_gives_the_kind(path: str, kind: Kind | None) -> None:
    assert kind_of(path) is kind


@pytest.mark.parametrize(
    ("path", "ref"),
    [
        (".ai/tools/a/b.py", "tool:a/b"),
        (".ai/config/a/b.config-schema.yaml", "config:a/b.config-schema"),
        (".ai/knowledge/.gitkeep", "knowledge:.gitkeep"),
        (".ai/knowledge/a.b/.gitkeep", "knowledge:a.b/.gitkeep"),
        (".ai/tools/a.b/c", "tool:a.b/c"),
        (".ai/tools/Makefile", "tool:Makefile"),
    ],
)
def test_an_item_is_called_by_its_path_without_the_last_suffix(path: str, ref: str) -> None:
    source = item_source(path, b"x")

    assert source == ItemSource(ref, sha256_hex(b"x"), None)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".ai/tools/a.py", f"# {CORE}\n"),
        (".ai/tools/a.sh", f"#!/bin/sh\n# {CORE}\n"),
        (".ai/tools/a.PY", f"# {CORE}\n"),
        (".ai/tools/a.json", f"# {CORE}\n{{}}"),
        (".ai/tools/a.mjs", f"// {CORE}\n"),
        (".ai/config/a.toml", f"# {CORE}\n"),
        (".ai/directives/a.md", f"<!-- {CORE} -->\n"),
        (".ai/knowledge/a.txt", f"<!-- {CORE} -->\n"),
        (".ai/knowledge/a.yaml", f"<!-- {CORE} -->\n"),
    ],
)
def test_the_signature_line_of_a_kind_and_a_suffix_is_read(path: str, text: str) -> None:
    source = item_source(path, text.encode())

    assert source is not None
    assert source.signature_info == INFO


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".ai/tools/a.py", f"\n# {CORE}\n"),
        (".ai/tools/a.py", f"x = 1\n# {CORE}\n"),
        (".ai/tools/a.py", f"#!env python\n# {CORE}\n"),
        (".ai/tools/a.js", f"#!/usr/bin/env node\n// {CORE}\n"),
        (".ai/tools/a.rs", f"// {CORE}\n"),
        (".ai/config/a.yaml", f"#!/bin/sh\n# {CORE}\n"),
        (".ai/config/a.json", f"# {CORE}\n"),
        (".ai/knowledge/a.md", f"# {CORE}\n"),
        (".ai/knowledge/a.md", f"<!-- {CORE}"),
        (".ai/tools/a.py", f"# {CORE.replace('Z', '')}\n"),
        (".ai/tools/a.py", f"# {CORE.replace('a' * 64, 'A' * 64)}\n"),
        (".ai/tools/a.py", ""),
    ],
)
def test_a_signature_line_in_another_place_or_form_is_ignored(path: str, text: str) -> None:
    source = item_source(path, text.encode())

    assert source is not None
    assert source.signature_info is None


def test_the_registry_that_signed_is_reported() -> None:
    source = item_source(".ai/tools/a.py", f"# {CORE}|rye-registry@some_one\n".encode())

    assert source is not None
    assert source.signature_info == {
        **INFO,
        "registry_provider": "rye-registry",
        "registry_username": "some_one",
    }


def test_a_file_that_is_not_text_is_not_an_item() -> None:
    assert item_source(".ai/knowledge/logo.png", b"\x89PNG\r\n\x1a\n") is None
    assert item_source("src/a.py", b"x") is None
