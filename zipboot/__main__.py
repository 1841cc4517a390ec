"""The first thing that runs in rye.pyz. Every Python since 2.7 can parse it, to say what is wrong.

Compiled from source at every start: no annotations, no f-strings, as little as possible. Page:
``docs/building.md``.
"""

import os
import sys


def end(problem):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 - as above
    """Say in one line why nothing can start here."""
    sys.stderr.write("rye: " + problem + "\n")
    sys.exit(78)  # EX_CONFIG of sysexits.h: the environment is wrong, not the command


if sys.version_info < (3, 11):  # noqa: UP036 - the point of this file
    found = sys.version.split()[0] + " (" + str(sys.executable) + ")"
    end("needs Python 3.11 or newer, this is Python " + found)  # type: ignore[no-untyped-call]


def forget_named_folders():  # type: ignore[no-untyped-def] # noqa: ANN201 - as above
    """Import nothing from folders that variables name: this program needs none of them.

    An agent may write there, and what is imported later would run with all rights. What the
    interpreter itself loads before this line, like sitecustomize, is its user's choice.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    base = os.environ.get("PYTHONUSERBASE")
    if named == [""] and not base:
        return
    gone = set(named + [os.path.abspath(one) for one in named]) if named != [""] else set()
    below = os.path.abspath(base) + os.sep if base else None
    library = os.path.dirname(os.__file__)
    here = os.path.dirname(os.path.abspath(__file__))
    own = sys.path[:1] if sys.path[0] in (here, os.path.dirname(here)) else []
    sys.path[:] = own + [
        one
        for one in sys.path[len(own) :]
        if one == library
        or one.startswith(library + os.sep)
        or not (one in gone or (below and one.startswith(below)))
    ]


# What zipboot.parts says too, which may be what is damaged.
DAMAGED = " is damaged (%s): get it again, or check it with the .sha256 beside it"


def boot(archive):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 - as above
    """Run the code packed for this interpreter, or else what shiv unpacks; the exit status."""
    import _imp
    import marshal

    index = b""
    if os.environ.get("RYE_BOOT") != "shiv":
        try:
            index = archive.get_data("_rye/" + str(sys.implementation.cache_tag) + ".idx")
        except OSError:
            pass  # no code is packed for it
        except Exception:  # noqa: BLE001 - whatever zipimport makes of an entry that is damaged
            index = b"?"
    if index:
        from _frozen_importlib_external import MAGIC_NUMBER

        if index[:8] != _imp.source_hash(0, index[8:]):  # see zipboot.parts.checksum
            end(archive.archive + DAMAGED % "its index")  # type: ignore[no-untyped-call]
    if not index or not index.startswith(MAGIC_NUMBER, 8):
        try:
            from zipboot.fallback import start
        except Exception:  # noqa: BLE001 - a source that is damaged raises anything
            end(archive.archive + DAMAGED % "zipboot")  # type: ignore[no-untyped-call]
        return start(archive)
    index = marshal.loads(index[8 + len(MAGIC_NUMBER) :])  # noqa: S302 - our own archive
    for name, code in index["boot"]:
        module = type(sys)(name)
        sys.modules[name] = module
        if "." not in name:
            module.__path__ = []  # a package; where its modules are, the importer knows
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302 - our own archive
    return sys.modules["zipboot.launch"].run(index, archive)


if __name__ == "__main__":
    forget_named_folders()  # type: ignore[no-untyped-call]
    try:
        sys.exit(boot(__loader__))  # type: ignore[name-defined,no-untyped-call] # the zip's own
    except KeyboardInterrupt:  # too early for the program to say anything
        sys.exit(130)
