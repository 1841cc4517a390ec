"""Configuration from the three tiers: ``.ai/config/<path>``, merged or first found.

``deep_merge``  bundles, then user, then project: mappings merge, everything else replaces; a key
                ``extends`` of an overriding layer is dropped
``first_match`` project, user, bundles: the first file, unmerged

An unsigned file counts, with a warning; a tampered one, or one by an untrusted key, is an error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from lillux.contained_paths import safe_join
from lillux.errors import UnsafePathError
from lillux.values import dataclass, field
from ryeos.items.errors import SpecError
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind, Space, Spaces
from ryeos.items.specs import type_name
from ryeos.trust.resolver import is_regular_file
from ryeos.trust.verify import Target, Verifier

DEEP_MERGE, FIRST_MATCH = "deep_merge", "first_match"
TIERS = (PROJECT, USER, SYSTEM)


@dataclass(frozen=True, slots=True)
class Layer:
    """One space's version of a config file; ``values`` were read from ``data``.

    ``is_signed``: by a key that counts. A file of a bundle is, by the bundle's manifest.
    """

    label: str
    path: Path
    values: Mapping[str, Any]
    data: bytes = field(default=b"", repr=False)
    is_signed: bool = False


class ConfigReader:
    """Reads config files of the spaces, each verified before it is parsed."""

    def __init__(self, spaces: Spaces, verifier: Verifier) -> None:
        self._spaces = spaces
        self._verifier = verifier

    def resolve(self, spec: object, where: str = "config_resolve") -> dict[str, Any]:
        """The value for ``{path, mode, spaces}``; for a list, a mapping from each path.

        Raises SpecError, IntegrityError.
        """
        if isinstance(spec, list):
            return {
                str(entry.get("path", "")): self._resolve_one(entry, f"{where}[{index}]")
                for index, entry in enumerate(spec)
                if isinstance(entry, dict)
            }
        return self._resolve_one(spec, where) if isinstance(spec, dict) else {}

    def layers(
        self, path: str, where: str = "config_resolve.path", tiers: Sequence[str] = TIERS
    ) -> tuple[Layer, ...]:
        """The file in every space of these tiers that has it, bundles first, project last."""
        own = (self._spaces.user, self._spaces.project)
        found = [self._layer(one, path, where) for one in own if one and one.tier in tiers]
        shipped = self.shipped_layers(path) if SYSTEM in tiers else ()
        return (*shipped, *filter(None, found))

    def shipped_layers(self, path: str) -> tuple[Layer, ...]:
        """The file in every bundle that has it: what no project and no user can change."""
        found = (self._layer(space, path, path) for space in self._spaces.bundles)
        return tuple(layer for layer in found if layer)

    def _resolve_one(self, spec: Mapping[str, Any], where: str) -> dict[str, Any]:
        path, mode = spec.get("path"), spec.get("mode", DEEP_MERGE)
        if not path:
            return {}
        if not isinstance(path, str):
            raise SpecError(f"{where}.path", f"expected a string, got {type_name(path)}")
        tiers = _tiers(spec.get("spaces"), f"{where}.spaces")
        if mode == DEEP_MERGE:
            return merge_layers(self.layers(path, f"{where}.path", tiers))
        if mode == FIRST_MATCH:
            return self._first(path, f"{where}.path", tiers)
        raise SpecError(f"{where}.mode", f"expected {DEEP_MERGE} or {FIRST_MATCH}, got {mode!r}")

    def _first(self, path: str, where: str, tiers: Sequence[str]) -> dict[str, Any]:
        for space in self._spaces:
            layer = self._layer(space, path, where) if space.tier in tiers else None
            if layer:
                return dict(layer.values)
        return {}

    def _layer(self, space: Space, path: str, where: str) -> Layer | None:
        try:
            file = safe_join(space.directory(Kind.CONFIG), path)
        except UnsafePathError as error:
            raise SpecError(where, f"expected a path below .ai/config: {error}") from None
        if not is_regular_file(file):
            return None
        item = self._verifier.verify_unless_unsigned(
            Target(path=file, kind=Kind.CONFIG, space=space)
        )
        header = item.header
        if header is None and _has_only_comments(item.text):
            header = {}
        if header is None:
            try:
                from ryeos.items.headers import parse_header

                header = parse_header(file.suffix.lower(), item.text, str(file))
            except MetadataError as error:
                error.path = str(file)
                error.hint = (
                    f"repair it with: rye edit config:{PurePosixPath(path).with_suffix('')}"
                )
                raise
        return Layer(space.label, file, header, item.data, is_signed=item.verified)


def _tiers(spaces: object, where: str) -> Sequence[str]:
    """The tiers whose files count, all unless the spec names some."""
    if spaces is None:
        return TIERS
    if isinstance(spaces, list) and spaces and all(one in TIERS for one in spaces):
        return spaces
    raise SpecError(where, f"expected a list of {', '.join(TIERS)}, got {spaces!r}")


def _has_only_comments(text: str) -> bool:
    """True if all of a file is comments: every line is switched off."""
    return all(line.lstrip()[:1] in {"", "#"} for line in text.splitlines())


def merge_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    """Layers merged in order, later ones on top."""
    merged: dict[str, Any] = {}
    for index, layer in enumerate(layers):
        values = dict(layer.values) if index == 0 else _without_extends(layer.values)
        merged = deep_merge(merged, values)
    return merged


def deep_merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """``high`` over ``low``: mappings merge, lists, scalars and nulls replace. Changes neither."""
    merged = dict(low)
    for key, value in high.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = deep_merge(mine, value)
        else:
            merged[key] = value
    return merged


def _without_extends(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_extends(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if key != "extends"
    }
