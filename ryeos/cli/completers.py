"""How the script of each shell asks ``rye __complete`` for names: functions in its language.

Why ``eval``, in bash and zsh: NAME may be an alias, which a function would not see otherwise. What
is evaluated is a fixed line; the words that were typed are in variables.
"""

from collections.abc import Mapping

from lillux.values import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """What may stand in a place: names of a sort of `ryeos.cli.offers`, or else paths."""

    sort: str
    or_paths: bool = False

    @property
    def word(self) -> str:
        """A part of the names of functions. Not "files": shtab has its own idea of those."""
        return f"{self.sort}_or_paths" if self.or_paths else self.sort


_REFS, _TOOLS, _THREADS = Offer("refs"), Offer("tools"), Offer("threads")
_OWN = Offer("own")
OFFERS: Mapping[tuple[str, str], Offer] = {
    ("run", "ref"): Offer("refs", or_paths=True),
    ("load", "ref"): _REFS,
    ("remote execute", "ref"): _REFS,
    ("sign", "what"): Offer("own", or_paths=True),
    ("verify", "what"): Offer("refs", or_paths=True),
    ("registry push", "ref"): _OWN,
    ("registry verify", "ref"): _OWN,
    ("registry outdated", "ref"): _OWN,
    ("registry update", "ref"): _OWN,
    ("chain", "ref"): _TOOLS,
    ("test", "what"): _TOOLS,
    ("graph run", "ref"): _TOOLS,
    ("graph show", "ref"): _TOOLS,
    ("graph step", "ref"): _TOOLS,
    ("graph validate", "ref"): _TOOLS,
    ("graph resume", "run_id"): _THREADS,
    ("lock show", "ref"): _TOOLS,
    ("lock update", "ref"): _TOOLS,
    ("lock delete", "ref"): _TOOLS,
    ("threads show", "thread"): _THREADS,
    ("threads logs", "thread"): _THREADS,
    ("threads kill", "thread"): _THREADS,
    ("threads wait", "threads"): _THREADS,
    ("help", "words"): Offer("topics"),
}
"""By command and argument."""

_BASH = """\
@_offer() {
  eval 'NAME __complete "$1" "$2" "${COMP_WORDS[@]:1}"' 2>/dev/null </dev/null
}
"""
_BASH_FUNCTION = """\
@_WORD() { @_offer SORT "$1"; }
"""
_BASH_END = """
# bash ends a word at a colon: hand over whole words, and give back what follows the last colon.
@_complete() {
  local -a words=()
  local word line="${COMP_LINE:0:$COMP_POINT}" last=-1 index
  for ((index = 0; index <= COMP_CWORD; index++)); do
    word="${COMP_WORDS[index]}"
    if [[ $last -gt 0 && $line != [[:space:]]* && ($word == :* || ${words[last]} == *:) ]]; then
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
  if [[ ${#COMPREPLY[@]} -eq 0 && $typed != -* ]]; then
    case " ${words[*]:1:$((last - 1))} " in
      PATTERN)
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$typed") ;;
    esac
  elif [[ $typed == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${typed%"${typed##*:}"}"}")
  fi
}

complete -o bashdefault -F @_complete NAME
"""
_ZSH = """\
@_offer() {
  local what=$1; shift
  local -a found
  local names="$(setopt aliases
    eval 'NAME __complete "$what" "${(Q)PREFIX}" "${(@)words[2,-1]}"' 2>/dev/null </dev/null)"
  found=("${(@f)names}")
  found=("${(@)found:#}")
  (( $#found )) && compadd "$@" -a found
}
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


def functions(shell: str, name: str, prefix: str) -> str:
    """The functions for a shell, for a program of that name; ``""`` for a shell without them."""
    if shell not in _FUNCTIONS:
        return ""
    templates = [_STARTS[shell]]
    for offer in sorted(set(OFFERS.values()), key=lambda offer: offer.word):
        template = _FUNCTIONS[shell][offer.or_paths]
        templates.append(template.replace("WORD", offer.word).replace("SORT", offer.sort))
    return _filled("".join(templates), name, prefix)


def completer(offer: Offer, prefix: str, tcsh: str) -> Mapping[str, str]:
    """What shtab puts where such names may stand; ``tcsh`` is its own pattern for that shell."""
    function = f"{prefix}_{offer.word}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "powershell": function,
        "tcsh": tcsh if offer.or_paths else "",
    }


def ending(shell: str, name: str, prefix: str, registered: str) -> str:
    """What stands behind the script: bash needs a function around shtab's, ``registered``."""
    if shell != "bash":
        return ""
    words = dict.fromkeys(words for (words, _), offer in OFFERS.items() if offer.or_paths)
    pattern = " | ".join(f'*" {word} "*' for word in (*words, "execute"))
    text = _BASH_END.replace("PATTERN", pattern).replace("SHTAB", registered)
    return _filled(text, name, prefix)


def _filled(text: str, name: str, prefix: str) -> str:
    return text.replace("@_", f"{prefix}_").replace("NAME", name)
