"""Providers, models and limits: signed configuration of bundle and user space, and no other."""

from pathlib import Path

import pytest

from lillux.process import ProcessManager
from ryeos.agent.prices import NANO
from ryeos.agent.providers import Providers
from ryeos.app.settings import settings_problems
from ryeos.items.errors import RyeError, UnsignedError
from ryeos.items.yaml import parse_yaml
from ryeos.run.credentials import Credentials
from tests.support.workspace import BUNDLE_SOURCE, Workspace


def about(category: str) -> str:
    return f'version: "1.0.0"\ncategory: {category}\n'


LOCAL = """\
version: "1.0.0"
category: agent/providers
dialect: openai-chat
base_url: http://127.0.0.1:9/v1
models:
  small: {free: true, context: 4096, max_output: 512, features: [tools]}
  paid: {prices: {input: 0.1, output: "0.2"}}
  unpriced: {context: 10}
"""
SHIPPED = {
    *("anthropic", "openai", "openrouter", "gemini"),
    *("ollama", "llama-cpp", "vllm", "lm-studio"),
}


def providers(workspace: Workspace) -> Providers:
    rye = workspace.rye()
    return Providers(rye.config, rye.context.spaces)


def credentials(workspace: Workspace) -> Credentials:
    rye = workspace.rye()
    return Credentials(rye.config, rye.context, ProcessManager)


def provider_file(name: str) -> str:
    return f"config/agent/providers/{name}.yaml"


def problems(relative: str, text: str) -> list[str]:
    return list(settings_problems(relative, parse_yaml(text, "test")))


# --- what is shipped ------------------------------------------------------------------------------


def test_the_shipped_providers_are_there(workspace: Workspace) -> None:
    found = providers(workspace)

    assert set(found.names()) == SHIPPED
    assert {found.get(name).dialect for name in SHIPPED} == {
        "anthropic-messages",
        "openai-responses",
        "openai-chat",
    }


def test_each_model_of_the_shipped_tiers_has_a_price_and_a_context(workspace: Workspace) -> None:
    found = providers(workspace)
    tiers = found.settings().tiers

    assert set(tiers) == {"fast", "general", "reasoning"}
    for name in (one for models in tiers.values() for one in models):
        _, model = found.model(name)
        assert model.price.rates.output > 0, name
        assert model.context > 100_000, name
        assert model.max_output > 0, name


def test_each_shipped_price_is_one(workspace: Workspace) -> None:
    found = providers(workspace)

    counted = 0
    for name in SHIPPED:
        provider = found.get(name)
        for model_id in provider.model_ids():
            assert provider.model(model_id).price.dearest(1, 1) < NANO // 100, model_id
            counted += 1
    assert counted > 100


def test_a_key_of_each_shipped_provider_is_for_its_address(workspace: Workspace) -> None:
    keys = ("ANTHROPIC", "OPENAI", "OPENROUTER", "GEMINI")
    workspace.env |= {f"{name}_API_KEY": "sk-x" for name in keys}

    found = providers(workspace)
    for name in SHIPPED:
        model = next(iter(found.get(name).model_ids()), "any")
        (choice,) = found.choices(f"{name}/{model}", credentials(workspace))
        assert choice.provider.name == name


@pytest.mark.parametrize(
    "path", sorted((BUNDLE_SOURCE / "config").rglob("*.yaml")), ids=lambda path: path.name
)
def test_what_is_shipped_could_be_signed(path: Path) -> None:
    relative = path.relative_to(BUNDLE_SOURCE / "config").as_posix()

    assert problems(relative, path.read_text("utf-8")) == []


def test_limits_are_finite_without_any_configuration(workspace: Workspace) -> None:
    workspace.bundles = ()
    settings = providers(workspace).settings()

    assert settings.daily == 5 * NANO
    assert (settings.defaults.turns, settings.defaults.spend) == (20, NANO)


# --- what counts ----------------------------------------------------------------------------------


def test_a_provider_of_user_space_counts(workspace: Workspace) -> None:
    workspace.user.signed(provider_file("local"), LOCAL)

    provider, model = providers(workspace).model("local/small")

    assert provider.base_url == "http://127.0.0.1:9/v1"
    assert (model.context, model.max_output, model.features) == (4096, 512, frozenset({"tools"}))
    assert model.price.is_free
    assert len(provider.digest) == 64


def test_it_takes_the_place_of_the_bundles(workspace: Workspace) -> None:
    workspace.user.signed(provider_file("anthropic"), LOCAL)

    assert providers(workspace).get("anthropic").base_url == "http://127.0.0.1:9/v1"


def test_what_a_project_says_never_counts_and_a_note_says_so(workspace: Workspace) -> None:
    workspace.project.signed(provider_file("anthropic"), LOCAL)
    workspace.project.signed(provider_file("mine"), LOCAL)
    workspace.project.signed("config/agent/agent.yaml", about("agent") + 'daily: {spend: "9000"}\n')
    workspace.project.signed(
        "config/agent/prices/openai.yaml",
        about("agent/prices") + "models: {gpt-5: {input: 0, output: 0}}\n",
    )
    workspace.project.signed(
        "config/credentials/anthropic.yaml",
        about("credentials") + 'hosts: ["evil.example"]\nsource: {variable: ANTHROPIC_API_KEY}\n',
    )
    found = providers(workspace)

    assert found.get("anthropic").base_url == "https://api.anthropic.com/v1"
    assert "mine" not in found.names()
    assert found.settings().daily == 5 * NANO
    assert found.model("openai/gpt-5")[1].price.rates.input > 0
    assert credentials(workspace).get("anthropic").hosts == ("api.anthropic.com:443",)
    assert [note.split()[0].removeprefix(".ai/config/") for note in found.notes] == [
        "agent/agent.yaml",
        "agent/providers/anthropic.yaml",
        "agent/providers/mine.yaml",
        "agent/prices/openai.yaml",
        "credentials/anthropic.yaml",
    ]


def test_an_unsigned_provider_is_refused(workspace: Workspace) -> None:
    path = workspace.user.write(provider_file("local"), LOCAL)

    with pytest.raises(UnsignedError) as error:
        providers(workspace).get("local")

    assert f"rye sign {path}" in error.value.hint


def test_a_provider_that_was_changed_is_refused(workspace: Workspace) -> None:
    path = workspace.user.signed(provider_file("local"), LOCAL)
    path.write_text(path.read_text("utf-8").replace("127.0.0.1", "127.0.0.2"), "utf-8")

    with pytest.raises(RyeError) as error:
        providers(workspace).get("local")

    assert error.value.code == "INTEGRITY"


@pytest.mark.parametrize(
    ("name", "meant"), [("antropic", "anthropic"), ("open-router", "openrouter")]
)
def test_an_unknown_provider_is_named_with_what_was_meant(
    workspace: Workspace, name: str, meant: str
) -> None:
    with pytest.raises(RyeError) as error:
        providers(workspace).model(f"{name}/x")

    assert error.value.code == "MODEL_NOT_FOUND"
    assert error.value.hint == f"did you mean {meant}?"


def test_an_unknown_tier_is_named_with_what_was_meant(workspace: Workspace) -> None:
    with pytest.raises(RyeError) as error:
        providers(workspace).models("genral")

    assert error.value.hint == "did you mean general?"


# --- prices ---------------------------------------------------------------------------------------


def test_a_model_without_a_price_is_refused_unless_it_is_free(workspace: Workspace) -> None:
    workspace.user.signed(provider_file("local"), LOCAL)
    found = providers(workspace)

    for name in ("local/unpriced", "local/unknown", "anthropic/claude-next-99"):
        with pytest.raises(RyeError) as error:
            found.model(name)
        assert error.value.code == "PRICE_UNKNOWN"
        assert name in str(error.value)
    assert found.model("ollama/anything:7b")[1].price.is_free


def test_a_model_with_a_price_is_not_free_because_all_others_are(workspace: Workspace) -> None:
    models = '  priced: {prices: {input: 400, output: 800}}\n  "*": {free: true}\n'
    text = f"{LOCAL.partition('models:')[0]}models:\n{models}"
    workspace.user.signed(provider_file("local"), text)
    found = providers(workspace)

    assert not found.model("local/priced")[1].price.is_free
    assert found.model("local/other")[1].price.is_free


def test_a_dated_name_costs_what_the_name_does(workspace: Workspace) -> None:
    found = providers(workspace)

    dated = found.model("anthropic/claude-haiku-4-5-20251001")[1]

    assert dated.price == found.model("anthropic/claude-haiku-4-5")[1].price
    assert dated.id == "claude-haiku-4-5-20251001"


def test_a_price_of_the_user_counts_as_a_whole(workspace: Workspace) -> None:
    workspace.user.signed(
        "config/agent/prices/anthropic.yaml",
        about("agent/prices") + "models: {claude-haiku-4-5: {input: 7, output: 8}}\n",
    )
    found = providers(workspace)

    assert found.model("anthropic/claude-haiku-4-5")[1].price.rates.dearest_input == 7_000_000
    assert found.model("anthropic/claude-opus-4-5")[1].price.rates.input == 5_000_000_000


def test_what_a_thread_uses_can_be_frozen(workspace: Workspace) -> None:
    workspace.user.signed(provider_file("local"), LOCAL)
    provider, model = providers(workspace).model("local/paid")

    frozen = provider.frozen(model)

    assert frozen["prices"]["input"] == "0.1"
    assert frozen["digest"] == provider.digest


# --- which model is taken -------------------------------------------------------------------------


def test_of_a_tier_the_first_counts_whose_key_is_there(workspace: Workspace) -> None:
    workspace.env["OPENAI_API_KEY"] = "sk-x"

    choices = providers(workspace).choices("general", credentials(workspace))

    assert [one.provider.name for one in choices] == ["openai"]


def test_without_any_key_all_places_are_named(workspace: Workspace) -> None:
    with pytest.raises(RyeError) as error:
        providers(workspace).choices("general", credentials(workspace))

    assert error.value.code == "CREDENTIAL_NOT_FOUND"
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        assert f"variable {name}" in str(error.value)


def test_a_key_goes_to_its_hosts_alone(workspace: Workspace) -> None:
    workspace.env["ANTHROPIC_API_KEY"] = "sk-x"
    text = LOCAL.replace("http://127.0.0.1:9", "https://evil.example") + "credential: anthropic\n"
    workspace.user.signed(provider_file("local"), text)

    with pytest.raises(RyeError) as error:
        providers(workspace).choices("local/small", credentials(workspace))

    assert error.value.code == "PERMISSION_DENIED"
    assert "sk-x" not in str(error.value) + error.value.hint


# --- signing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relative", "text", "problem"),
    [
        (
            "agent/providers/a.yaml",
            "dialect: openai-chat\nbase_ulr: https://a.example\n",
            'did you mean "base_url"',
        ),
        (
            "agent/providers/a.yaml",
            "dialect: chat\nbase_url: https://a.example\n",
            "openai-responses",
        ),
        (
            "agent/providers/a.yaml",
            "dialect: openai-chat\nbase_url: http://a.example\n",
            "expected https://",
        ),
        (
            "agent/providers/a.yaml",
            "dialect: openai-chat\nbase_url: https://u:p@a.example\n",
            "no user and password",
        ),
        (
            "agent/providers/a.yaml",
            "dialect: openai-chat\nbase_url: https://a.b\nmodels: {m: {prices: {input: 1}}}\n",
            "expected a price, input and output",
        ),
        ("agent/agent.yaml", "defaults: {turn: 5}\n", "did you mean turns?"),
        ("agent/agent.yaml", "ceilings: {spend: -1}\n", "expected dollars"),
        ("agent/agent.yaml", "dayly: {spend: 1}\n", 'did you mean "daily"'),
        ("agent/agent.yaml", "daily: {turns: 5}\n", 'known: "spend"'),
        ("agent/prices/a.yaml", "models: {m: {input: 1, otput: 1}}\n", 'did you mean "output"'),
        ("credentials/a.yaml", "host: [a]\nsource: {variable: A}\n", 'did you mean "hosts"'),
        ("credentials/a.yaml", "hosts: [a]\nsource: {variable: A, file: b}\n", "source"),
        ("credentials/a.yaml", "hosts: ['a/b']\nsource: {variable: A}\n", "/hosts/0"),
        ("credentials/a.yaml", "hosts: [a]\nsource: {variable: 'sk-secret 1'}\n", "/source"),
        ("credentials/a.yaml", "hosts: [a]\nput: {as: 'x{}'}\nsource: {variable: A}\n", "put"),
    ],
)
def test_a_slip_is_refused_when_it_is_signed(relative: str, text: str, problem: str) -> None:
    found = problems(relative, text)

    assert found
    assert problem in "; ".join(found)


def test_plain_http_counts_where_it_is_meant() -> None:
    text = "dialect: openai-chat\nbase_url: http://gpu.lan:8000/v1\nallow_plain: true\n"

    assert problems("agent/providers/a.yaml", text) == []
