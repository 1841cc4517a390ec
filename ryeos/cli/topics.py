"""What ``rye help TOPIC`` prints: the topics of agents, and those of the command line. Data."""

from collections.abc import Mapping

from ryeos.mcp.topics import TOPICS as SHARED

TOPICS: Mapping[str, str] = {
    **SHARED,
    "exit-status": """\
What a command ends with

  0    done; for verify, everything is valid
  1    it ran and failed: the tool failed, or some item is not valid
  2    usage: the command line makes no sense as typed
  3    not found: item, thread, remote, key
  4    trust: unsigned, tampered, untrusted key, no signing key
  5    chain: circle, depth, missing executor, space or version rule, lockfile mismatch
  6    the item's metadata, configuration or parameters are wrong
  7    remote or registry: unreachable, refused, conflict
  124  timeout
  130  interrupted

With --json a failure is a document on standard output too: {"status": "error", "error", "code",
"hint"}. The codes: rye help errors
""",
    "environment": """\
Variables that are read

  USER_SPACE             folder that holds the user's .ai (default: the home folder)
  RYE_PROJECT            the project, as --project; CLAUDE_PROJECT_DIR counts too
  RYE_SIGNING_KEY_DIR    where the private key is (default: config/keys/signing in user space)
  RYE_SIGNING_KEY        a private key as PEM, for `rye keys import`
  RYE_CACHE_DIR          where rye.pyz unpacks itself
  RYE_BUNDLE_PATH        further bundles: folders that hold .ai
  RYE_BUNDLE_ENTRY_POINTS=1   bundles of installed Python packages too
  RYE_PROTECT_CORE=1     core items come from the bundle, whatever project and user space hold
  RYE_LOCK               lockfiles: strict (the default), warn, off
  RYE_DEV_MODE=1         unsigned and tampered items run, with a loud warning
  RYE_LOG                debug, info, warning, error; debug also shows where an error came from
  NO_COLOR, FORCE_COLOR  never, always; --color wins

Flags win over variables.
""",
}
