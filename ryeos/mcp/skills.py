"""Directives and trees of knowledge as skills: the extension ``io.modelcontextprotocol/skills``.

A skill is ``skill://NAMESPACE/NAME/SKILL.md``. A directive that signs a folder gives the bytes of
that folder. Any other is made into a ``SKILL.md``, with a front matter that says which item it is,
its hash and its signer; the skill of a tree has other files beside it. The namespace is the
category with dots, so that no skill lies inside of another.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from lillux.digests import sha256_hex
from lillux.foreign_text import one_line
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.app.skills import skill_text
from ryeos.items.directives import parse_directive
from ryeos.items.errors import IntegrityError
from ryeos.items.header_values import MetadataError
from ryeos.items.knowledge import parse_knowledge
from ryeos.items.refs import ItemRef
from ryeos.mcp.listing import listed, mime_type, verified
from ryeos.mcp.prompts import directive_refs
from ryeos.mcp.request_context import RequestContext, text_of
from ryeos.mcp.revisions import RpcError
from ryeos.mcp.skill_trees import SkillFile, SkillTree, files_of, skill_trees, verified_skill
from ryeos.search.records import as_text
from ryeos.trust.skill_files import FILE, MAX_BYTES, Skill, drop_caches, front_matter, read_skill
from ryeos.trust.verify import VerifiedItem

SCHEME = "skill://"
MIME_TYPE, DIRECTORY_TYPE = "text/markdown", "inode/directory"
MAX_NAME_CHARACTERS, MAX_DESCRIPTION_CHARACTERS = 64, 1024
_NO_CATEGORY = "directives"
_NO_FOLDER = "knowledge"
_OTHER_CHARACTERS = re.compile(r"[^a-z0-9]+")

Source = ItemRef | SkillTree


def list_skills(request: RequestContext) -> dict[str, Any]:
    """A page of the skills: of the directives that verify. Raises RpcError."""
    return listed("skills", skill_uris(request), request.call.params, partial(_entry, request))


def get_skill(request: RequestContext) -> dict[str, Any]:
    """One skill. Raises RpcError."""
    uri = text_of(request.call.params, "uri")
    source = skill_uris(request).get(uri)
    entry = _entry(request, uri, source) if source else None
    if entry is None:
        raise RpcError(INVALID_PARAMS, f"unknown skill: {uri[:200]}")
    return {"skill": entry}


def read_directory(request: RequestContext) -> dict[str, Any]:
    """The entries of a folder of skills, or of one. Raises RpcError."""
    uri = text_of(request.call.params, "uri")
    children: dict[str, dict[str, Any]] = {}
    for below, media_type in _below(request, uri) if uri.startswith(SCHEME) else ():
        name, slash, _ = below.partition("/")
        kind = DIRECTORY_TYPE if slash else media_type
        children[f"{uri}/{name}"] = {"uri": f"{uri}/{name}", "name": name, "mimeType": kind}
    if not children:
        raise RpcError(INVALID_PARAMS, f"not a folder of skills: {uri[:200]}")
    return listed("resources", children, request.call.params, lambda _, child: child)


def skill_file(request: RequestContext, uri: str) -> SkillFile | None:
    """A file of a skill, or None."""
    for skill, source in skill_uris(request).items():
        folder = skill.removesuffix(FILE)
        if uri.startswith(folder):
            return (_files(request, skill, source) or {}).get(uri)
    return None


def skill_uris(request: RequestContext) -> dict[str, Source]:
    """The URI of every skill's first file, and what it is made from: directives before trees."""
    uris: dict[str, Source] = {}
    for ref in directive_refs(request):
        uris[_uri(ref.category or _NO_CATEGORY, ref.name, uris)] = ref
    for tree in skill_trees(request):
        category, _, name = tree.ref.category.rpartition("/")
        uris[_uri(category or _NO_FOLDER, name, uris)] = tree
    return uris


def _uri(category: str, written: str, taken: Mapping[str, Source]) -> str:
    namespace = quote(category.replace("/", "."), errors="surrogateescape")
    plain = _OTHER_CHARACTERS.sub("-", written.lower()).strip("-") or "skill"
    name, number = plain[:MAX_NAME_CHARACTERS].rstrip("-"), 2
    while (uri := f"{SCHEME}{namespace}/{name}/{FILE}") in taken:
        suffix = f"-{number}"
        name = f"{plain[: MAX_NAME_CHARACTERS - len(suffix)].rstrip('-')}{suffix}"
        number += 1
    return uri


def _below(request: RequestContext, folder: str) -> Iterator[tuple[str, str]]:
    """The path below a folder, and the type, of each file of each skill that is to be seen in it.

    Of skills that lie deeper, the first file stands for all.
    """
    for uri, source in skill_uris(request).items():
        is_inside = f"{folder}/".startswith(uri.removesuffix(FILE))
        if not is_inside and not uri.startswith(f"{folder}/"):
            continue
        for file_uri, file in (_files(request, uri, source) or {}).items():
            if file_uri.startswith(f"{folder}/") and (is_inside or file_uri == uri):
                yield file_uri.removeprefix(f"{folder}/"), file.mime_type


def _entry(request: RequestContext, uri: str, source: Source) -> dict[str, Any] | None:
    made = _skill_files(request, uri, source)
    if made is None:
        return None
    resources = []
    for file_uri, file in made[1].items():
        digest = f"sha256:{sha256_hex(file.data)}"
        resources.append({"uri": file_uri, "digest": digest, "size": len(file.data)})
    return {"uri": uri, "frontmatter": made[0], "resources": resources}


def _files(request: RequestContext, uri: str, source: Source) -> dict[str, SkillFile] | None:
    """All files of a skill by their URIs; None for one that does not verify, or is too large."""
    made = _skill_files(request, uri, source)
    return None if made is None else made[1]


def _skill_files(
    request: RequestContext, uri: str, source: Source
) -> tuple[Mapping[str, Any], dict[str, SkillFile]] | None:
    """The front matter and all files by their URIs; None for what does not verify."""
    try:
        if isinstance(source, ItemRef):
            found = verified(request.rye, source)
            skill = read_skill(found[1]) if found else None
            if found and skill:
                drop_caches(skill, str(found[1].target.path))
                return _of_folder(uri, skill)
        described = (
            _of_tree(request, source) if isinstance(source, SkillTree) else _of(request, source)
        )
    except (MetadataError, IntegrityError):
        return None
    if described is None:
        return None
    description, text, ref, item = described
    said = _front_matter(uri, ref, description, item)
    files = {uri: SkillFile(MIME_TYPE, skill_text(said, text).encode())}
    if isinstance(source, SkillTree):
        folder = uri.removesuffix(FILE)
        files |= {f"{folder}{path}": file for path, file in files_of(request, source).items()}
    is_too_large = sum(len(file.data) for file in files.values()) > MAX_BYTES
    return None if is_too_large else (said, files)


def _of_folder(uri: str, skill: Skill) -> tuple[Mapping[str, Any], dict[str, SkillFile]] | None:
    """A folder as it was signed. Its front matter is its own, so its name must be the URI's."""
    said, _ = front_matter(skill.files[FILE])
    folder = uri.removesuffix(FILE)
    if not folder.endswith(f"/{said.get('name')}/"):
        return None
    files = {
        f"{folder}{quote(path, safe='/')}": SkillFile(_mime_type(path, data), data)
        for path, data in skill.files.items()
    }
    return said, {uri: files.pop(uri), **files}


def _mime_type(path: str, data: bytes) -> str:
    """The media type of a file of a folder, by its name."""
    from mimetypes import guess_type

    known = mime_type(f".{path.rpartition('.')[2]}")
    guessed = guess_type(path)[0] if known == "text/plain" else known
    return guessed or ("application/octet-stream" if b"\0" in data else known)


def _of(request: RequestContext, ref: ItemRef) -> tuple[str, str, ItemRef, VerifiedItem] | None:
    """Description, text and item of a directive. Raises MetadataError."""
    found = verified(request.rye, ref)
    if found is None:
        return None
    directive = parse_directive(found[1].text)
    return directive.description, directive.body or directive.xml, ref, found[1]


def _of_tree(
    request: RequestContext, tree: SkillTree
) -> tuple[str, str, ItemRef, VerifiedItem] | None:
    """The same of a ``SKILL.md``. Raises MetadataError."""
    item = verified_skill(request, tree)
    if item is None:
        return None
    knowledge = parse_knowledge(item.text, ".md")
    said = as_text(knowledge.metadata.get("description")) or as_text(
        knowledge.metadata.get("title")
    )
    return said, knowledge.body, tree.ref, item


def _front_matter(uri: str, ref: ItemRef, description: str, item: VerifiedItem) -> dict[str, Any]:
    described = one_line(description) or one_line(ref.id)
    metadata = {"rye.ref": one_line(str(ref)), "rye.hash": item.content_hash}
    if item.signature:
        metadata["rye.key"] = item.signature.fingerprint
    return {
        "name": uri.removesuffix(f"/{FILE}").rpartition("/")[2],
        "description": described[:MAX_DESCRIPTION_CHARACTERS],
        "metadata": metadata,
    }
