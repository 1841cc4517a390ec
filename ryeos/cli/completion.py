"""``rye completion SHELL``: prints the completion script of a shell.

The script is made from the same declarations that parse a command line, all at once. For names that
only this machine has, of items, threads and topics, it asks ``rye __complete`` when a key is
pressed, see `ryeos.cli.completion_candidates`.
"""

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lillux.values import dataclass
from ryeos.app.argument_parser import Parser, add_commands, declare_version
from ryeos.app.command_line import Arguments, CommandEntry, CommandSpec
from ryeos.app.commands import ALIASES, TABLE, declare_shared
from ryeos.cli.session import Session
from ryeos.imports.clients import NAMES
from ryeos.items.errors import UsageError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*", re.ASCII)  # it becomes a part of a script
_FOLDERS = {"DIR"}
_FILES = {"FILE", "PATH", "FILE.pem", "FILE|-", "PEMFILE|DOCUMENT.toml|FINGERPRINT"}
_REFERENCES = re.compile(r".*\bPATH\b.*")  # a file is one of what may stand there
_INSTALL = {
    "bash": "{bin} completion bash > ~/.local/share/bash-completion/completions/{bin}",
    "zsh": "{bin} completion zsh > ~/.zfunc/_{bin}, a folder of $fpath",
    "fish": "{bin} completion fish > ~/.config/fish/completions/{bin}.fish",
    "tcsh": "{bin} completion tcsh > ~/.{bin}.tcsh, and source it in ~/.tcshrc",
    "powershell": "{bin} completion powershell >> $PROFILE",
}


def _configure(parser: Arguments) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"{', '.join(SHELLS)}")
    parser.add_argument("--bin", metavar="NAME", default="rye", help="what you type to run rye")


def _run(session: Session) -> int:
    shell, name = session.arguments.shell, session.arguments.bin
    if not _NAME.fullmatch(name):
        raise UsageError(f"--bin: expected the name of a program, found {name[:60]!r}")
    script = completion_script(shell, name)
    install = _INSTALL[shell].format(bin=name)
    if sys.stdout.isatty():  # else a shell reads it, perhaps at each start
        session.output.note(f"to install it: {install}")
    envelope = {"status": "success", "shell": shell, "script": script, "install": install}
    session.output.answer(envelope, script)
    return 0


def completion_script(shell: str, name: str) -> str:
    """The script for a shell, for a program of that name."""
    import shtab

    tree, identifier = command_tree(name), _identifier(name)
    prefix = f"_rye_{identifier}"
    _complete_files(tree, shtab.FILE, shtab.DIRECTORY)
    found = list(offers(tree))
    for (_, action), slot in found:
        _set_completer(action, completer(slot, prefix, str(shtab.FILE["tcsh"])))
    slots = {slot for _, slot in found}
    script: str = shtab.complete(
        tree,
        shell=shell,
        root_prefix=f"rye_{identifier}",
        preamble=functions(shell, name, prefix, slots),
    )
    registered = f"_shtab_rye_{identifier}"
    if shell == "zsh":
        return around_zsh(script, name, prefix, registered)
    takes_paths = dict.fromkeys(words for (words, _), slot in found if slot.or_paths)
    return script + ending(shell, name, prefix, registered, takes_paths)


def command_tree(name: str) -> Parser:
    """One parser that holds those of all commands."""
    root = Parser(prog=name, description="signed items for agents and people")
    declare_shared(root, has_project=False)
    declare_version(root, "rye")
    add_commands(root, TABLE, _declare)
    return root


def _declare(parser: Parser, entry: CommandEntry) -> None:
    entry.spec().declare(parser)
    declare_shared(parser, has_project=parser.takes("--project"))


def _complete_files(parser: Parser, file: Any, folder: Any) -> None:  # noqa: ANN401 - shtab's
    """Let the shell offer files and folders where an argument names one, and names of clients."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in set(action.choices.values()):
                _complete_files(inner, file, folder)
        elif metavar == "CLIENT":
            action.choices = NAMES
        elif metavar in _FOLDERS:
            _set_completer(action, folder)
        elif metavar in _FILES or _REFERENCES.fullmatch(metavar):
            _set_completer(action, file)


def _set_completer(action: argparse.Action, completed: Any) -> None:  # noqa: ANN401 - shtab's
    action.complete = completed  # type: ignore[attr-defined]  # the attribute that shtab reads


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


# --- completers -----------------------------------------------------------------------------------
# How the script of each shell asks ``rye __complete`` for names: functions in its language.
#
# Why ``eval``, in bash and zsh: NAME may be an alias, which a function would not see otherwise.
# What is evaluated is a fixed line; the words that were typed are in variables.


@dataclass(frozen=True, slots=True)
class CompletionSlot:
    """What may stand in a place: a sort of `ryeos.cli.completion_candidates`, or else paths."""

    sort: str
    or_paths: bool = False

    @property
    def word(self) -> str:
        """A part of the names of functions. Not "files": shtab has its own idea of those."""
        return f"{self.sort}_or_paths" if self.or_paths else self.sort


Place = tuple[str, argparse.Action]
"""The words of a command, and one of its arguments."""


def offers(parser: Parser, words: tuple[str, ...] = ()) -> Iterator[tuple[Place, CompletionSlot]]:
    """Every place where the names of a sort may stand, as the commands declare it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, inner in action.choices.items():
                if word not in ALIASES:
                    yield from offers(inner, (*words, word))
        elif offered := getattr(action, "offers", ""):
            sort, _, paths = offered.partition("|")
            yield (" ".join(words), action), CompletionSlot(sort, or_paths=bool(paths))


_BASH = """\
@_offer() {
  eval 'NAME __complete "$1" "$2" "${COMP_WORDS[@]:1}"' 2>/dev/null </dev/null
}
"""
_BASH_FUNCTION = """\
@_WORD() { @_offer SORT "$1"; }
"""
_BASH_END = """
# bash ends a word at a colon and =: hand over whole words, and give back what follows the last one.
@_complete() {
  local -a words=()
  local word line="${COMP_LINE:0:$COMP_POINT}" last=-1 index
  for ((index = 0; index <= COMP_CWORD; index++)); do
    word="${COMP_WORDS[index]}"
    if [[ $last -gt 0 && $line != [[:space:]]* && ($word == [:=]* || ${words[last]} == *[:=]) &&
        ("$word${words[last]}" != *=* || " ${COMP_WORDS[*]} " == *" "@(RUNS)" "*) ]]; then
      words[last]+="$word"
    else
      last=$((last + 1))
      words[last]="$word"
    fi
    line="${line#*"$word"}"
  done
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$last typed="${words[last]}"
  SHTAB "$@"
  if [[ $typed == --* && " ${words[*]} " == *" "@(RUNS)" "* ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(@_offer parameters "$typed")
  fi
  if [[ ${#COMPREPLY[@]} -eq 0 && $typed != -* ]]; then
    case " ${words[*]:1:$((last - 1))} " in
      PATTERN)
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$typed") ;;
    esac
  elif [[ $typed == *[:=]* && $COMP_WORDBREAKS == *[:=]* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${typed%"${typed##*[:=]}"}"}")
  fi
  [[ ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
}

complete -o bashdefault -F @_complete NAME
"""
_ZSH = """\
@_offer() {
  local what=$1; shift
  local -a found
  local names="$(setopt aliases
    eval 'NAME __complete "$what" "${(Q)PREFIX}" "${(@)typed[2,-1]}"' 2>/dev/null </dev/null)"
  found=("${(@f)names}")
  found=("${(@)found:#}")
  [[ ${found[1]} == *[=/] ]] && set -- "$@" -S ''
  (( $#found )) && compadd "$@" -a found
}
"""
# _arguments takes words away from the front, and offers nothing but its own options for a --word.
_ZSH_END = """
@_complete() {
  local -a typed=("${(@)words[1,CURRENT]}")
  local found=1
  SHTAB "$@" && found=0
  if [[ " $typed " == *" "(RUNS)" "* ]]; then
    [[ $PREFIX == --* || ($found == 1 && ${typed[-2]} == --*) ]] && @_offer parameters && found=0
  fi
  return found
}
"""
# Of a folder of $fpath it is a function that is called; else it is read by source or eval.
_ZSH_CALLS = """
if [[ $zsh_eval_context[-1] == (eval|file) ]]; then
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef @_complete -N NAME
else
  @_complete "$@"
fi
"""
_ZSH_FUNCTION = """\
@_WORD() { @_offer SORT "$@" }
"""
_ZSH_FUNCTION_OR_PATHS = """\
@_WORD() { @_offer SORT "$@" || _files "$@" }
"""
_FISH = """\
function @_offer
  set -l typed (commandline -ct)
  set -l words (commandline -opc)
  NAME __complete $argv[1] "$typed" $words[2..-1] 2>/dev/null </dev/null
end
"""
_FISH_FUNCTION = """\
function @_WORD
  @_offer SORT
end
"""
_FISH_FUNCTION_OR_PATHS = """\
function @_WORD
  set -l names (@_offer SORT)
  if set -q names[1]
    printf '%s\\n' $names
  else
    __fish_complete_path (commandline -ct)
  end
end
"""
_POWERSHELL_FUNCTION = """\
function @_WORD {
  param([string]$WordToComplete)
  @(& 'NAME' __complete SORT $WordToComplete 2>$null)
}
"""
_POWERSHELL_FUNCTION_OR_PATHS = """\
function @_WORD {
  param([string]$WordToComplete)
  $names = @(& 'NAME' __complete SORT $WordToComplete 2>$null)
  if ($names.Count) { $names } else { _shtab_powershell_compgen_files $WordToComplete }
}
"""
_STARTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": ""}
_FUNCTIONS = {
    "bash": (_BASH_FUNCTION, _BASH_FUNCTION),
    "zsh": (_ZSH_FUNCTION, _ZSH_FUNCTION_OR_PATHS),
    "fish": (_FISH_FUNCTION, _FISH_FUNCTION_OR_PATHS),
    "powershell": (_POWERSHELL_FUNCTION, _POWERSHELL_FUNCTION_OR_PATHS),
}


def functions(shell: str, name: str, prefix: str, slots: Collection[CompletionSlot]) -> str:
    """The functions for a shell, for a program of that name; ``""`` for a shell without them."""
    if shell not in _FUNCTIONS:
        return ""
    templates = [_STARTS[shell]]
    for slot in sorted(slots, key=lambda slot: slot.word):
        template = _FUNCTIONS[shell][slot.or_paths]
        templates.append(template.replace("WORD", slot.word).replace("SORT", slot.sort))
    return _fill_template("".join(templates), name, prefix)


def completer(slot: CompletionSlot, prefix: str, tcsh: str) -> Mapping[str, str]:
    """What shtab puts where such names may stand; ``tcsh`` is its own pattern for that shell."""
    function = f"{prefix}_{slot.word}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "powershell": function,
        "tcsh": tcsh if slot.or_paths else "",
    }


def ending(shell: str, name: str, prefix: str, registered: str, takes_paths: Iterable[str]) -> str:
    """What stands behind the script: a function around shtab's, ``registered``, for bash.

    ``takes_paths`` are the commands that take a name or a path.
    """
    if shell != "bash":
        return ""
    words = list(takes_paths)
    words += [alias for word in words for alias in TABLE.aliases_of(word)]
    pattern = " | ".join(f'*" {word} "*' for word in words)
    text = _BASH_END.replace("PATTERN", pattern).replace("SHTAB", registered)
    return _fill_template(text, name, prefix)


def around_zsh(script: str, name: str, prefix: str, registered: str) -> str:
    """The script for zsh, which calls a function of ours around shtab's, ``registered``."""
    body, mark, _ = script.rpartition("\ntypeset -A opt_args\n")
    ours = _fill_template(_ZSH_END.replace("SHTAB", registered), name, prefix)
    return f"{body}{ours}{mark}{_fill_template(_ZSH_CALLS, name, prefix)}"


def item_commands() -> list[str]:
    """The commands behind whose item its own flags stand, and their other words."""
    found = [entry.words for entry in TABLE if entry.spec().takes_item_flags]
    return [one for words in found for one in (words, *TABLE.aliases_of(words))]


def _fill_template(text: str, name: str, prefix: str) -> str:
    text = text.replace("RUNS", "|".join(item_commands()))
    return text.replace("@_", f"{prefix}_").replace("NAME", name)


COMPLETION = CommandSpec(
    _configure, _run, ["rye completion bash", "rye completion zsh --bin r"], has_spinner=False
)
