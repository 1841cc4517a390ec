"""Directives as skills: the extension ``io.modelcontextprotocol/skills``, where it is asked for.

A skill is one file, made from a verified directive: ``skill://NAMESPACE/NAME/SKILL.md``, with a
front matter that says which item it is, its hash and its signer. The namespace is the category with
dots, so that no skill lies inside of another.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from lillux.digests import sha256_hex
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.items import ItemRef
from ryeos.mcp.asked import Asked, text_of
from ryeos.mcp.eras import RpcError
from ryeos.mcp.offered import verified
from ryeos.mcp.pages import listed
from ryeos.mcp.prompts import directive_refs
from ryeos.metadata import MetadataError
from ryeos.metadata.directive import Directive, parse_directive
from ryeos.verify import VerifiedItem

EXTENSION = "io.modelcontextprotocol/skills"
SCHEME = "skill://"
FILE = "SKILL.md"
MIME_TYPE, DIRECTORY_TYPE = "text/markdown", "inode/directory"
MAX_NAME_CHARACTERS, MAX_DESCRIPTION_CHARACTERS = 64, 1024
_NO_CATEGORY = "directives"
_OTHER_CHARACTERS = re.compile(r"[^a-z0-9]+")


def list_skills(asked: Asked) -> dict[str, Any]:
    """A page of the skills: of the directives that verify. Raises RpcError."""
    return listed("skills", skill_uris(asked), asked.call.params, partial(_entry, asked))


def get_skill(asked: Asked) -> dict[str, Any]:
    """One skill. Raises RpcError."""
    uri = text_of(asked.call.params, "uri")
    ref = skill_uris(asked).get(uri)
    entry = _entry(asked, uri, ref) if ref else None
    if entry is None:
        raise RpcError(INVALID_PARAMS, f"unknown skill: {uri[:200]}")
    return {"skill": entry}


def read_directory(asked: Asked) -> dict[str, Any]:
    """What lies directly in a folder of skills. Raises RpcError."""
    uri = text_of(asked.call.params, "uri")
    children: dict[str, dict[str, Any]] = {}
    for skill, ref in skill_uris(asked).items():
        if not skill.startswith(f"{uri}/") or verified(asked.rye, ref) is None:
            continue
        name, slash, _ = skill.removeprefix(f"{uri}/").partition("/")
        kind = DIRECTORY_TYPE if slash else MIME_TYPE
        children[f"{uri}/{name}"] = {"uri": f"{uri}/{name}", "name": name, "mimeType": kind}
    if not children or not uri.startswith(SCHEME):
        raise RpcError(INVALID_PARAMS, f"not a folder of skills: {uri[:200]}")
    return listed("resources", children, asked.call.params, lambda _, child: child)


def skill_text(asked: Asked, uri: str) -> str | None:
    """The file of a skill; None where there is none."""
    ref = skill_uris(asked).get(uri)
    made = _made(asked, uri, ref) if ref else None
    return made[1] if made else None


def skill_uris(asked: Asked) -> dict[str, ItemRef]:
    """The URI of every skill's file, in the order of the ids, and its directive."""
    uris: dict[str, ItemRef] = {}
    for ref in directive_refs(asked):
        namespace = quote(ref.category.replace("/", ".") or _NO_CATEGORY, errors="surrogateescape")
        plain = _OTHER_CHARACTERS.sub("-", ref.name.lower()).strip("-") or "skill"
        name, number = plain[:MAX_NAME_CHARACTERS].rstrip("-"), 2
        while (uri := f"{SCHEME}{namespace}/{name}/{FILE}") in uris:
            suffix = f"-{number}"
            name = f"{plain[: MAX_NAME_CHARACTERS - len(suffix)].rstrip('-')}{suffix}"
            number += 1
        uris[uri] = ref
    return uris


def _entry(asked: Asked, uri: str, ref: ItemRef) -> dict[str, Any] | None:
    made = _made(asked, uri, ref)
    if made is None:
        return None
    front_matter, text = made
    data = text.encode()
    resource = {"uri": uri, "digest": f"sha256:{sha256_hex(data)}", "size": len(data)}
    return {"uri": uri, "frontmatter": front_matter, "resources": [resource]}


def _made(asked: Asked, uri: str, ref: ItemRef) -> tuple[dict[str, Any], str] | None:
    """The front matter and the whole text of a skill; None for what does not verify."""
    found = verified(asked.rye, ref)
    if found is None:
        return None
    try:
        directive = parse_directive(found[1].text)
    except MetadataError:
        return None
    front_matter = _front_matter(uri, ref, directive, found[1])
    body = (directive.body or directive.xml).strip().encode("utf-8", "replace").decode()
    return front_matter, f"---\n{_as_yaml(front_matter)}---\n\n{body}\n"


def _front_matter(
    uri: str, ref: ItemRef, directive: Directive, item: VerifiedItem
) -> dict[str, Any]:
    described = _plain(directive.description) or _plain(ref.id)
    metadata = {"rye.ref": _plain(str(ref)), "rye.hash": item.content_hash}
    if item.signature:
        metadata["rye.key"] = item.signature.fingerprint
    return {
        "name": uri.removesuffix(f"/{FILE}").rpartition("/")[2],
        "description": described[:MAX_DESCRIPTION_CHARACTERS],
        "metadata": metadata,
    }


def _as_yaml(values: Mapping[str, Any], indent: str = "") -> str:
    """Plain mappings of text; the quotes of JSON are those of YAML for what can be printed."""
    lines = ""
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += f"{indent}{name}:\n{_as_yaml(value, f'{indent}  ')}"
        else:
            lines += f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}\n"
    return lines


def _plain(text: str) -> str:
    """On one line, and without what cannot be printed."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
