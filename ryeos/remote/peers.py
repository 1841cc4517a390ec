"""The kinds of server that a client speaks to, and what is different between them. Data.

A node runs items for a user, a registry publishes them. Settings, pins, errors and requests are
the same code for both; what is not the same is a row here.
"""

from lillux.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRules:
    """A kind of peer.

    word            what commands, messages and the owner of a pin call it
    what            what messages call the server itself
    config_path     of its settings, below ``.ai/config``; they stand under ``section``
    settings_hint   how to correct a setting that is wrong
    default_timeout_s  of a request, where the settings name none
    insecure_hint   what to do where an API key would cross the network in plain text
    pins_folder     of its pins, below the user's ``.ai``; ``pin_category`` is that of the documents
    names_share     whether two names for one address are one pin, and not one each
    second_key      the field of a pin with the peer's other key
    holds_second    whether that key is compared too, and added to a pin that lacks it
    needs_pin_file  whether a pin has to be written even where the settings name the same key
    key_word        what a message calls the key before it shows it
    doubt           what another key than the pinned one may mean
    repin           how to take the new key, with ``{name}`` and ``{found}``
    refused_code    the code of its refusals
    refuses_by_redirect  whether an answer that leads elsewhere is a refusal, or no answer of a peer
    is_running      what shows whether it runs
    check_command   what shows whether an address is that of such a peer
    """

    word: str
    what: str
    config_path: str
    section: str
    settings_hint: str
    default_timeout_s: float
    insecure_hint: str
    pins_folder: str
    pin_category: str
    names_share: bool
    second_key: str
    holds_second: bool
    needs_pin_file: bool
    key_word: str
    doubt: str
    repin: str
    refused_code: str
    refuses_by_redirect: bool
    is_running: str
    check_command: str


NODE = PeerRules(
    word="remote",
    what="node",
    config_path="remotes/remotes.yaml",
    section="remotes",
    settings_hint="fix it in .ai/config/remotes/remotes.yaml",
    default_timeout_s=300.0,
    insecure_hint="use https; or sign requests, without key_env; or, where no one listens,"
    " set allow_insecure: true for it in your user space",
    pins_folder="node/pins",
    pin_category="remotes/pins",
    names_share=False,
    second_key="box_key",
    holds_second=True,
    needs_pin_file=False,
    key_word="node fp:",
    doubt="an attacker may be between you and the node",
    repin="rye remote forget {name}",
    refused_code="REMOTE_REFUSED",
    refuses_by_redirect=True,
    is_running="rye doctor",
    check_command="rye remote list",
)
REGISTRY = PeerRules(
    word="registry",
    what="registry",
    config_path="registry/registry.yaml",
    section="registry",
    settings_hint="fix it in .ai/config/registry/registry.yaml of user space",
    default_timeout_s=60.0,
    insecure_hint="use https; or, on a trusted network: rye registry login --allow-insecure",
    pins_folder="node/registry-pins",
    pin_category="registry/pins",
    names_share=True,
    second_key="identity",
    holds_second=False,
    needs_pin_file=True,
    key_word="key ",
    doubt="an attacker may stand between you and the registry",
    repin="rye registry forget {name}, then: rye registry pin {found}",
    refused_code="REGISTRY_REFUSED",
    refuses_by_redirect=False,
    is_running="rye registry status",
    check_command="rye registry status",
)
PEERS = (NODE, REGISTRY)
