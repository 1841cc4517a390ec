"""Write bundle.ai/config/agent/prices/*.yaml from the data of the package genai-prices (MIT).

    build/venv/bin/python scripts/convert_prices.py            fetches the version pinned below
    build/venv/bin/python scripts/convert_prices.py --data FILE --date 2026-11-28 --version 0.2.3

The data is a Python file of calls with literals. It is read as syntax, never executed. Of each
model the dearest price is kept that is in force on the date or known to come: a reservation by it
covers whatever counts at the time of a call.
"""

import argparse
import ast
import contextlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

VERSION = "0.2.3"
DATE = "2026-11-28"
SHA256 = "56976ce2b04ec206117f7d0e53f4849211a6724ab3a12119afec304eba63ee25"
_OUT = Path(__file__).parents[1] / "bundle.ai" / "config" / "agent" / "prices"
# Name of the provider in the data -> the name of ours.
PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
ROUTER = "openrouter"
_NAME = "providers"  # of the list in the data
_ALL = {**PROVIDERS, ROUTER: ROUTER}
# Of a router, the vendors whose models most people ask for by name, and rooms that a thread needs.
_VENDORS = frozenset({"anthropic", "deepseek", "google", "meta-llama", "mistralai", "moonshotai"})
_VENDORS |= frozenset({"openai", "qwen", "x-ai", "z-ai"})
_LEAST_CONTEXT = 32_000
_LEAST_OF_ROUTER = 128_000
_OF_VENDOR = {"gemini": "gemini-"}  # what else the data lists there is served at another address
_NO_CHAT = re.compile(
    r"tts|image|audio|vision|transcribe|realtime|live|search|research|embed|robotics|instruct-"
    r"|moderation|:(?:batch|extended|thinking|online|nitro|floor)$|~|^ft:"
    r"|^(?:ada|babbage|curie|davinci|text|code)(?:-|$)|-ft-$"
)
# Ours -> the rates of the data, in dollars for a million tokens; the dearest of several counts.
_RATES = {
    "input": ("input_mtok",),
    "output": ("output_mtok", "output_reasoning_mtok"),
    "cache_read": ("cache_read_mtok",),
    "cache_write": ("cache_write_mtok",),
    "cache_write_1h": ("cache_write_1h_mtok",),
}
# A price that is not only by tokens of text: a reservation could not cover it.
_OTHER = ("requests_kcount", "input_mchars", "output_citation_mtok", "input_text_messages_kcount")
_OTHER_OUTPUT = ("output_image_mtok", "output_audio_mtok", "output_video_mtok", "audio_hours")
_LAST_PLACE = Decimal("0.000001")  # of nano-dollars, as `ryeos.agent.prices` reads them
_NANO_PER_MTOK = 1000  # a dollar for a million tokens is 1000 nano-dollars for one


class _Skip(Exception):  # noqa: N818 - no failure: the model is left out
    """A model that Rye cannot price."""


@dataclass(frozen=True)
class Made:
    """A call in the data: its name, and its keyword arguments."""

    name: str
    values: Mapping[str, Any]

    def get(self, key: str) -> Any:  # noqa: ANN401 - a literal of the data
        """An argument, or None."""
        return self.values.get(key)


def read_data(text: str) -> list[Made]:
    """The providers of the data file. Raises ValueError for anything but calls with literals."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == _NAME:
            return list(_value(node.value))
    raise ValueError(f"expected a list named {_NAME}")


def _value(node: ast.expr) -> Any:  # noqa: ANN401 - a literal of the data
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(one) for one in elements]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {_value(key): _value(value) for key, value in pairs if key is not None}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Attribute(value=ast.Name(id="datetime")):  # a time zone: its name is enough
            return ast.unparse(node)
        case ast.Call(
            func=(ast.Name() | ast.Attribute(value=ast.Name())) as func,
            args=args,
            keywords=keywords,
        ):
            return _made(ast.unparse(func), [_value(one) for one in args], keywords)
    raise ValueError(f"line {node.lineno}: expected a call or a literal")


def _made(name: str, args: Sequence[Any], keywords: Sequence[ast.keyword]) -> Any:  # noqa: ANN401 - a value of the data
    if name == "Decimal":
        return Decimal(args[0])
    if name == "datetime.date":
        return date(*args)
    return Made(name, {str(one.arg): _value(one.value) for one in keywords})


# --- one model ------------------------------------------------------------------------------------


def converted(model: Made, on: date) -> dict[str, Any]:
    """What the item says of a model. Raises _Skip for one that is not priced by tokens of text."""
    prices = [_rates(one) for one in _in_force(model.get("prices"), on)]
    starts = sorted({start for one in prices for start in one if start})
    said: dict[str, Any] = {}
    if isinstance(model.get("context_window"), int):
        said["context"] = model.get("context_window")
    base = _dearest(prices, 0)
    said |= base
    above, before = [], base
    for start in starts:
        rates = _dearest(prices, start)
        if rates != before:
            above.append({"tokens": start, **rates})
        before = rates
    return {**said, **({"above": above} if above else {})}


def _in_force(prices: Any, on: date) -> Iterator[Made]:  # noqa: ANN401 - of the data
    """The prices of this day, those of some hours of it, and those that are known to come."""
    if isinstance(prices, Made):
        yield prices
        return
    undated = [one.get("prices") for one in prices if one.get("constraint") is None]
    dated = [one for one in prices if _start(one)]
    begun = [one for one in dated if _start(one) <= on]
    yield from ([begun[-1].get("prices")] if begun else undated[-1:])
    yield from (one.get("prices") for one in dated if _start(one) > on)
    yield from (one.get("prices") for one in prices if one.get("constraint") and not _start(one))


def _start(conditional: Made) -> Any:  # noqa: ANN401 - a date, or None
    constraint = conditional.get("constraint")
    return constraint.get("start_date") if constraint else None


def _rates(price: Made) -> dict[int, dict[str, Decimal]]:
    """The rates by the number of tokens from which they count, 0 first."""
    if any(price.get(key) is not None for key in (*_OTHER, *_OTHER_OUTPUT)):
        raise _Skip
    by_start: dict[int, dict[str, Decimal]] = {0: {}}
    for ours, keys in _RATES.items():
        for key in keys:
            for start, rate in _steps(price.get(key)):
                known = by_start.setdefault(start, {})
                known[ours] = max(known.get(ours, rate), rate)
    if not {"input", "output"} <= by_start[0].keys():
        raise _Skip
    return by_start


def _steps(rate: Any) -> Iterator[tuple[int, Decimal]]:  # noqa: ANN401 - of the data
    if isinstance(rate, Decimal):
        yield 0, rate
    elif isinstance(rate, Made):
        yield 0, rate.get("base")
        yield from ((tier.get("start"), tier.get("price")) for tier in rate.get("tiers"))


def _dearest(prices: Sequence[dict[int, dict[str, Decimal]]], start: int) -> dict[str, int | str]:
    """The highest of each rate that counts from so many tokens on, in nano-dollars for a token."""
    found: dict[str, Decimal] = {}
    for by_start in prices:
        merged: dict[str, Decimal] = {}
        for begin in sorted(by_start):
            if begin <= start:
                merged |= by_start[begin]
        for name, rate in merged.items():
            found[name] = max(found.get(name, rate), rate)
    return {name: _nano(found[name]) for name in _RATES if name in found}


def _nano(rate: Decimal) -> int | str:
    """Nano-dollars for a token; of a rate without end the next one above is kept."""
    if rate < 0:
        raise _Skip
    nano = (rate * _NANO_PER_MTOK).quantize(_LAST_PLACE, ROUND_CEILING).normalize()
    return int(nano) if nano == nano.to_integral_value() else f"{nano:f}"


# --- the item -------------------------------------------------------------------------------------


def convert(text: str, *, on: str, version: str) -> dict[str, str]:
    """The configuration items for the data file of a version, by our names of the providers."""
    day = date.fromisoformat(on)
    items: dict[str, str] = {}
    for provider in read_data(text):
        ours = _ALL.get(provider.get("id"))
        if ours:
            models = {}
            for model in provider.get("models"):
                with contextlib.suppress(_Skip):
                    models[_wanted_id(model, ours)] = converted(model, day)
            items[ours] = _written(models, on, version)
    return items


def _wanted_id(model: Made, ours: str) -> str:
    """The model's id. Raises _Skip for one that no thread would use."""
    model_id, context = str(model.get("id")), model.get("context_window")
    is_id = re.fullmatch(r"[A-Za-z0-9._:/-]{1,120}", model_id)
    if model.get("deprecated") or not is_id or _NO_CHAT.search(model_id):
        raise _Skip
    if context is not None and context < _LEAST_CONTEXT:
        raise _Skip
    if not model_id.startswith(_OF_VENDOR.get(ours, "")):
        raise _Skip
    is_known = model_id.partition("/")[0] in _VENDORS and (context or 0) >= _LEAST_OF_ROUTER
    if ours == ROUTER and not is_known:
        raise _Skip
    return model_id


def _written(models: Mapping[str, Mapping[str, Any]], on: str, version: str) -> str:
    lines = [
        'version: "1.0.0"',
        "category: agent/prices",
        f"# From genai-prices {version} (MIT, Pydantic Services Inc.): scripts/convert_prices.py.",
        "# Nano-dollars for a token: 3000 is 3 dollars for a million. Your own copy counts first.",
        f'date: "{on}"',
        f'source: "genai-prices {version}"',
        "models:",
        *(f'  "{model}": {_flow(said)}' for model, said in sorted(models.items())),
    ]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:  # noqa: ANN401 - JSON
    match value:
        case dict():
            return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case str():
            return f'"{value}"'
    return str(value)


def fetched() -> str:
    """The data file of the pinned version, by its hash."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"genai-prices=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"),
                *("download", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
                *("--dest", folder, "-r", str(wanted)),
            ],
            check=True,
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return wheel.read("genai_prices/data.py").decode()


def main() -> None:
    """Write the items."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="genai_prices/data.py (fetched)")
    parser.add_argument("--date", default=DATE, help=f"the day of the prices ({DATE})")
    parser.add_argument("--version", default=VERSION, help=f"that of the data ({VERSION})")
    parser.add_argument("--out", type=Path, default=_OUT, help="the folder of the items")
    given = parser.parse_args()
    text = given.data.read_text(encoding="utf-8") if given.data else fetched()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, item in convert(text, on=given.date, version=given.version).items():
        (given.out / f"{name}.yaml").write_text(item, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
