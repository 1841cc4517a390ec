"""``rye agent set-up``: store the key of a provider of models, and try it with one call.

(1) the provider, the model, where the key comes from   (2) all that will be written and sent is
shown   (3) a person agrees, and gives the key   (4) one call   (5) only then it is written
"""

import shlex
import sys
from pathlib import Path
from typing import Any

from lillux.errors import as_word
from lillux.foreign_text import one_line
from lillux.http.client import HttpClient
from lillux.values import dataclass
from ryeos import __version__
from ryeos.agent.ledger import Ledger
from ryeos.agent.prices import dollars
from ryeos.agent.providers import Model, Provider, Providers
from ryeos.app.agent_setup import (
    Plan,
    Trial,
    Tried,
    cheap_model,
    is_local,
    listed_models,
    model_of_server,
    planned,
    store,
)
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.review import is_agents
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.errors import ApprovalRequiredError, RyeError, UsageError
from ryeos.run.credentials import Credential, Credentials

MAX_KEY_BYTES = 16 * 1024
_SOURCES = "--key-stdin, --variable NAME or --command WORDS"


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("--provider", metavar="NAME", help="a provider (asked for at a terminal)")
    add("--model", metavar="ID", help="the model that is tried (the cheapest one)")
    add("--key-stdin", action="store_true", help="the key comes from standard input")
    add("--variable", metavar="NAME", help="store no key: it is in this variable")
    add("--command", metavar="WORDS", help="store no key: this command prints it")
    add("--new-key", action="store_true", help="ask for a key although there is one")
    add("--yes", action="store_true", help="write, sign and call without asking")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What is set up. ``plan`` is None where nothing is written: a key is there, or none needed."""

    provider: Provider
    model: Model
    known: Credential | None
    plan: Plan | None
    models: tuple[str, ...] = ()


def _set_up(session: Session) -> int:
    _require_one_source(session)
    if is_agents(session):
        raise ApprovalRequiredError("store the key of a provider")
    rye, context = session.rye, session.context
    providers = Providers(rye.config, context.spaces)
    credentials = Credentials(rye.config, context, _process_manager)
    client = HttpClient(context.own_environment, user_agent=f"rye/{__version__}")
    wish = _wish(session, providers, credentials, client)  # (1)
    signer = rye.signing_key() if wish.plan else None
    settings = providers.settings()
    records = session.thread_records
    ledger = records.ledger(daily=settings.daily, warn=session.output.warn)
    trial = Trial(client, wish.provider, wish.model, ledger, settings)
    key = ""
    if wish.plan or trial.worst.spend:
        _require_agreed(session, wish, _shown(wish, trial, ledger))  # (2)
    if wish.provider.credential:
        key = _key(session, credentials, wish)  # (3)
    try:
        tried = trial.run(lambda: key, cancelled_by_signals())  # (4)
    except RyeError as error:
        if error.code == "CREDENTIAL_REFUSED":
            error.hint = _after_wrong_key(session, wish)
        raise
    if wish.plan and signer:
        store(wish.plan, key, signer)  # (5)
    _show(session, wish, tried, ledger)
    return 0


def _require_agreed(session: Session, wish: _Wish, shown: list[str]) -> None:
    """Show it all, and have a person agree. Raises ApprovalRequiredError."""
    question = _question(wish)
    if session.confirm(question, shown, _line(session, wish)):
        return
    raise ApprovalRequiredError(question, hint="nothing was written, nothing was sent")


# --- (1) what is set up ---------------------------------------------------------------------------


def _require_one_source(session: Session) -> None:
    said = session.arguments
    if sum(map(bool, (said.key_stdin, said.variable, said.command))) > 1:
        raise UsageError(f"expected one of {_SOURCES}")


def _wish(
    session: Session, providers: Providers, credentials: Credentials, client: HttpClient
) -> _Wish:
    said = session.arguments
    provider = providers.get(said.provider or _asked_provider(session, providers))
    wanted = str(said.model or "").removeprefix(f"{provider.name}/")
    if not provider.credential:
        if said.key_stdin or said.variable or said.command or said.new_key:
            raise UsageError(
                f"provider {provider.name}: it takes no key",
                hint=f"rye agent set-up --provider {as_word(provider.name)}",
            )
        if not is_local(provider):
            model = provider.model(wanted) if wanted else cheap_model(provider, providers)
            return _Wish(provider=provider, model=model, known=None, plan=None)
        models = listed_models(client, provider)
        model = model_of_server(provider, models, wanted)
        return _Wish(provider=provider, model=model, known=None, plan=None, models=models)
    model = provider.model(wanted) if wanted else cheap_model(provider, providers)
    known = _known(provider, credentials)
    source = _source(session)
    is_there = known is not None and credentials.has_value(known)
    if is_there and known and not (source or said.key_stdin or said.new_key):
        provider.key(credentials)  # its address must be among the hosts
        return _Wish(provider=provider, model=model, known=known, plan=None)
    _require_key_source(session, provider, source)
    plan = planned(session.context.spaces.user, provider, known, source)
    return _Wish(provider=provider, model=model, known=known, plan=plan)


def _known(provider: Provider, credentials: Credentials) -> Credential | None:
    """The credential that counts now; None where there is none yet."""
    if provider.credential not in credentials.names():
        return None
    return credentials.get(provider.credential)


def _source(session: Session) -> dict[str, Any] | None:
    """Where the key stays, unless it is stored. Raises UsageError."""
    said = session.arguments
    if said.variable:
        if not said.variable.isascii() or not said.variable.isidentifier():
            raise UsageError(f"--variable: expected the name of one, found {said.variable!r:.80}")
        return {"variable": said.variable}
    if not said.command:
        return None
    try:
        words = shlex.split(said.command)
    except ValueError as error:
        raise UsageError(f"--command: {error}") from None
    if not words:
        raise UsageError("--command: expected a program and its words, found none")
    return {"command": words}


def _require_key_source(
    session: Session, provider: Provider, source: dict[str, Any] | None
) -> None:
    if source or session.arguments.key_stdin or session.can_ask:
        return
    raise UsageError(
        f"provider {provider.name}: expected a terminal to type the key at, or {_SOURCES}",
        hint=f"rye agent set-up --provider {as_word(provider.name)} --key-stdin --yes < FILE",
    )


def _asked_provider(session: Session, providers: Providers) -> str:
    names = providers.names()
    if not session.can_ask:
        raise UsageError(
            f"--provider: expected one of {', '.join(names)}",
            hint="rye agent set-up --provider anthropic --key-stdin --yes < FILE",
        )
    from ryeos.cli.asking import say, typed_line

    say([f"{number:>2}  {one_line(name)}" for number, name in enumerate(names, 1)])
    typed = typed_line("provider, by number or name: ") or ""
    if typed.isdecimal() and 1 <= int(typed) <= len(names):
        return names[int(typed) - 1]
    return typed or _nothing_typed()


def _nothing_typed() -> str:
    raise UsageError("expected a provider, nothing was typed")


# --- (2) what is shown ----------------------------------------------------------------------------


def _question(wish: _Wish) -> str:
    what = "write and sign this, and call" if wish.plan else "call"
    return f"{what} {wish.model.name}"


def _shown(wish: _Wish, trial: Trial, ledger: Ledger) -> list[str]:
    lines = wish.plan.lines() if wish.plan else []
    if not wish.plan and wish.known:
        lines.append(f"a key is there: {wish.known.place} (another: --new-key)")
    worst = trial.worst
    lines.append(
        f"one call of {wish.model.name} at {wish.provider.base_url}: at most"
        f" {worst.output_tokens} tokens of answer and {dollars(worst.spend)} dollars, of"
        f" {dollars(ledger.left())} that are left today"
    )
    return lines


def _line(session: Session, wish: _Wish) -> str:
    """The line that agrees to what was shown."""
    said = session.arguments
    words = ["rye", "agent", "set-up", "--provider", wish.provider.name]
    words += ["--model", said.model] if said.model else []
    words += ["--key-stdin"] if said.key_stdin else []
    words += ["--variable", said.variable] if said.variable else []
    words += ["--command", said.command] if said.command else []
    line = " ".join(map(as_word, [*words, "--yes"]))
    return f"{line} < FILE" if said.key_stdin else line


# --- (3) the key ----------------------------------------------------------------------------------


def _key(session: Session, credentials: Credentials, wish: _Wish) -> str:
    """The key: typed, from standard input, or from where it stays. Never shown."""
    if wish.plan is None and wish.known:
        return credentials.value(wish.known).reveal()
    if wish.plan and wish.plan.key_file is None:
        return credentials.value(_unwritten(session, wish)).reveal()
    if session.arguments.key_stdin:
        data = sys.stdin.buffer.read(MAX_KEY_BYTES + 1)
        return _valid_key(data.decode("utf-8", "replace"), len(data))
    from getpass import getpass

    text = getpass(f"key of {wish.provider.name} (not shown): ", stream=sys.stderr)
    return _valid_key(text, len(text))


def _unwritten(session: Session, wish: _Wish) -> Credential:
    """The credential as it will be written, to read its value."""
    path = wish.plan.path if wish.plan else Path()
    kind, said = next(iter((_source(session) or {}).items()))
    put = wish.known.put if wish.known else ("header", "Authorization", "Bearer {}")
    return Credential(
        name=wish.provider.credential,
        path=path,
        hosts=(),
        put=put,
        source=(kind, tuple(said) if isinstance(said, list) else said),
    )


def _valid_key(text: str, size: int) -> str:
    key = text.strip()
    if not key or size > MAX_KEY_BYTES or not (key.isascii() and key.isprintable()):
        raise RyeError(
            "key: expected one line of visible ASCII characters, found"
            f" {'none' if not key else 'something else'}",
            code="CREDENTIAL_NOT_FOUND",
            hint="copy the key once more, all of it; nothing was written",
        )
    return key


def _after_wrong_key(session: Session, wish: _Wish) -> str:
    """What to do about a key that the provider refused: it depends on where the key came from."""
    again = f"rye agent set-up --provider {as_word(wish.provider.name)}"
    if wish.plan is None:
        place = f" ({wish.known.place})" if wish.known else ""
        return f"it is the key that is there{place}; give another: {again} --new-key"
    if wish.plan.key_file is None:
        place = _unwritten(session, wish).place
        return f"nothing was written; the key came from the {place}: put the right one there"
    kept = ", the key before it stays" if wish.plan.before is not None else ""
    return f"nothing was written{kept}; copy the key once more, all of it, then: {again}"


# --- what came of it ------------------------------------------------------------------------------


def _show(session: Session, wish: _Wish, tried: Tried, ledger: Ledger) -> None:
    left = dollars(ledger.left())
    plan = wish.plan
    written = [str(one) for one in (plan.path, plan.key_file) if one] if plan else []
    envelope = {
        "status": "success",
        "provider": wish.provider.name,
        "model": wish.model.name,
        "models": list(wish.models),
        "credential": wish.provider.credential or None,
        "written": written,
        "call": {
            "input_tokens": tried.input_tokens,
            "output_tokens": tried.output_tokens,
            "spend": dollars(tried.spend),
        },
        "daily_left": left,
    }
    lines = [f"wrote {one}" for one in written]
    if wish.models:
        lines.append(f"the server has {len(wish.models)} models: {', '.join(wish.models[:20])}")
    lines.append(
        f"{wish.model.name} answered: {tried.input_tokens} tokens in, {tried.output_tokens} out,"
        f" {dollars(tried.spend)} dollars"
    )
    session.output.answer(envelope, "\n".join(map(one_line, lines)))
    session.output.note(f"today {left} dollars are left for threads")


def _process_manager() -> Any:  # noqa: ANN401 - imported when a command is run
    from lillux.process import ProcessManager

    return ProcessManager()


SET_UP = CommandSpec(
    _configure,
    _set_up,
    [
        "rye agent set-up",
        "rye agent set-up --provider ollama",
        "rye agent set-up --provider anthropic --key-stdin --yes < key.txt",
        "rye agent set-up --provider openai --variable OPENAI_API_KEY --yes",
        'rye agent set-up --provider lab --command "op read op://lab/key" --yes',
    ],
)
