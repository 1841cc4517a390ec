"""The tree that is packed: our sources, the signed bundle, and what is needed of the libraries."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from packing.dependencies import locked_site_packages
from packing.signed_bundle import stage_bundle
from ryeos.signing_key import SigningKey

PACKAGES = ("lillux", "ryeos", "zipboot")

# PyNaCl is compiled with cffi; at run time it wants `_cffi_backend`, which is a module of its own.
_BUILD_TIME_PACKAGES = ("cffi", "pycparser")
_INSTALLATION_NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def stage_tree(checkout: Path, target: Path, key: SigningKey) -> None:
    """Make ``target``, which must not exist: what ``site-packages`` of the zip file will hold.

    Licences and metadata of the libraries stay; what tells only how they were installed does not,
    since it names paths of this machine.
    """
    installed = locked_site_packages(checkout)

    def left_out(folder: str, names: Iterable[str]) -> set[str]:
        top = Path(folder) == installed
        return {name for name in names if _is_left_out(Path(folder), name, top=top)}

    shutil.copytree(installed, target, ignore=left_out)
    for package in PACKAGES:
        sources = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(checkout / package, target / package, ignore=sources)
    stage_bundle(checkout, target / "ryeos" / "bundle", key)


def _is_left_out(folder: Path, name: str, *, top: bool) -> bool:
    if top:
        return name in {"bin", "Scripts", *_BUILD_TIME_PACKAGES}
    return name == "__pycache__" or (folder.suffix == ".dist-info" and name in _INSTALLATION_NOTES)
