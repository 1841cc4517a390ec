"""What runs would go on from, and no ref names yet: a sweep of the store spares it."""

import re
from collections.abc import Iterator

from lillux.files import file_system_error, read_part
from ryeos.graph.run_errors import RunIdError
from ryeos.graph.run_ids import check_run_id
from ryeos.graph.run_place import TRANSCRIPT, RunPlace

_TAIL_BYTES = 4 * 1024 * 1024
_STATE = re.compile(rb'"state_hash":"([0-9a-f]{64})"')


def roots_of_runs(place: RunPlace) -> Iterator[str]:
    """Of every run the digest of the last state in its transcript.

    A ref is written with a checkpoint only, so the steps since then are named by the transcript
    alone. Whether it is genuine does not matter here: a wrong digest spares too much, never too
    little. Raises RunPlaceError, FileSystemError.
    """
    for run_id in _run_ids(place):
        path = place.run_file(run_id, TRANSCRIPT)
        try:
            size = path.lstat().st_size
            tail, _ = read_part(path, max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise file_system_error(path, error) from error
        states = _STATE.findall(tail)
        if states:
            yield states[-1].decode("ascii")


def _run_ids(place: RunPlace) -> Iterator[str]:
    try:
        names = sorted(path.name for path in place.runs.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_system_error(place.runs, error) from error
    for name in names:
        try:
            yield check_run_id(name)
        except RunIdError:  # nobody's run, like the .gitignore
            continue
