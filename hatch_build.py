"""The build hook of the wheel: puts the signed bundle into it, as ``ryeos/bundle``.

hatchling loads it; ``pyproject.toml`` names it. Page: ``docs/building.md``.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SIGN_KEY, EDITION = "RYE_SIGN_KEY", "RYE_EDITION"


class SignedBundleHook(BuildHookInterface[Any]):
    """Signs ``bundle.ai`` with the key in the file ``RYE_SIGN_KEY``, else with a fresh one.

    ``RYE_EDITION`` says which of it: ``core`` or ``full``.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Sign the bundle and have it packed. An editable wheel has none: use ``rye.py``."""
        if self.target_name != "wheel" or version == "editable":
            return
        # Builders isolate what they run: the checkout is not on the path by itself.
        sys.path.insert(0, self.root)
        from packing.build_time import build_time
        from packing.signed_bundle import Edition, publisher_key, stage_bundle

        moment = build_time(os.environ)
        pem_file = os.environ.get(SIGN_KEY)
        key = publisher_key(Path(pem_file) if pem_file else None, moment)
        self._scratch = TemporaryDirectory(prefix="rye-wheel-")
        bundle = Path(self._scratch.name, "bundle")
        edition = Edition(os.environ.get(EDITION) or Edition.FULL)
        stage_bundle(Path(self.root), bundle, key, edition)
        build_data["force_include"][str(bundle)] = "ryeos/bundle"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the signed copy once it is packed."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()
