"""How an item is to be run on a node, besides what a run here has too."""

from lillux.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """What a caller may choose.

    thread         ``inline`` or ``fork``, ``""`` for what the kind asks for
    is_async       do not wait for its end
    vault_keys     names of secrets on the node that the run may see
    sends_secrets  whether it sees the user's own secrets too
    applies        whether what it changes in the project is merged in here
    resigns        whether pages of knowledge that come back are signed with the user's key
    """

    thread: str = ""
    is_async: bool = False
    vault_keys: tuple[str, ...] = ()
    sends_secrets: bool = True
    applies: bool = True
    resigns: bool = False
