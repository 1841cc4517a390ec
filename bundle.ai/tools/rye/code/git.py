"""Looks at a git repository of the project and commits to it, without a shell.

What a repository brings along does not run: no hook, filter, pager, editor, monitor, external diff
or remote helper that its own configuration names. The user's own configuration counts. Page:
``docs/bundle-tools.md``.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/code"
__tool_description__ = "git: status, diff, log, show, blame, branches, add, commit and more"
__tags__ = ["git", "version", "control", "commit", "diff", "branch", "log"]

CONFIG = {"timeout": 120}
# A work tree may lie elsewhere than its repository, so git reads and writes where its user does.
SANDBOX = {
    "read": "any",
    "write": "any",
    "network": "none",
    "programs": [
        "git",
        "/usr/lib/git-core",
        "/usr/libexec/git-core",
        "/Library/Developer",
        "/Applications/Xcode.app",
    ],
    "env": ["GIT_*", "EMAIL", "XDG_CONFIG_HOME"],
}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "type": "string",
            "enum": [
                "status",
                "diff",
                "log",
                "show",
                "blame",
                "branches",
                "init",
                "add",
                "unstage",
                "commit",
                "create_branch",
                "switch",
            ],
            "description": "What to do; nothing is pushed or pulled",
        },
        "path": {
            "type": "string",
            "default": ".",
            "description": "A folder in the repository, relative to the project",
        },
        "paths": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "default": [],
            "description": "Files and folders, relative to path; needed by add, unstage and blame",
        },
        "ref": {
            "type": "string",
            "description": "A revision; show takes REVISION:FILE too; switch: the branch",
        },
        "to": {"type": "string", "description": "diff: a second revision"},
        "staged": {
            "type": "boolean",
            "default": False,
            "description": "diff: what would be committed",
        },
        "summary": {
            "type": "boolean",
            "default": False,
            "description": "diff, show: lines of each file instead of the changes",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 20,
            "description": "log: so many commits",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "log: pass over so many",
        },
        "author": {"type": "string", "description": "log: only of these, an expression"},
        "since": {"type": "string", "description": "log: a date, or 2.weeks"},
        "until": {"type": "string", "description": "log: a date"},
        "message": {"type": "string", "minLength": 1, "description": "commit: its message"},
        "all": {
            "type": "boolean",
            "default": False,
            "description": "commit: everything changed that git knows",
        },
        "amend": {
            "type": "boolean",
            "default": False,
            "description": "commit: in place of the last one",
        },
        "name": {"type": "string", "description": "create_branch: its name, from ref or HEAD"},
        "hooks": {
            "type": "boolean",
            "default": False,
            "description": "Run the repository's hooks: code of their author",
        },
        "max_bytes": {
            "type": "integer",
            "minimum": 1000,
            "maximum": 1000000,
            "default": 50000,
            "description": "At most so many bytes of text",
        },
    },
    "examples": [{"action": "init"}, {"action": "status"}],
}

# A repository that is cloned may say all this in its .git/config: another person wrote it.
FIXED = {
    "alias.x": "",
    "color.ui": "false",
    "commit.verbose": "false",
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.editor": "true",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gc.auto": "0",
    "log.showSignature": "false",
    "mailmap.blob": "",
    "mailmap.file": "",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}
# What names a program by a name of its own: emptied if the repository itself says it.
NAMED = re.compile(
    r"(?:filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:command|textconv)|merge\..*\.driver"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|trailer\..*\.(?:command|cmd))",
    re.DOTALL,
)
MISUSED = re.compile(r"filter\..*\.required|(?:commit|tag)\.gpgsign")
# Hooks that a configuration names, from git 2.54 on, are switched off each by itself.
HOOK = re.compile(r"(hook\..*)\.(?:command|event|enabled)", re.DOTALL)
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")
PLAIN_DIFF += ("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/")
LOG_FIELDS = ("commit", "parents", "author", "email", "date", "subject", "body")
LOG_FORMAT = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%s%x00%b"
LARGE, MAX_CHANGES, MAX_DEPTH = 8 << 20, 1000, 5
# Of a git folder: how much of it is looked at, and what git itself writes nothing into.
MAX_LEVELS, MAX_ENTRIES, PASSED_OVER = 40, 200_000, {"hooks", "annex", "lfs"}


class GitError(Exception):
    """What is answered instead: the problem, and what to do."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem)


def execute(params: dict, project_path: str) -> dict:
    """What the action gives."""
    try:
        repository = Repository(Path(project_path).resolve(), params)
        if params["action"] != "init":
            repository.look()
        if params["action"] in ("add", "unstage", "commit", "switch"):
            repository.disarm_submodules(repository.folder)
        return {"success": True, **ACTIONS[params["action"]](repository, params)}
    except GitError as error:
        hint = {"hint": error.hint} if error.hint else {}
        return {"success": False, "error": error.problem, **hint}


class Repository:
    """A repository in the project, and git as it is safe to start there."""

    def __init__(self, project: Path, params: dict) -> None:
        self.folder = (project / params["path"]).resolve()
        if not self.folder.is_relative_to(project) or not self.folder.is_dir():
            raise GitError(f"path: expected a folder in {project}, found {params['path']!r}")
        program = shutil.which("git")
        if program and Path(program).resolve().is_relative_to(project):
            raise GitError(f"{program}: expected a git of the user's, found one in the project")
        if not program:
            raise GitError("git: there is no such program on the PATH", "install git")
        self.program, self.project = program, project
        self.settings = dict(FIXED)
        if not params["hooks"]:
            self.settings["core.hooksPath"] = os.devnull
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        self.env = kept | {
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_CEILING_DIRECTORIES": str(project.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_EDITOR": "true",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
        }

    def look(self) -> None:
        """Insist that it is a repository of the project; empty what its configuration names."""
        answer = self.run("rev-parse", "--show-toplevel", "--absolute-git-dir").splitlines()
        top, folder = Path(answer[0]).resolve(), Path(answer[-1]).resolve()
        if not top.is_relative_to(self.project) or not self.folder.is_relative_to(top):
            raise GitError(f"{top}: expected a repository in {self.project}, found one outside")
        if not folder.is_relative_to(self.project) and not is_worktree(folder, top):
            raise GitError(f"{top}/.git: it leads to {folder}, which knows nothing of it")
        self.stay_inside(folder)
        self.disarm(self.folder)

    def stay_inside(self, folder: Path) -> None:
        """Insist that no file of a git folder in the project leads out of it.

        git follows links there when it writes, and takes another repository for its own.
        """
        if not folder.is_relative_to(self.project):
            return  # a worktree's: who can write there needs none of this
        shared = commondir(folder)
        if shared and not (folder / shared).resolve().is_relative_to(self.project):
            raise GitError(f"{folder}/commondir: it leads to a repository elsewhere")
        for place in links_in(folder):
            if not place.resolve().is_relative_to(self.project):
                raise GitError(f"{place}: it is a link that leads out of the project")

    def disarm(self, folder: Path) -> None:
        """Empty what the configuration of a repository names."""
        words = ("-C", str(folder), "config", "--list", "--show-scope", "--name-only", "-z")
        # A name that is no UTF-8 has to be met exactly.
        said = os.fsdecode(self.printed(words, LARGE)).split("\0")
        for scope, name in zip(said[::2], said[1::2], strict=False):
            if scope in ("local", "worktree"):
                if NAMED.fullmatch(name):
                    self.settings[name] = ""
                elif MISUSED.fullmatch(name):
                    self.settings[name] = "false"
                elif (hook := HOOK.fullmatch(name)) and "core.hooksPath" in self.settings:
                    self.settings[f"{hook[1]}.enabled"] = "false"

    def disarm_submodules(self, folder: Path, depth: int = 0) -> None:
        """The same for its submodules, into which some commands of git look by themselves."""
        answer = self.printed(("-C", str(folder), "rev-parse", "--show-toplevel"), LARGE)
        top = os.fsdecode(answer).removesuffix("\n")
        listed = self.printed(("-C", top, "ls-files", "--stage", "-z"), LARGE << 5)
        for entry in os.fsdecode(listed).split("\0"):
            inner = Path(top, entry.partition("\t")[2])
            if not entry.startswith("160000 ") or not (inner / ".git").exists():
                continue
            if depth == MAX_DEPTH:
                raise GitError(f"{inner}: more than {MAX_DEPTH} submodules in each other")
            self.disarm(inner)
            self.disarm_submodules(inner, depth + 1)

    def run(self, *words: str, stdin: str = "") -> str:
        """What git prints for a program to read. Raises GitError."""
        data = self.printed(words, LARGE, stdin)
        if len(data) > LARGE:
            raise GitError(f"git {words[0]}: more than {LARGE} bytes", "name paths")
        return data.decode("utf-8", "replace")

    def printed(self, words: tuple, max_bytes: int, stdin: str = "") -> bytes:
        """What git prints, at most so many bytes of it and one more. Raises GitError."""
        settings = [f"--config-env={name}=RYE_{at}" for at, name in enumerate(self.settings)]
        values = {f"RYE_{at}": value for at, value in enumerate(self.settings.values())}
        argv = [self.program, "--no-pager", "--literal-pathspecs", *settings, *words]
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as given:
            given.write(stdin.encode("utf-8", "surrogatepass"))
            given.seek(0)
            with subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self.env | values,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=told,
            ) as process:
                data = process.stdout.read(max_bytes + 1)
                is_cut = len(data) > max_bytes
                if is_cut:
                    process.kill()
            told.seek(0)
            problem = told.read(4000).decode("utf-8", "replace").strip()
        if process.returncode and not is_cut:
            raise GitError(
                f"git {words[0]}: {problem or f'status {process.returncode}'}", hint(problem)
            )
        return data


def commondir(folder: Path) -> str:
    """Where a git folder says that most of its repository is, nothing where it does not."""
    path = folder / "commondir"
    try:
        return os.fsdecode(path.read_bytes()).strip() if path.is_file() else ""
    except OSError as error:
        raise GitError(f"{path}: {error.strerror}") from None


def links_in(folder: Path) -> list:
    """The links in a git folder, but those in the folders that git writes nothing into.

    A link in place of such a folder is one of them.
    """
    found, seen, todo = [], 0, [(folder, 0)]
    while todo:
        inner, level = todo.pop()
        with os.scandir(inner) as entries:
            for entry in entries:
                seen += 1
                if entry.is_symlink():
                    found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False) and (
                    level or entry.name not in PASSED_OVER
                ):
                    todo.append((Path(entry.path), level + 1))
        if seen > MAX_ENTRIES or level > MAX_LEVELS:
            raise GitError(f"{folder}: more files than are looked at", "git gc packs them")
    return found


def is_worktree(folder: Path, top: Path) -> bool:
    """Whether a git folder elsewhere names this work tree as its own, as those of worktrees do."""
    try:
        text = (folder / "gitdir").read_text("utf-8").strip()
        return (folder / text).resolve() == (top / ".git").resolve()
    except (OSError, UnicodeDecodeError):
        return False


def hint(problem: str) -> str:
    """What helps against a problem that git tells."""
    if "not a git repository" in problem:
        return "action init makes one; the repository must be in the project"
    if "tell me who you are" in problem.lower() or "empty ident" in problem:
        return "the user sets user.name and user.email with git config --global"
    return ""


def revision(params: dict, name: str = "ref") -> list:
    """The words of a revision, none without one."""
    text = params.get(name, "")
    if text.startswith("-") or re.search(r"[\0-\x20\x7f]", text):
        raise GitError(f"{name}: expected a revision, found {text!r}")
    return [text] if text else []


def needed(params: dict, name: str) -> object:
    """A parameter that an action cannot do without."""
    if not params.get(name):
        raise GitError(f"{params['action']}: expected {name}, found none")
    return params[name]


def text_answer(repository: Repository, params: dict, words: list) -> dict:
    """Text for a reader."""
    data = repository.printed(tuple(words), params["max_bytes"])
    cut = {"truncated": True, "hint": "name paths, ask for the summary, or raise max_bytes"}
    is_cut = len(data) > params["max_bytes"]
    text = data[: params["max_bytes"]].decode("utf-8", "replace")
    return {"text": text, **(cut if is_cut else {})}


def status(repository: Repository, params: dict) -> dict:
    """The branch, and what differs from the last commit."""
    words = ("status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=dirty")
    entries = repository.run(*words, "--", *params["paths"]).split("\0")
    answer: dict = {"branch": {}, "changes": []}
    at = 0
    while at < len(entries):
        kind, _, rest = entries[at].partition(" ")
        at += 1
        if kind == "#":
            name, _, value = rest.partition(" ")
            answer["branch"][name.removeprefix("branch.")] = value
        elif kind in ("?", "!"):
            answer["changes"].append({"path": rest, "state": "untracked"})
        elif kind in ("1", "2", "u"):
            fields = rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])
            change = {"path": fields[-1], "state": "conflict" if kind == "u" else "changed"}
            change |= {"index": fields[0][0], "work_tree": fields[0][1]}
            if kind == "2":
                change["from"] = entries[at]
                at += 1
            answer["changes"].append(change)
    total = len(answer["changes"])
    del answer["changes"][MAX_CHANGES:]
    return answer | {"total": total, **({"truncated": True} if total > MAX_CHANGES else {})}


def diff(repository: Repository, params: dict) -> dict:
    """The changes as a patch."""
    flags = ["--cached"] if params["staged"] else []
    flags += ["--stat"] if params["summary"] else []
    refs = [*revision(params), *revision(params, "to")]
    words = ["diff", *PLAIN_DIFF, *flags, "--end-of-options", *refs, "--", *params["paths"]]
    return text_answer(repository, params, words)


def log(repository: Repository, params: dict) -> dict:
    """Commits, the newest first."""
    limits = [f"--max-count={params['limit'] + 1}", f"--skip={params['offset']}"]
    limits += [f"--{one}={params[one]}" for one in ("author", "since", "until") if one in params]
    words = ["log", "-z", LOG_FORMAT, "--no-show-signature", "--no-color", *limits]
    text = repository.run(*words, "--end-of-options", *revision(params), "--", *params["paths"])
    fields, size = text.split("\0"), len(LOG_FIELDS)
    found = [
        dict(zip(LOG_FIELDS, fields[at : at + size], strict=True))
        for at in range(0, len(fields) - size + 1, size)
    ]
    for one in found:
        one["parents"] = one["parents"].split()
        one["body"] = one["body"].strip()[:2000]
    more = {"truncated": True, "next_offset": params["offset"] + params["limit"]}
    return {"commits": found[: params["limit"]], **(more if len(found) > params["limit"] else {})}


def show(repository: Repository, params: dict) -> dict:
    """A commit with its changes, or a file of one."""
    refs = revision(params) or ["HEAD"]
    flags = ["--stat"] if params["summary"] else []
    shape = ["--format=medium", "--no-show-signature"]
    words = ["show", *PLAIN_DIFF, *flags, *shape, "--end-of-options", *refs]
    if ":" not in refs[0]:
        words += ["--", *params["paths"]]
    return text_answer(repository, params, words)


def blame(repository: Repository, params: dict) -> dict:
    """Which commit wrote each line of a file."""
    [path, *_] = needed(params, "paths")
    words = ["blame", "-w", "--no-textconv", *revision(params), "--", path]
    try:
        return text_answer(repository, params, words)
    except GitError as error:
        # git would show a line of the file, which may be any that the user can read.
        if "invalid object name" in error.problem:
            raise GitError("git blame: blame.ignoreRevsFile names no list of commits") from None
        raise


def branches(repository: Repository, _: dict) -> dict:
    """The branches, the one that was changed last first."""
    shape = "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(committerdate:iso-strict)"
    order = ("--sort=-committerdate", "--count=500")
    text = repository.run("for-each-ref", *order, shape, "refs/heads", "refs/remotes")
    rows = [line.split("\0") for line in text.splitlines()]
    return {
        "branches": [
            {"name": name.split("/", 2)[2], "commit": commit, "date": date}
            | ({"remote": True} if name.startswith("refs/remotes/") else {})
            | ({"current": True} if head == "*" else {})
            for name, commit, head, date in rows
        ]
    }


def init(repository: Repository, _: dict) -> dict:
    """A new repository."""
    if (repository.folder / ".git").exists():
        raise GitError(f"{repository.folder}: there is a repository already")
    return {"text": repository.run("init").strip()}


def add(repository: Repository, params: dict) -> dict:
    """Take files into the next commit."""
    repository.run("add", "--", *needed(params, "paths"))
    return status(repository, params | {"paths": []})


def unstage(repository: Repository, params: dict) -> dict:
    """Take files out of the next commit; they stay as they are."""
    repository.run("reset", "-q", "--", *needed(params, "paths"))
    return status(repository, params | {"paths": []})


def commit(repository: Repository, params: dict) -> dict:
    """Commit what was added, or the paths, or all that is known."""
    flags = ["--all"] if params["all"] else []
    flags += ["--amend"] if params["amend"] else []
    flags += [] if params["hooks"] else ["--no-verify"]
    words = ["commit", "--quiet", "--cleanup=whitespace", "--file=-", *flags]
    message = needed(params, "message")
    try:
        repository.run(*words, "--", *params["paths"], stdin=message)
    except GitError as error:
        if error.problem == "git commit: status 1":
            raise GitError("commit: nothing was added", "action add, or all: true") from None
        raise
    made = log(repository, params | {"ref": "HEAD", "limit": 1, "offset": 0, "paths": []})
    return {"commit": made["commits"][0]}


def create_branch(repository: Repository, params: dict) -> dict:
    """A branch; the work tree stays where it is."""
    name = needed(params, "name")
    if name.startswith("-"):
        raise GitError(f"name: expected that of a branch, found {name!r}")
    repository.run("branch", "--no-track", name, *revision(params))
    return {"branch": name}


def switch(repository: Repository, params: dict) -> dict:
    """Another branch; changes that would be lost stop it."""
    needed(params, "ref")
    repository.run("switch", "--no-guess", "--no-recurse-submodules", *revision(params))
    return status(repository, params | {"paths": []})


ACTIONS = {
    "add": add,
    "blame": blame,
    "branches": branches,
    "commit": commit,
    "create_branch": create_branch,
    "diff": diff,
    "init": init,
    "log": log,
    "show": show,
    "status": status,
    "switch": switch,
    "unstage": unstage,
}
