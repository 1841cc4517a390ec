import pytest

from ryeos.sync.admission import is_private_path, why_it_stays

PRIVATE_MARK = b"-----BEGIN PRIVATE " + b"KEY-----\n"
RSA_MARK = b"x\n-----BEGIN RSA PRIVATE " + b"KEY-----\n"


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        (".ai/config/keys/signing/public_key.pem", False),
        (".ai/config/keys/signing/box_pub.pem", False),
        (".ai/config/keys/signing/private_key.pem", True),
        (".ai/config/keys/signing/box_key.pem", True),
        (".ai/config/keys/signing/old/public_key.pem", True),
        (".ai/config/keys/signing/backup", True),
        (".ai/config/Keys/Signing/backup", True),
        (".ai/config/keys/receipts/private_key.pem", True),
        (".ai/config/keys/receipts/public_key.pem", True),
        (".ai/config/keys/Receipts/backup", True),
        (".ai/config/keys/trusted/0123456789abcdef.toml", False),
        (".ai/config/keys/approved.json", False),
        (".ai/config/remotes/remotes.yaml", False),
        (".ai/config/remotes/pins.yaml", True),
        (".ai/config/remotes/pins/x.toml", True),
        (".ai/config/remotes/pinsettings.yaml", False),
        (".ai/tools/a.py", False),
    ],
)
def test_only_public_keys_are_synced_and_no_pins(path: str, *, stays: bool) -> None:
    assert is_private_path(path) is stays


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        (".ai/config/x.pem", PRIVATE_MARK, "holds a private key"),
        (".ai/config/x.pem", RSA_MARK, "holds a private key"),
        (".ai/knowledge/pem.md", PRIVATE_MARK, ""),
        (
            ".ai/config/keys/trusted/a.toml",
            b'version = "1"\nowner = "remote:default:localhost:8000"\n',
            "the pinned key of a node, which is no key for items",
        ),
        (
            ".ai/config/keys/trusted/a.toml",
            b"owner='remote:x:y'\n",
            "the pinned key of a node, which is no key for items",
        ),
        (".ai/config/keys/trusted/a.toml", b'owner = "someone"\n# owner = "remote:x"\n', ""),
        (".ai/config/other/a.toml", b'owner = "remote:x"\n', ""),
    ],
)  # fmt: skip
def test_files_with_a_private_key_are_not_synced(path: str, data: bytes, why: str) -> None:
    assert why_it_stays(path, data) == why
