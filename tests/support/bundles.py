"""Published bundles in folders."""

from dataclasses import dataclass
from pathlib import Path

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from ryeos.remote.bundle_installs import read_bundle_files
from ryeos.trust.bundles_publish import publish_bundle
from ryeos.trust.signing_key import SigningKey

ECHO = (
    'version: "{version}"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n'
    "category: {category}\ndescription: says who it is\n"
    "config: {{script: echo {words}}}\n"
)


def echo_tool(category: str, words: str, version: str = "1.0.0") -> str:
    """A tool that prints a text."""
    return ECHO.format(category=category, words=words, version=version)


@dataclass(frozen=True, slots=True)
class Publisher:
    """A publisher of bundles, with a key."""

    folder: Path
    keypair: KeyPair

    @classmethod
    def at(cls, folder: Path) -> "Publisher":
        """A new publisher, who works in a folder."""
        return cls(folder, generate_keypair())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the key."""
        return compute_key_fingerprint(self.keypair.public_pem)

    def bundle(
        self, bundle_id: str, version: str = "1.0.0", files: dict[str, str] | None = None
    ) -> Path:
        """The folder of a new bundle; ``files`` are by path below ``.ai``, a tool without any."""
        name = f"{bundle_id}-{version}-{len(list(self.folder.glob('*')))}"
        source = self.folder / f"{name}.source"
        tool = {f"tools/{bundle_id}/greet.yaml": echo_tool(bundle_id, f"hello {version}")}
        for path, text in (tool if files is None else files).items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        made = self.folder / name
        key = SigningKey(self.keypair)
        publish_bundle(source, made, bundle_id=bundle_id, version=version, key=key)
        return made

    def files(self, bundle_id: str, files: dict[str, str] | None = None) -> dict[str, bytes]:
        """The files of a new bundle, by path."""
        return read_bundle_files(self.bundle(bundle_id, files=files))
