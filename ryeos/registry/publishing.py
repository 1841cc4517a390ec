"""An item of the user's own, as it is sent to a registry."""

from typing import Protocol

from lillux.values import dataclass, field
from ryeos.errors import UnsupportedError
from ryeos.extractors import extract
from ryeos.items import SYSTEM, ItemRef, Reference, Resolution
from ryeos.registry.errors import RegistryIdError
from ryeos.registry.ids import check_version, published_ref
from ryeos.verify import VerifiedItem


class Loader(Protocol):
    """Finds items and verifies them. See `ryeos.app.Rye`."""

    def load(self, reference: Reference, *, source: str = "") -> tuple[Resolution, VerifiedItem]:
        """The verified item that a reference names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What will be published: verified here, the registry validates it once more."""

    ref: ItemRef
    version: str
    suffix: str
    content: str = field(repr=False)
    path: str


def draft_of(loader: Loader, reference: Reference, *, source: str, version: str = "") -> Draft:
    """The item that a reference names. ``version`` must be what its own text says, if it is given.

    Raises RegistryIdError, ItemNotFoundError, IntegrityError, UnsupportedError.
    """
    resolution, item = loader.load(reference, source=source)
    location = resolution.location
    if location.space.tier == SYSTEM:
        raise UnsupportedError(
            f"{location.ref}: an item of the bundle {location.space.bundle_id} is not yours to"
            " publish",
            hint="copy it with: rye load REF --to project, and give it an id of your own",
        )
    ref = published_ref(Reference(location.ref.kind, location.ref.id))
    header = item.header or extract(ref.kind, location.suffix, item.text, str(location.path))
    own = header.get("version")
    if not isinstance(own, str) and not version:
        raise RegistryIdError(str(ref), "expected a version in its text, or --release, found none")
    if version and isinstance(own, str) and own != version:
        raise RegistryIdError(version, f"its own text says version {own}")
    return Draft(
        ref=ref,
        version=check_version(version or str(own)),
        suffix=location.suffix,
        content=item.text,
        path=str(location.path),
    )
