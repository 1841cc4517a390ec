"""``rye agent models``: the models that threads can use, what they cost, and whose key is there."""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from ryeos.agent.prices import Price, dollars
from ryeos.agent.providers import Provider, Providers
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.session import Session
from ryeos.items.errors import UsageError
from ryeos.run.credentials import Credentials

_MTOK = 1_000_000
_PARTS = 1_000_000  # of a nano-dollar, as `ryeos.agent.prices` keeps rates
_NAME_WIDTH = 44


def _configure_models(parser: Arguments) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="a provider, a tier, or PROVIDER/MODEL")
    add("--all", action="store_true", help="every model, not only those that can be used now")


def _models(session: Session) -> int:
    providers = Providers(session.rye.config, session.context.spaces)
    credentials = Credentials(session.rye.config, session.context, _process_manager)
    rows = list(_rows(session.arguments.name, providers, credentials))
    shown = rows if _shows_all(session) else [row for row in rows if row["usable"]]
    settings = providers.settings()
    records = session.thread_records
    left = records.ledger(daily=settings.daily, warn=session.output.warn).left()
    envelope = {
        "status": "success",
        "models": shown,
        "tiers": {name: list(models) for name, models in settings.tiers.items()},
        "daily": {"limit": dollars(settings.daily), "left": dollars(left)},
        "notes": list(providers.notes),
    }
    session.output.answer(envelope, "\n".join(_lines(shown, rows)))
    if not session.output.as_json:
        _say(session, rows, envelope)
    return 0


def _process_manager() -> Any:  # noqa: ANN401 - imported when a command is run
    from lillux.process import ProcessManager

    return ProcessManager()


def _shows_all(session: Session) -> bool:
    return bool(session.arguments.all or session.arguments.name)


def _say(session: Session, rows: list[dict[str, Any]], envelope: Mapping[str, Any]) -> None:
    """What belongs to the list, and is none of its lines."""
    for note in envelope["notes"]:
        session.output.warn(note)
    hidden = 0 if _shows_all(session) else sum(not row["usable"] for row in rows)
    if hidden:
        session.output.note(
            f"{hidden} more have no key, or cannot be used: rye agent models --all;"
            " store one: rye agent set-up"
        )
    daily = envelope["daily"]
    session.output.note(f"today {daily['left']} of {daily['limit']} dollars are left for threads")


# --- rows -----------------------------------------------------------------------------------------


def _rows(
    name: str | None, providers: Providers, credentials: Credentials
) -> Iterator[dict[str, Any]]:
    """A row for each model that is asked for. Raises UsageError for a name that is none."""
    names = providers.names()
    tiers = providers.settings().tiers
    if name is None or name in names:
        for one in [name] if name else names:
            yield from _rows_of(one, providers, credentials)
        return
    if name not in tiers and "/" not in name:
        raise UsageError(
            f"NAME: {name[:80]!a} is no provider ({', '.join(names)}) and no tier"
            f" ({', '.join(tiers)})"
        )
    for one in providers.models(name):
        provider_name, _, model_id = one.partition("/")
        yield _row(providers.get(provider_name), model_id, credentials)


def _rows_of(name: str, providers: Providers, credentials: Credentials) -> Iterator[dict[str, Any]]:
    try:
        provider = providers.get(name)
    except LilluxError as error:  # one broken file hides no other provider
        yield {"name": name, "usable": False, "problem": str(error), "hint": error.hint}
        return
    for model_id in provider.model_ids() or ("*",):
        yield _row(provider, model_id, credentials)


def _row(provider: Provider, model_id: str, credentials: Credentials) -> dict[str, Any]:
    """All that is known of a model, whether it can be used or not."""
    row: dict[str, Any] = {"name": f"{provider.name}/{model_id}", "base_url": provider.base_url}
    try:
        model = provider.model(model_id)
        row |= {
            "context": model.context or None,
            "max_output": model.max_output or None,
            "features": sorted(model.features),
            "prices": model.price.described(),
            "shown_price": _shown(model.price),
        }
        credential = provider.key(credentials)
        row["credential"] = credential.name if credential else None
        row["place"] = credential.place if credential else None
        row["usable"] = credential is None or credentials.has_value(credential)
    except LilluxError as error:
        return {**row, "usable": False, "problem": str(error), "hint": error.hint}
    return row


def _shown(price: Price) -> str:
    """Dollars for a million tokens of input and output, of the dearest tier as well."""
    if price.is_free:
        return "free"
    tiers = [price.rates, *(rates for _, rates in price.above)]
    pairs = [f"{_per_million(one.input)} in, {_per_million(one.output)} out" for one in tiers]
    above = [
        f" above {tokens}: {pair}" for (tokens, _), pair in zip(price.above, pairs[1:], strict=True)
    ]
    return ";".join((pairs[0], *above))


def _per_million(parts: int) -> str:
    return dollars(parts * _MTOK // _PARTS)


# --- lines ----------------------------------------------------------------------------------------


def _lines(shown: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    if shown:
        yield "dollars for a million tokens"
    yield from map(_line, shown)
    if rows and not shown:
        yield "no model can be used yet: set one of these, or start a server on this machine"
        yield from sorted({f"  {row['place']}" for row in rows if row.get("place")})
        yield "or store a key: rye agent set-up"


def _line(row: Mapping[str, Any]) -> str:
    name = f"{one_line(row['name'], _NAME_WIDTH):<{_NAME_WIDTH}}"
    if "problem" in row:
        return f"{name}  not used: {one_line(row['problem'], 200)}"
    if not row["place"]:
        return f"{name}  {row['shown_price']}"
    missing = "" if row["usable"] else " is not there"
    return f"{name}  {row['shown_price']}  ({one_line(row['place'], 120)}{missing})"


MODELS = CommandSpec(
    _configure_models,
    _models,
    [
        "rye agent models",
        "rye agent models anthropic",
        "rye agent models general --json",
    ],
)
