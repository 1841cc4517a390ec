"""What stands for a user space in the runs of a team: the keys that its members sign with.

In a person's runs the keys of their user space count. A team pushes none, and what may run in its
projects is what a user approved who may change them: the keys of members with the role push or
admin count, as of the beginning of the run. The documents are made for a run and kept nowhere.
"""

from collections.abc import Iterator
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.values import dataclass
from rye_services.credentials import AuthorizedKeys, Role
from rye_services.people import People
from rye_services.teams import Teams
from ryeos.sync.objects import ContentStore, ItemSource, ReadContents, SourceManifest
from ryeos.trust.store import write_key_document

_FOLDER = ".ai/config/keys/trusted"


@dataclass(frozen=True, slots=True)
class TeamSpace:
    """The user space of a run, and where its content is read."""

    manifest: SourceManifest
    contents: ReadContents


@dataclass(frozen=True, slots=True)
class TeamSpaces:
    """Makes the user spaces of teams. Thread-safe."""

    teams: Teams
    people: People
    authorized_keys: AuthorizedKeys

    def of(self, owner: str, store: ContentStore) -> TeamSpace | None:
        """That of a team; None for an owner who is no team. Raises SQLAlchemyError."""
        if not self.teams.is_team(owner):
            return None
        blobs: dict[str, bytes] = {}
        objects: dict[str, dict[str, Any]] = {}
        items: dict[str, str] = {}
        for fingerprint, document in self._documents(owner):
            data = document.encode()
            blob = sha256_hex(data)
            item = ItemSource(f"config:keys/trusted/{fingerprint}", blob).as_object()
            digest = sha256_hex(canonical_json(item))
            blobs[blob], objects[digest] = data, item
            items[f"{_FOLDER}/{fingerprint}.toml"] = digest
        return TeamSpace(SourceManifest("user", items), _Beside(store, blobs, objects))

    def _documents(self, team: str) -> Iterator[tuple[str, str]]:
        """Documents of the keys of those who may push; all that Rye signs is bound and covered."""
        for member in self.teams.members(team, are_open=True):
            if not member.role.includes(Role.PUSH):
                continue
            for fingerprint, pem in self._keys_of(member.user_id):
                document = write_key_document(
                    pem, member.user_id, covers_all=True, binds_identity=True
                )
                yield fingerprint, document

    def _keys_of(self, user_id: str) -> Iterator[tuple[str, bytes]]:
        for key in self.people.keys_of(user_id, are_valid=True):
            yield key.fingerprint, key.public_pem
        first = self.authorized_keys.find(user_id)
        if first is not None:
            yield first.fingerprint, first.public_pem


@dataclass(frozen=True, slots=True)
class _Beside:
    """The content of a store, and what was made for a run beside it."""

    store: ContentStore
    blobs: dict[str, bytes]
    objects: dict[str, dict[str, Any]]

    def get_blob(self, digest: str) -> bytes:
        """See `ReadContents`."""
        found = self.blobs.get(digest)
        return self.store.get_blob(digest) if found is None else found

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """See `ReadContents`."""
        found = self.objects.get(digest)
        return self.store.get_object(digest) if found is None else found

    def has_blob(self, digest: str) -> bool:
        """See `ReadContents`."""
        return digest in self.blobs or self.store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """See `ReadContents`."""
        return digest in self.objects or self.store.has_object(digest)
