"""Setting a provider up: which model is tried, what is stored where, one call of a few tokens.

(1) the provider, and where its key is to come from   (2) a model with a price, the cheapest that is
known   (3) one call: reserved in a purse and in the ledger of the day, sent, settled   (4) only
then the key and its signed credential are written, both or neither
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.files import make_directory, remove_file, write_atomic
from lillux.http.client import HttpClient
from lillux.http.errors import HttpClientError
from lillux.http.model import HttpRequest
from lillux.http.urls import is_loopback, parse_address
from lillux.values import dataclass
from ryeos.agent.dialects import load
from ryeos.agent.exchange import Exchange, Unanswered, endpoint_of
from ryeos.agent.ledger import Ledger
from ryeos.agent.messages import Question, Request
from ryeos.agent.providers import Model, Provider, Providers, Settings
from ryeos.agent.purse import Purse, Worst
from ryeos.agent.worst_case import NextCall, worst_case
from ryeos.app.thread_models import provider_rules
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, CREDENTIALS_FOLDER, Kind, Space
from ryeos.run.credentials import FOLDER, Credential, host_of

if TYPE_CHECKING:
    from ryeos.trust.signing_key import SigningKey

TRIAL_OUTPUT = 64
"""Tokens that the answer may have: some models think before they say one word."""
MAX_LIST_BYTES = 4 * 1024 * 1024
_TRIAL_S = 60.0
_LIST_S = 10.0
_TIER = "fast"
_OK = 200
_NO_REDIRECTS = 0
_SYSTEM = "Answer with one word."
_QUESTION = "Say: ready"


def cheap_model(provider: Provider, providers: Providers) -> Model:
    """The model that is tried: that of the tier ``fast``, else the cheapest with a price.

    Raises RyeError `MODEL_NOT_FOUND`.
    """
    for name in providers.settings().tiers.get(_TIER, ()):
        owner, _, model_id = name.partition("/")
        if owner == provider.name:
            with suppress(LilluxError):
                return provider.model(model_id)
    found = []
    for model_id in provider.model_ids():
        with suppress(LilluxError):
            found.append(provider.model(model_id))
    if not found:
        raise RyeError(
            f"provider {provider.name}: none of its models has a name and a price",
            code="MODEL_NOT_FOUND",
            hint=f"name one: rye agent set-up --provider {provider.name} --model ID",
        )
    return min(found, key=lambda one: (one.price.dearest(1000, TRIAL_OUTPUT), one.id))


def is_local(provider: Provider) -> bool:
    """True if it is a server of this machine that needs no key."""
    return not provider.credential and is_loopback(parse_address(provider.base_url).host)


def listed_models(client: HttpClient, provider: Provider) -> tuple[str, ...]:
    """The models that a server without a key has now. Raises RyeError `PROVIDER_UNAVAILABLE`."""
    address = f"{provider.base_url}/models"
    request = HttpRequest(
        url=address,
        headers=provider.headers,
        timeout_s=_LIST_S,
        max_redirects=_NO_REDIRECTS,
        max_response_bytes=MAX_LIST_BYTES,
    )
    try:
        response = client.send(request)
        said = json.loads(response.body) if response.status == _OK else None
    except HttpClientError as error:
        raise RyeError(
            f"provider {provider.name}: no answer at {address}: {error}",
            code="PROVIDER_UNAVAILABLE",
            hint="start the server, then try again",
        ) from error
    except (ValueError, RecursionError):
        said = None
    rows = said.get("data") if isinstance(said, dict) else None
    if not isinstance(rows, list):
        raise RyeError(
            f"provider {provider.name}: {address}: expected a list of models, found status"
            f" {response.status} and no such list",
            code="PROVIDER_INVALID",
            hint="look whether base_url of the provider is right",
        )
    ids = (one.get("id") for one in rows if isinstance(one, dict))
    return tuple(sorted({one for one in ids if isinstance(one, str) and one.isprintable() and one}))


def model_of_server(provider: Provider, ids: Sequence[str], wanted: str) -> Model:
    """The model of a local server that is tried. Raises RyeError `MODEL_NOT_FOUND`."""
    if not ids or (wanted and wanted not in ids):
        from lillux.spelling import likely_meant

        meant = likely_meant(wanted, ids) if wanted else None
        found = ", ".join(ids[:20]) or "none"
        raise RyeError(
            f"provider {provider.name}: expected {wanted or 'a model'}, the server has: {found}",
            code="MODEL_NOT_FOUND",
            hint=f"did you mean {meant}?" if meant else "have the server load one, then try again",
        )
    return provider.model(wanted or ids[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The outcome of the call. ``spend`` are nano-dollars."""

    text: str
    input_tokens: int
    output_tokens: int
    spend: int


class Trial:
    """One call of a few tokens, which is planned first: ``worst`` is the most that it can use."""

    def __init__(
        self, client: HttpClient, provider: Provider, model: Model, ledger: Ledger, said: Settings
    ) -> None:
        self._client, self._ledger = client, ledger
        self.frozen = provider.frozen(model)
        self._endpoint = endpoint_of(self.frozen, provider_rules)
        output = min(TRIAL_OUTPUT, model.max_output or TRIAL_OUTPUT)
        request = Request(
            model=model.id,
            system=_SYSTEM,
            history=(Question(_QUESTION),),
            max_tokens=output,
            features=model.features - {"thinking", "cache"},
        )
        self._body = load(provider.dialect).body(request, self._endpoint.schema)
        self._purse = Purse(limits=said.defaults.lowered(said.ceilings).lowered({"turns": 1}))
        call = NextCall(new_bytes=0, request_bytes=len(self._body), max_output=output)
        self.worst: Worst = worst_case(
            self._purse,
            call,
            model.price,
            daily_left=ledger.left(),
            min_output=output,
            overhead=said.overhead,
        )

    def run(self, key: Callable[[], str], cancellation: Cancellation) -> Tried:
        """Reserve, send, settle. Raises RyeError: then nothing was answered."""
        purse, reservation = self._purse.reserve(self.worst)
        exchange = Exchange(self._client, lambda _frozen: key())
        entry = self._ledger.reserve(self.worst.spend)
        charged = 0
        try:
            found = exchange.ask(
                self._endpoint,
                self.frozen,
                self._body,
                left_s=_TRIAL_S,
                follow=lambda _piece: None,
                cancellation=cancellation,
            )
            if isinstance(found, Unanswered):
                charged = self.worst.spend if found.may_be_charged else 0
                raise found.error
            used = purse.settle(reservation, found.usage).used
            charged = used.spend
        finally:
            self._ledger.settle(entry, charged)
        return Tried(
            text=found.text,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            spend=used.spend,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The credential that is written: its file and text, and the file of the key, None for none.

    before  what is at its path now, None for nothing
    """

    name: str
    path: Path
    text: str
    before: bytes | None
    key_file: Path | None

    def lines(self) -> list[str]:
        """The text that a person sees before the question."""
        verb = "replace" if self.before is not None else "write"
        found = [f"to {verb} and sign: {self.path}"]
        found += [f"  {line}" for line in self.text.rstrip("\n").split("\n")]
        if self.key_file:
            found.append(
                f"to store the key in, mode 0600, which no agent's program reads: {self.key_file}"
            )
        return found


def planned(
    user: Space, provider: Provider, known: Credential | None, source: Mapping[str, Any] | None
) -> Plan:
    """The plan for a provider; ``source`` is ``variable`` or ``command``, None for a file.

    ``known`` is the credential that counts now: its hosts stay, that of the provider is added.
    """
    name = provider.credential
    path = user.directory(Kind.CONFIG) / FOLDER / f"{name}.yaml"
    key_file = None if source else user.ai / CREDENTIALS_FOLDER / name
    said = source or {"file": f"~/{AI_DIRECTORY}/{CREDENTIALS_FOLDER}/{name}"}
    own = host_of(parse_address(provider.base_url))
    hosts = list(dict.fromkeys([*(known.hosts if known else ()), own]))
    kind, target, form = known.put if known else _put(provider)
    put: dict[str, Any] = {kind: target, "as": form}
    before = path.read_bytes() if path.is_file() else None
    lines = [
        'version: "1.0.0"',
        f"category: {FOLDER}",
        f"description: The key of {provider.name}",
        f"hosts: {json.dumps(hosts)}",
        f"put: {json.dumps(put)}",
        f"source: {json.dumps(said)}",
    ]
    text = "".join(f"{line}\n" for line in lines)
    return Plan(name=name, path=path, text=text, before=before, key_file=key_file)


def _put(provider: Provider) -> tuple[str, str, str]:
    if provider.dialect == "anthropic-messages":
        return "header", "x-api-key", "{}"
    return "header", "Authorization", "Bearer {}"


def store(plan: Plan, key: str, signer: "SigningKey") -> None:
    """Write the key, then its credential. Where the second fails, what was there before is there.

    Raises FileSystemError.
    """
    former = None
    if plan.key_file:
        former = plan.key_file.read_bytes() if plan.key_file.is_file() else None
        make_directory(plan.key_file.parent, mode=0o700)
        write_atomic(plan.key_file, f"{key}\n".encode(), mode=0o600)
    try:
        make_directory(plan.path.parent)
        data = signer.signed_config(plan.text, plan.path).encode()
        write_atomic(plan.path, data, expected=plan.before)
    except BaseException:
        if plan.key_file and former is not None:
            write_atomic(plan.key_file, former, mode=0o600)
        elif plan.key_file:
            with suppress(FileNotFoundError):
                remove_file(plan.key_file)
        raise
