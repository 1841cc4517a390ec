"""``thread.json``: a thread's row as a file beside its log, for people and for other programs."""

import json

from lillux.files import locked, write_atomic
from ryeos.threads.place import DOCUMENT
from ryeos.threads.registry import Registry


def write_document(registry: Registry, thread_id: str) -> None:
    """Write the thread as it is now, whoever else does so at the same time.

    Raises ThreadNotFoundError, RegistryError, FileSystemError.
    """
    place = registry.place
    folder = place.make_thread_folder(thread_id)
    path = place.file(thread_id, DOCUMENT)
    with locked(folder / f"{DOCUMENT}.lock"):  # the row that is read last is written last
        described = registry.get(thread_id).describe()
        document = json.dumps(described, ensure_ascii=False, indent=2)
        write_atomic(path, document.encode("utf-8", "backslashreplace") + b"\n", mode=0o600)
