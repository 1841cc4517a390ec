"""What commands and settings of a node answer about what is not as it should be."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from rye_services.settings import Settings, read_settings
from tests.support.bad_forms import answer
from tests.support.command_line import Done
from tests.support.golden import AS_JSON, Names, compare, transcript

NODE_COMMANDS = """
keys add absent.pem
keys add ed25519:x
keys add ed25519:x --scope nothing
keys revoke 0000000000000000
keys revoke x
keys export 'a b'
keys list
api-keys create --name x
api-keys create --name '' --user 0000000000000000
api-keys revoke absent
api-keys list
accounts add 'a b'
accounts add x --key absent.pem
accounts disable absent
accounts enable absent
accounts add-key absent absent.pem
accounts grant absent 'a b'
accounts list
take-down tool:absent
take-down nothing
take-down absent/x --version one
gc --dry-run
fsck --user absent
fsck --from absent
fsck --repair --from absent
fsck --accept-loss x
fsck --accept-loss 00 --yes
backup .
backup data
restore absent
restore data
migrate --to nothing
audit --since yesterday
audit --limit 0
audit --action nothing
users show absent
users add 'a b'
users add x --key absent.pem
users add-key absent absent.pem
users keys absent
users remove-key absent 0000000000000000
users open absent
users close absent
teams show absent
teams show 'a b'
teams add 'a b' --admin absent
teams add x --admin absent
teams set-role absent x read
teams set-role absent x nothing
teams remove absent x
quota set absent 1
quota set absent many
quota set absent -1
jobs cancel absent
jobs logs absent
jobs list --user absent
jobs list --state nothing
jobs sweeps --limit 0
serve --port 99999
serve --role nothing
serve --url ftp://x
serve --name 'a b'
serve --trusted-proxies x
serve --store ftp://x
work --places 0
"""
WRONG_IN_FILE: tuple[object, ...] = (True, -1, 1.5, "no such", [], ["x", 3], {"x": 1}, None)


def typed(data: str) -> list[list[str]]:
    """The command lines, each about a data folder."""
    return [[*shlex.split(line), "--data", data] for line in NODE_COMMANDS.strip().splitlines()]


def test_answers_of_a_node_about_what_is_not_there_are_as_recorded(
    node: Callable[..., Done], names: Names, tmp_path: Path
) -> None:
    made = json.loads(node("init", "--data", "data", "--json").stdout)
    of_node = Names({made["node_id"]: "<node>", made["node_id"].removeprefix("fp:"): "<node>"})

    shown = transcript(node, "rye-node", typed("data"), names, forms=AS_JSON)

    compare("node/unknown", of_node.replaced(shown))


def test_answers_without_a_data_folder_are_as_recorded(
    node: Callable[..., Done], names: Names, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x", "utf-8")

    lines = [line for line in typed("file") if line[0] not in {"restore", "version"}]
    shown = transcript(node, "rye-node", lines[::3], names, forms=AS_JSON)

    compare("node/no_data", shown)


def test_wrong_settings_of_a_node_are_refused_as_recorded(tmp_path: Path, names: Names) -> None:
    config = tmp_path / "config"
    config.mkdir()
    file = config / "node.yaml"
    usual = read_settings({"config_dir": str(config)}, {}, tmp_path)
    parts = []
    for name in Settings.__slots__:
        variable = f"RYE_NODE_{name.upper()}"
        file.unlink(missing_ok=True)
        for text in ("no such", "-1", "x,"):
            said = answer(
                lambda given: read_settings({"config_dir": str(config)}, given, tmp_path),
                {variable: text},
                usual,
            )
            parts.append(f"{variable}={text}: {said}")
        for value in WRONG_IN_FILE:
            file.write_text(json.dumps({name: value}), "utf-8")
            said = answer(
                lambda given: read_settings(given, {}, tmp_path), {"config_dir": str(config)}, usual
            )
            parts.append(f"node.yaml {name}: {json.dumps(value)}: {said}")
    for text in ("a: [b", "- a", "no_such: 1", "prot: 1", "name: a\nname: b", "\0"):
        file.write_text(text, "utf-8")
        said = answer(
            lambda given: read_settings(given, {}, tmp_path), {"config_dir": str(config)}, usual
        )
        parts.append(f"node.yaml {text!r}: {said}")

    compare("node/settings", names.replaced("\n".join(parts)))
