"""The revisions of the Model Context Protocol that this client speaks.

Up to 2025-11-25 a conversation begins with ``initialize`` and has a state. From 2026-07-28 on every
request names its revision and its client. A file of its own because both transports import it.
"""

from lillux.errors import ConfigurationError
from lillux.values import dataclass

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_LEGACY = LEGACY[-1]
KNOWN = (*LEGACY, MODERN)

START_S = 20.0
"""Seconds that a server may take to answer anything but the call of a tool."""
PROBE_S = 5.0
"""Seconds that the probe waits for its answer: a server that does not know it may keep silent."""
START_HINT = (
    "look at what it does when it starts; a slow one gets more time by config.start_timeout"
)

AUTO = "auto"
_META = "io.modelcontextprotocol/"
VERSION_KEY = _META + "protocolVersion"
CAPABILITIES_KEY = _META + "clientCapabilities"
CLIENT_KEY = _META + "clientInfo"


@dataclass(frozen=True, slots=True)
class AllowedVersions:
    """Revisions in which a conversation may be held.

    modern  whether it may be 2026-07-28
    legacy  the revision to ask for with ``initialize``; empty where that must not be tried
    """

    modern: bool = True
    legacy: str = NEWEST_LEGACY

    @property
    def legacy_only(self) -> "AllowedVersions":
        """The same without the modern revision."""
        return AllowedVersions(modern=False, legacy=self.legacy)


def wanted(text: str) -> AllowedVersions:
    """The choice of a setting: ``auto``, ``legacy``, or one revision. Raises ConfigurationError."""
    match text:
        case "auto":
            return AllowedVersions()
        case "legacy":
            return AllowedVersions(modern=False)
        case "2026-07-28":
            return AllowedVersions(legacy="")
        case _ if text in LEGACY:
            return AllowedVersions(modern=False, legacy=text)
        case _:
            known = ", ".join((AUTO, "legacy", *KNOWN))
            raise ConfigurationError(
                "protocol_version", f"expected one of {known}, got {text[:80]!r}"
            )
