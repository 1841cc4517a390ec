"""Rules of the places where changes of files may be made."""

from functools import lru_cache

from lillux.values import dataclass

_SHARED_MEMORY = ("/dev/shm/", "/dev/mqueue/")  # noqa: S108 - files in memory, no devices
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names, nothing is made there


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRules:
    """Paths where changes may be made, as real paths.

    native    folders and files that Landlock allows to be written; None for any
    mediated  folders in which the supervisor makes changes
    kept      nothing at or below these is changed; they are refused natively too
    layers    of each further limit the paths that it names, and whether they may be written; the
              nearest counts
    """

    native: tuple[str, ...] | None
    mediated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    layers: tuple[tuple[tuple[str, bool], ...], ...] = ()

    def mediates(self, place: str) -> bool:
        """True if changes at a real path are for the supervisor to make."""
        return any(_is_within(place, one) for one in self.mediated) and not self.keeps(place)

    def keeps(self, place: str) -> bool:
        """True if a real path is kept, also if a file system does not mind the case of names."""
        if any(_is_within(place, one) for one in self.kept):
            return True
        folded = _folded(place)
        return any(_is_within(folded, _folded_kept(one)) for one in self.kept)

    def is_given(self, place: str) -> bool:
        """True if a real path is one of the folders themselves, or above one."""
        return any(_is_within(one, place) for one in self.mediated)

    def is_shared(self, place: str) -> bool:
        """True if others make files there too: the innermost given folder is a shared one.

        The sockets of a session lie in such folders: those of ssh-agent, tmux, X11.
        """
        given = (*self.mediated, *(self.native or ()))
        nearest = max((one for one in given if _is_within(place, one)), key=len, default="/")
        return any(_is_within(one, nearest) for one in _SHARED)

    def is_above_kept(self, place: str) -> bool:
        """True if something kept lies, or would lie, below a real path."""
        return any(_is_within(one, place) for one in self.kept)

    def refuses(self, place: str) -> bool:
        """True if the kernel holds what is at a real path from being changed, by native rules."""
        if self.keeps(place):
            return True
        if self.native is None or not place.startswith("/"):  # pipes have no path
            return False
        if any(_is_within(place, one) for one in self.mediated):
            return False
        if not any(_is_within(place, one) for one in self.native):
            return True
        return not all(_nearest(layer, place) for layer in self.layers)

    def may_change(self, place: str) -> bool:
        """True if what is at a real path may be changed at all."""
        is_device = place.startswith("/dev/") and not place.startswith(_SHARED_MEMORY)
        if is_device or self.keeps(place):
            return False
        if any(_is_within(place, one) for one in self.mediated):
            return True
        if self.native is not None and not any(_is_within(place, one) for one in self.native):
            return False
        return all(_nearest(layer, place) for layer in self.layers)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def _folded(path: str) -> str:
    """A path as a file system may compare it: without case, and characters that are not shown."""
    shown = path if path.isascii() else "".join(filter(str.isprintable, path))
    return shown.casefold()


@lru_cache(maxsize=256)
def _folded_kept(path: str) -> str:
    return _folded(path)


def _nearest(layer: tuple[tuple[str, bool], ...], place: str) -> bool:
    above = [one for one in layer if _is_within(place, one[0])]
    return max(above, key=lambda one: len(one[0]))[1] if above else True
