"""The list of prices that is shipped is what the script makes of the data of genai-prices."""

import importlib.util
from collections.abc import Callable
from datetime import date
from types import ModuleType

import pytest

from ryeos.items.yaml import parse_yaml
from tests.support.workspace import BUNDLE_SOURCE, ROOT

ITEM = """\
version: "1.0.0"
category: agent/prices
# From genai-prices 9.9.9 (MIT, Pydantic Services Inc.): scripts/convert_prices.py.
# Nano-dollars for a token: 3000 is 3 dollars for a million. Your own copy counts first.
date: "2026-11-28"
source: "genai-prices 9.9.9"
models:
  "claude-a": {context: 200000, input: 3000, output: 15000, cache_read: "37.5"}
  "claude-b": {input: 3000, output: 15000, above: [{tokens: 200000, input: 6000, output: 22500}]}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "convert_prices.py"
    spec = importlib.util.spec_from_file_location("convert_prices", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def convert(script: ModuleType) -> Callable[..., dict[str, str]]:
    def converted(*models: str, provider: str = "anthropic") -> dict[str, str]:
        text = (
            "from .types import *\nproviders: list[Provider] = [Provider("
            f"id={provider!r}, name='x', models=[{', '.join(models)}])]\n"
        )
        items: dict[str, str] = script.convert(text, on="2026-11-28", version="9.9.9")
        return items

    return converted


def model(name: str, prices: str, more: str = "") -> str:
    return f"ModelInfo(id={name!r}, match=ClauseEquals(equals='x'), prices={prices}{more})"


def flat(given: str, answered: str) -> str:
    return f"ModelPrice(input_mtok=Decimal({given!r}), output_mtok=Decimal({answered!r}))"


def one(convert: Callable[..., dict[str, str]], prices: str) -> dict[str, object]:
    text = convert(model("claude-x", prices))["anthropic"]
    said: dict[str, object] = parse_yaml(text, "test")["models"]["claude-x"]
    return said


def test_a_small_sample_gives_this_item(convert: Callable[..., dict[str, str]]) -> None:
    tiered = (
        "ModelPrice("
        "input_mtok=TieredPrices(base=Decimal('3'),"
        " tiers=[Tier(start=200000, price=Decimal('6'))]),"
        "output_mtok=TieredPrices(base=Decimal('15'),"
        " tiers=[Tier(start=200000, price=Decimal('22.5'))]))"
    )
    cached = (
        "ModelPrice(input_mtok=Decimal('3'), output_mtok=Decimal('15'),"
        " cache_read_mtok=Decimal('0.0375'))"
    )

    items = convert(model("claude-b", tiered), model("claude-a", cached, ", context_window=200000"))

    assert items == {"anthropic": ITEM}


def test_the_price_of_the_day_counts_and_a_dearer_one_that_is_known_to_come(
    convert: Callable[..., dict[str, str]],
) -> None:
    def dated(*starts: tuple[str, str]) -> str:
        return "".join(
            f"ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date({start})),"
            f" prices={flat(given, '10')}), "
            for start, given in starts
        )

    first = f"ConditionalPrice(prices={flat('9', '10')}), "
    past = f"[{first}{dated(('2026, 1, 1', '5'), ('2026, 6, 1', '2'))}]"
    future = f"[{first}{dated(('2026, 6, 1', '2'), ('2026, 12, 1', '4'))}]"
    cheaper = f"[{first}{dated(('2026, 6, 1', '2'), ('2026, 12, 1', '1'))}]"

    assert one(convert, past)["input"] == 2000
    assert one(convert, future)["input"] == 4000
    assert one(convert, cheaper)["input"] == 2000


def test_the_dearest_hour_of_a_day_counts(convert: Callable[..., dict[str, str]]) -> None:
    prices = (
        f"[ConditionalPrice(prices={flat('1', '2')}), ConditionalPrice("
        "constraint=TimeOfDateConstraint(start_time=datetime.time(0, 30,"
        " tzinfo=datetime.UTC), end_time=datetime.time(16, 30,"
        f" tzinfo=datetime.UTC)), prices={flat('3', '1')})]"
    )

    assert one(convert, prices) == {"input": 3000, "output": 2000}


def test_a_rate_without_end_is_rounded_up(convert: Callable[..., dict[str, str]]) -> None:
    assert one(convert, flat("0.08333333333333334", "1"))["input"] == "83.333334"


@pytest.mark.parametrize(
    "said",
    [
        model("claude-x", "ModelPrice(input_mtok=Decimal('1'))"),
        model("claude-x", flat("-1", "1")),
        model(
            "claude-x",
            "ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('1'),"
            " requests_kcount=Decimal('5'))",
        ),
        model("claude-x", flat("1", "1"), ", deprecated=True"),
        model("claude-x-tts", flat("1", "1")),
        model("claude-x", flat("1", "1"), ", context_window=4096"),
        model('x": {free: true}\n  "y', flat("1", "1")),
    ],
)
def test_what_cannot_be_priced_or_used_is_left_out(
    convert: Callable[..., dict[str, str]], said: str
) -> None:
    assert parse_yaml(convert(said)["anthropic"], "test")["models"] is None


@pytest.mark.parametrize(
    "code", ["open('x', 'w').write('y')", "lambda: 1", "f'{1}'", "evil", "evil.name", "1 + 1"]
)
def test_the_data_is_read_and_never_executed(script: ModuleType, code: str) -> None:
    text = f"providers: list = [Provider(id='anthropic', models=[], name={code})]\n"

    with pytest.raises(ValueError, match="expected a call or a literal"):
        script.convert(text, on="2026-11-28", version="1")


def test_the_shipped_lists_name_the_pinned_version(script: ModuleType) -> None:
    for name in ("anthropic", "gemini", "openai", "openrouter"):
        path = BUNDLE_SOURCE / "config" / "agent" / "prices" / f"{name}.yaml"
        said = parse_yaml(path.read_text("utf-8"), name)
        assert said["source"] == f"genai-prices {script.VERSION}"
        assert date.fromisoformat(said["date"]) == date.fromisoformat(script.DATE)
        assert len(said["models"]) > 10
