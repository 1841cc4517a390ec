"""What commands answer about items, files and places that are not as they should be."""

import re
import shlex
from pathlib import Path, PurePosixPath

import pytest

from ryeos.items.refs import Kind
from ryeos.trust.signature import Identity, form_for, split
from ryeos.trust.signing_key import SigningKey
from tests.golden import states
from tests.support.command_line import CommandLine
from tests.support.golden import Names, compare, transcript
from tests.support.signed_files import seed_keypair
from tests.support.workspace import fixed_clock

_VERSION = re.compile(r"""version[:=]\s*["']?([\d.]+)""")
USER_SETTINGS = 'version: "1.0.0"\ncategory: {category}\n{text}\n'


def kind_of(relative: str) -> Kind:
    """The kind of an item by the folder it is in."""
    return next(kind for kind in Kind if relative.startswith(f"{kind.directory}/"))


def write(cli: CommandLine, relative: str, text: str) -> Path:
    """Write a file below ``.ai`` of the project."""
    path = cli.project / ".ai" / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def signed(relative: str, text: str, seed: int = 0) -> str:
    """The text, signed as the item that it is, without validation."""
    kind, path = kind_of(relative), PurePosixPath(relative)
    form = form_for(kind, path.suffix)
    named = path.relative_to(kind.directory).with_suffix("").as_posix()
    version = _VERSION.search(text)
    identity = Identity(kind.value, named, path.suffix[1:], version[1] if version else "")
    key = SigningKey(seed_keypair(seed), fixed_clock)
    return key.signed_text(kind, split(text, form, relative), form, relative, identity)


@pytest.fixture
def world(signer: CommandLine) -> CommandLine:
    """A project with an item in each state."""
    for relative, text in {**states.SIGNED, **states.UNCHECKED}.items():
        write(signer, relative, signed(relative, text))
    for relative, text in states.UNSIGNED.items():
        write(signer, relative, text)
    for relative, text in states.UNTRUSTED.items():
        write(signer, relative, signed(relative, text, seed=7))
    for relative in ("tools/mine/changed.yaml", "directives/mine/changed.md"):
        path = signer.project / ".ai" / relative
        path.write_text(path.read_text("utf-8") + "# more\n", "utf-8")
    path = signer.project / ".ai" / "tools/mine/cut.yaml"
    path.write_text(path.read_text("utf-8").replace(":2026", ":202", 1), "utf-8")
    (signer.project / ".ai/tools/mine/latin.yaml").write_bytes(b"description: caf\xe9\n")
    return signer


def record(name: str, cli: CommandLine, names: Names, text: str) -> None:
    """Compare what the commands of a text, one in a line, answer."""
    commands = [shlex.split(line) for line in text.strip().splitlines()]
    compare(f"states/{name}", transcript(cli, "rye", commands, names))


UNKNOWN = """
run tool:mine/absent
run mine/absent
run directive:mine/absent
run knowledge:mine/absent
run thing:mine/good
run tool:
run tool:../x
run tool:/etc/passwd
run tool:mine/go\x01od
run ./absent.yaml
run tool:mine/good@9.9.9
load tool:mine/absent
load tool:mine/absent --to user
info tool:mine/absent
info mine/god
edit tool:mine/absent
mv tool:mine/absent tool:mine/other
mv tool:mine/plain directive:mine/other
mv tool:mine/plain tool:mine/good
rm tool:mine/absent --yes
rm tool:rye/bash/bash --yes
sign tool:mine/absent
sign tool:rye/bash/bash
sign ./absent.md
verify tool:mine/absent
verify 'tool:absent/*'
chain tool:mine/absent
chain directive:mine/good
dev tool:mine/absent
test tool:mine/absent
test tool:mine/good
sandbox show tool:mine/absent
sandbox show directive:mine/good
sandbox suggest tool:mine/absent
approve tool:mine/absent
approve
approve --list
keys trust 0000000000000000
keys trust ./absent.pem
keys untrust 0000000000000000
keys untrust x
keys import ./absent.pem
keys export absent/folder/x.pem
keys use-agent SHA256:x
keys rotate --until never --yes
keys generate
lock show tool:mine/absent
lock show tool:mine/good
lock delete tool:mine/good
lock update tool:mine/absent
graph run tool:mine/absent
graph run tool:mine/good
graph validate tool:mine/absent
graph validate absent.yaml
graph validate tool:mine/good
graph show tool:mine/absent
graph show --run absent
graph step tool:mine/absent a
graph resume absent
receipts show 99
receipts show x
receipts export 99
receipts verify --key x
threads show absent
threads show ../x
threads logs absent
threads kill absent
threads kill absent --grace x
threads wait absent
threads cancel absent
threads resume absent
threads branch absent --turn 1
threads branch absent --turn -1
threads raise absent turns=3
threads raise absent turns=x
threads steer absent hello
threads prune --older soon
store gc --grace -1
remote add
remote add x
remote add 'a b' https://x.example
remote add x ftp://x.example
remote add x https://x.example --node-id x
remote remove absent
remote forget absent
remote push
remote push --remote absent
remote pull
remote pull --remote absent --accept ../x
remote diff
remote resolve x
remote resolve x --ours --theirs
remote execute tool:mine/good
remote status
remote threads
remote thread absent
remote logs absent
remote cancel absent
remote history
remote secrets list
remote secrets set
remote webhooks list
remote whoami
remote keys list
remote tokens list
remote teams list
remote projects
remote move x
remote trust-items
registry login --url ftp://x
registry logout --registry absent
registry info x
registry pull x --registry absent
registry push tool:mine/absent
registry delete x --registry absent
registry verify x
registry outdated
registry keys list --registry absent
registry forget absent
registry pin --registry absent
bundle create
bundle create x --release one
bundle create x --release 1.0.0
bundle verify absent
bundle inspect absent
bundle install absent --registry absent
bundle uninstall absent
bundle pull absent --registry absent
bundle push absent
mcp config absent
mcp install absent
mcp uninstall absent
mcp add
mcp add 'a b' -- x
mcp add x --url ftp://x
mcp add x
mcp discover absent
mcp refresh absent
mcp remove absent
new tool
new tool mine/good
new tool ../x
new tool 'mine/a b'
new tool mine/x --language cobol
new directive mine/good
new thing mine/x
import ./absent
import ./absent --from nothing
import . --from nothing
skill add ./absent
skill verify absent
skill export directive:mine/absent
skill export tool:mine/good
self verify absent.pyz
self extract absent/folder
help error:NOTHING
help item:tool:mine/absent
help template:nothing
help --schema nothing
search name: --limit 0
search x --scope nothing
search '"'
list --signer nothing
trust --older nothing
trust --revoke
agent set-up --provider nothing
agent set-up --provider nothing --model x --yes
completion bash --bin 'a b'
init --user --project
"""
STATES = (
    "\n".join(
        f"{line} tool:mine/{state}"
        for state in states.STATES
        for line in ("run", "run --dry-run", "info", "verify", "chain", "load", "lock update")
    )
    + """
run directive:mine/unsigned
run directive:mine/changed name=x
run knowledge:mine/unsigned
run tool:mine/latin
info tool:mine/latin
sign tool:mine/latin
verify
verify .ai/tools
verify --all
list
status
registry push tool:mine/unsigned
registry push tool:mine/untrusted
bundle verify .
"""
)
CHAINS = "\n".join(
    f"{verb} tool:{Path(relative).with_suffix('').as_posix().removeprefix('tools/')}"
    for relative in states.UNCHECKED
    for verb in ("run", "chain", "sign --dry-run")
)
PARAMETERS = """
run tool:mine/good
run tool:mine/good name=x
run tool:mine/good name=ab count=many
run tool:mine/good name=ab count=9
run tool:mine/good name=ab count:=1.5
run tool:mine/good name=ab kind=green
run tool:mine/good name=ab flag=perhaps
run tool:mine/good name=ab list:='["a","b","c"]'
run tool:mine/good name=ab list:='['
run tool:mine/good name=ab nmae=x
run tool:mine/good name=ab name=cd
run tool:mine/good name@absent.txt
run tool:mine/good =x
run tool:mine/good x
run tool:mine/good --nmae x
run tool:mine/good --params 3
run tool:mine/good --params '{'
run tool:mine/good --params @absent.json
run tool:mine/good --params '{"name": 3}'
run tool:mine/good --params '{"name": "ab"}' name=cd
run tool:mine/good --stdin
run tool:mine/good name=ab --timeout -1
run tool:mine/good name=ab --timeout inf
run tool:mine/good name=ab --cwd absent
run tool:mine/good name=ab --cwd ../..
run tool:mine/good name=ab --sandbox most
run tool:mine/good name=ab --receipt some
run tool:mine/good name=ab --target absent
run tool:mine/good name=ab --limit turns=x
run tool:mine/good name=ab --limit x
run tool:mine/good name=ab --fork
run tool:mine/good name=ab --model x
run directive:mine/good
run directive:mine/good nmae=x
run directive:mine/good name=x --async
run directive:mine/good name=x --fork
run directive:mine/good name=x --fork --model nothing/x
run directive:mine/good name=x --fork --limit turns=x
run knowledge:mine/good x=1
run knowledge:mine/good --dry-run
run tool:mine/fails
run tool:mine/fails --trace --dry-run
"""
NO_PROJECT = """
run tool:mine/good
run ./x.yaml
sign tool:mine/good
sign
verify
approve
list
status
test
lock list
lock show tool:mine/good
lock update --all
graph resume x
receipts list
threads list
threads show x
store show
store gc
remote push
remote pull
remote status
trust
trust --yes
mcp servers
mcp discover x
registry outdated
skill list
bundle create x --release 1.0.0
new tool mine/x --space nowhere
import . --dry-run
keys show
keys list
"""


def test_answers_about_what_is_not_there_are_as_recorded(world: CommandLine, names: Names) -> None:
    record("unknown", world, names, UNKNOWN)


def test_answers_about_items_that_are_not_trusted_are_as_recorded(
    world: CommandLine, names: Names
) -> None:
    record("untrusted", world, names, STATES)


def test_answers_about_chains_that_do_not_hold_are_as_recorded(
    world: CommandLine, names: Names
) -> None:
    record("chains", world, names, CHAINS)


def test_answers_about_parameters_are_as_recorded(world: CommandLine, names: Names) -> None:
    record("parameters", world, names, PARAMETERS)


def test_answers_without_a_project_are_as_recorded(cli: CommandLine, names: Names) -> None:
    record("no_project", cli, names, NO_PROJECT)


def test_answers_in_a_project_without_a_key_are_as_recorded(cli: CommandLine, names: Names) -> None:
    (cli.project / ".ai").mkdir()

    record("no_key", cli, names, NO_PROJECT)


def test_answers_about_places_are_as_recorded(cli: CommandLine, names: Names) -> None:
    (cli.project / "file").write_text("x", "utf-8")
    lines = [
        f"{verb} {flag}"
        for verb in ("status", "run tool:rye/bash/bash", "list", "verify")
        for flag in ("-p absent", "-p file", "--user-space absent", "--user-space file", "-p ''")
    ]

    record("places", cli, names, "\n".join(lines))


def test_problems_of_items_to_sign_are_as_recorded(world: CommandLine, names: Names) -> None:
    for relative, text in states.BAD_ITEMS.items():
        write(world, relative, text)

    record("items", world, names, "\n".join(f"sign .ai/{one} --yes" for one in states.BAD_ITEMS))


def test_problems_of_graphs_are_as_recorded(world: CommandLine, names: Names) -> None:
    lines = []
    for name, text in states.BAD_GRAPHS.items():
        relative = f"tools/flows/{name}.yaml"
        whole = states.graph(text)
        write(world, relative, whole if name == "not_yaml" else signed(relative, whole))
        lines += [f"graph validate tool:flows/{name}", f"run tool:flows/{name} --dry-run"]

    record("graphs", world, names, "\n".join(lines))


def test_problems_of_settings_are_as_recorded(world: CommandLine, names: Names) -> None:
    parts = []
    for (path, reader), texts in states.BAD_SETTINGS.items():
        file = world.home / ".ai" / "config" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for text in texts:
            whole = USER_SETTINGS.format(category=path.rpartition("/")[0], text=text)
            file.write_text(signed(f"config/{path}", whole), "utf-8")
            lines = map(shlex.split, filter(None, (f"sign {file} --force", reader)))
            parts.append(f"# {path}: {text!r}\n{transcript(world, 'rye', lines, names)}")
        file.unlink()

    compare("states/settings", "\n\n".join(parts))


def test_settings_that_are_not_signed_are_refused_as_recorded(
    world: CommandLine, names: Names
) -> None:
    parts = []
    for path, reader in (one for one in states.BAD_SETTINGS if one[1]):
        file = world.home / ".ai" / "config" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = USER_SETTINGS.format(category=path.rpartition("/")[0], text="")
        for text in (whole, signed(f"config/{path}", whole) + "# more\n", "a: [b"):
            file.write_text(text, "utf-8")
            parts.append(transcript(world, "rye", [shlex.split(reader)], names))
        file.unlink()

    compare("states/unsigned_settings", "\n\n".join(parts))


def test_problems_of_lockfiles_are_as_recorded(world: CommandLine, names: Names) -> None:
    parts = []
    for name, text in states.BAD_LOCKFILES.items():
        write(world, "lockfiles/tools/mine/plain.lock.json", text)
        lines = (
            "run tool:mine/plain --dry-run",
            "lock show tool:mine/plain",
            "lock list",
            "chain tool:mine/plain",
        )
        shown = transcript(world, "rye", map(shlex.split, lines), names)
        parts.append(f"# {name}\n{shown}")

    compare("states/lockfiles", "\n\n".join(parts))
