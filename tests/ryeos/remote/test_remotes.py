from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.schema import SchemaValidator
from ryeos.items.errors import RyeError
from ryeos.items.yaml import parse_yaml
from ryeos.remote.remote_values import RemoteConfigError, validate_setting
from ryeos.remote.settings import RemoteNotFoundError, Remotes, read_remotes
from ryeos.trust.config import Layer
from tests.support.errors import coded

URL, OTHER = "https://gpu.example:8443", "https://other.example"
ENVIRON = {"GPU_KEY": "rye_sk_1", "AWS_SECRET_ACCESS_KEY": "stolen", "EMPTY": ""}
BUNDLE = {"defaults": {"timeout": 300}, "remotes": {}}


def remotes(
    user: Mapping[str, Any] | None = None, project: Mapping[str, Any] | None = None
) -> Remotes:
    """The merged configuration of bundle, user and project."""
    files = (("system:ryeos", BUNDLE), ("user", user), ("project", project))
    layers = [Layer(label, Path(f"/{label}"), values) for label, values in files if values]
    return read_remotes(layers, ENVIRON)


def gpu(**settings: Any) -> dict[str, Any]:  # noqa: ANN401 - of a file
    return {"remotes": {"gpu": {"url": URL, **settings}}}


def test_a_remote_has_the_settings_of_its_entry() -> None:
    settings = {
        "key_env": "GPU_KEY",
        "node_id": "fp:07097e6443239d36",
        "timeout": 600,
        "roles": ["registry"],
    }

    remote = remotes(gpu(**settings)).resolve("gpu")

    assert (remote.name, remote.url, remote.netloc) == ("gpu", URL, "gpu.example:8443")
    assert (remote.key_env, remote.api_key) == ("GPU_KEY", "rye_sk_1")
    assert (remote.node_id, remote.timeout_s) == ("fp:07097e6443239d36", 600.0)
    assert (remote.roles, remote.source) == (("registry",), "user")
    assert "rye_sk_1" not in repr(remote)


def test_missing_settings_of_an_entry_have_defaults() -> None:
    remote = remotes(gpu()).resolve("gpu")

    assert (remote.key_env, remote.api_key, remote.node_id) == ("", "", "")
    assert (remote.timeout_s, remote.roles, remote.project_path) == (300.0, (), "")


@pytest.mark.parametrize("key_env", ["EMPTY", "UNSET"])
def test_requests_are_signed_if_the_key_variable_is_empty(key_env: str) -> None:
    assert remotes(gpu(key_env=key_env)).resolve("gpu").api_key == ""


@pytest.mark.parametrize("value", ["a b", "a\r\nX-Evil: 1", "schlüssel"])
def test_an_api_key_with_invalid_characters_is_refused(value: str) -> None:
    layers = [Layer("user", Path("/user"), gpu(key_env="GPU_KEY"))]

    with pytest.raises(RemoteConfigError) as error:
        read_remotes(layers, {"GPU_KEY": value}).resolve("gpu")

    assert str(error.value) == "GPU_KEY: expected an API key of visible ASCII characters"
    assert read_remotes(layers, {"GPU_KEY": "rye_sk_1\n"}).resolve("gpu").api_key == "rye_sk_1"


def test_the_default_remote_needs_no_name() -> None:
    user = {"remotes": {"default": {"url": URL}, "gpu": {"url": OTHER}}}

    assert remotes(user).resolve().name == "default"
    assert remotes(user).names == ("default", "gpu")


def test_an_unknown_remote_is_not_found() -> None:
    user = {"remotes": {"gpu": {"url": URL}, "cpu": {"url": URL}}}

    with pytest.raises(RemoteNotFoundError) as error:
        remotes(user).resolve("gqu")

    assert str(error.value) == "remote 'gqu': not found; configured: cpu, gpu"
    assert error.value.hint == "did you mean gpu, cpu? or add it with: rye remote add gqu URL"


def test_without_any_remote_the_hint_is_to_add_one() -> None:
    with pytest.raises(RemoteNotFoundError) as error:
        remotes().resolve()

    assert str(error.value) == "remote 'default': not found; configured: none"
    assert error.value.hint == "add it with: rye remote add default URL"


def test_remotes_of_all_spaces_are_merged_key_by_key() -> None:
    user = {"defaults": {"timeout": 10}, "remotes": {"gpu": {"url": URL, "roles": ["a"]}}}
    project = {"remotes": {"gpu": {"roles": ["b"], "timeout": 20}}}

    assert remotes(user).resolve("gpu").timeout_s == 10.0
    assert remotes(user, project).resolve("gpu").timeout_s == 20.0
    assert remotes(user, project).resolve("gpu").roles == ("b",)


def test_a_null_removes_a_value() -> None:
    user, project = gpu(timeout=5), {"remotes": {"gpu": {"timeout": None}}}

    assert remotes(user, project).resolve("gpu").timeout_s == 300.0


# --- configuration of a project ---------------------------------------------------------------


def test_a_node_named_only_by_the_project_is_not_contacted() -> None:
    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED")) as error:
        remotes(project=gpu(key_env="AWS_SECRET_ACCESS_KEY")).resolve("gpu")

    assert str(error.value) == (
        f"remote gpu: only the project names {URL}, and nothing is sent where only a project says"
    )
    assert error.value.hint == (
        f"if you know it: rye remote add gpu {URL} --key-env AWS_SECRET_ACCESS_KEY"
        "; or approve what the project says: rye trust"
    )


def test_a_project_cannot_redirect_the_users_key() -> None:
    project = {"remotes": {"gpu": {"url": OTHER}}}

    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED")):
        remotes(gpu(key_env="GPU_KEY"), project).resolve("gpu")


def test_a_project_cannot_choose_another_key_variable() -> None:
    project = {"remotes": {"gpu": {"key_env": "AWS_SECRET_ACCESS_KEY"}}}

    with pytest.raises(RyeError, check=coded("REMOTE_NOT_APPROVED")) as error:
        remotes(gpu(key_env="GPU_KEY"), project).resolve("gpu")

    assert str(error.value) == (
        "remote gpu: only the project says that AWS_SECRET_ACCESS_KEY is its key"
    )


def test_a_project_cannot_allow_a_key_in_plain_text() -> None:
    user = {"remotes": {"gpu": {"url": "http://gpu.example", "key_env": "GPU_KEY"}}}

    with pytest.raises(RyeError, check=coded("REMOTE_INSECURE")):
        remotes(user, {"remotes": {"gpu": {"allow_insecure": True}}}).resolve("gpu")


def test_a_project_cannot_change_which_node_the_user_expects() -> None:
    user, project = gpu(node_id="fp:0000000000000001"), gpu(node_id="fp:0000000000000002")

    assert remotes(user, project).resolve("gpu").node_id == "fp:0000000000000001"
    assert remotes(gpu(), project).resolve("gpu").node_id == "fp:0000000000000002"


def test_a_node_named_by_user_and_project_is_contacted() -> None:
    project = gpu(key_env="GPU_KEY")

    remote = remotes(gpu(key_env="GPU_KEY"), project).resolve("gpu")

    assert (remote.api_key, remote.source) == ("rye_sk_1", "user")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.9.9.9"])
def test_a_node_of_this_machine_may_be_named_by_the_project(host: str) -> None:
    project = {"remotes": {"here": {"url": f"http://{host}", "key_env": "GPU_KEY"}}}

    remote = remotes(project=project).resolve("here")

    assert (remote.api_key, remote.source) == ("rye_sk_1", "project")


def test_the_address_of_a_remote_is_reported_without_approval() -> None:
    assert remotes(project=gpu()).address("gpu") == (URL, "project")
    assert remotes(gpu(), gpu()).address("gpu") == (URL, "user")


# --- plain text -------------------------------------------------------------------------------


def test_a_key_is_not_sent_in_plain_text() -> None:
    user = {"remotes": {"gpu": {"url": "http://gpu.example", "key_env": "GPU_KEY"}}}

    with pytest.raises(RyeError, check=coded("REMOTE_INSECURE")) as error:
        remotes(user).resolve("gpu")

    assert str(error.value) == (
        "remote gpu: an API key is not sent over plain http: http://gpu.example"
    )


def test_the_user_may_allow_it_and_signed_requests_need_no_permission() -> None:
    plain = {"url": "http://gpu.example"}
    allowed = {**plain, "key_env": "GPU_KEY", "allow_insecure": True}

    assert remotes({"remotes": {"gpu": allowed}}).resolve("gpu").api_key == "rye_sk_1"
    assert remotes({"remotes": {"gpu": plain}}).resolve("gpu").api_key == ""


# --- invalid values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": None}, "remotes.gpu.url: expected the address of a node, found none"),
        ({"url": 5}, "remotes.gpu.url: expected a string, found int"),
        (
            {"url": "ftp://x"},
            "remotes.gpu.url: expected a URL that begins with https:// or http://",
        ),
        (
            {"url": "https://me:secret@x"},
            "remotes.gpu.url: expected no user or password in it: name a variable with key_env",
        ),
        ({"url": "https://x/?a=b"}, "remotes.gpu.url: expected nothing behind the path"),
        ({"url": "https://x:0"}, "remotes.gpu.url: expected a port from 1 to 65535"),
        ({"url": "https://x:"}, "remotes.gpu.url: expected a port from 1 to 65535"),
        (
            {"url": "https://x:99999"},
            "remotes.gpu.url: expected a URL: Port out of range 0-65535",
        ),
        ({"url": "https://ü"}, "remotes.gpu.url: expected a URL of visible ASCII characters"),
        (
            {"key_env": "rye_sk_-secret"},
            "remotes.gpu.key_env: expected the name of an environment variable",
        ),
        ({"node_id": "07097e6443239d36"}, "remotes.gpu.node_id: expected fp: and 16 hex digits"),
        (
            {"timeout": 0},
            "remotes.gpu.timeout: expected seconds, more than 0, at most 86400",
        ),
        (
            {"timeout": True},
            "remotes.gpu.timeout: expected seconds, more than 0, at most 86400",
        ),
        ({"roles": "registry"}, "remotes.gpu.roles: expected a list of strings, found str"),
        (
            {"url": "http://x", "key_env": "GPU_KEY", "allow_insecure": "yes"},
            "remotes.gpu.allow_insecure: expected true or false, found str",
        ),
    ],
    ids=str,
)
def test_an_invalid_value_is_reported(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RemoteConfigError) as error:
        remotes(gpu(**settings)).resolve("gpu")

    assert str(error.value) == message


def test_an_invalid_remote_does_not_break_others() -> None:
    user = {"remotes": {"gpu": {"url": URL}, "broken": {"url": 5}}}

    assert remotes(user).resolve("gpu").url == URL


@pytest.mark.parametrize("name", ["../x", "", "a b", "-x", "a" * 65, "ü"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(RemoteConfigError):
        remotes({"remotes": {name: {"url": URL}}})


@pytest.mark.parametrize("values", [{"remotes": []}, {"remotes": {"gpu": "x"}}])
def test_a_file_of_another_shape_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(RemoteConfigError):
        remotes(values)


@pytest.mark.parametrize(
    ("typed", "normal"),
    [
        ("HTTPS://GPU.example/", "https://gpu.example"),
        ("https://gpu.example/base/", "https://gpu.example/base"),
        ("http://[::1]:80/", "http://[::1]:80"),
    ],
)
def test_an_address_has_one_spelling(typed: str, normal: str) -> None:
    assert remotes({"remotes": {"gpu": {"url": typed}}}).resolve("gpu").url == normal


# --- the project's name -----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["project_path", "project_name"])
def test_the_configuration_names_the_project(tmp_path: Path, key: str) -> None:
    found = remotes(gpu(), {key: "my-project"})

    assert found.project_name(tmp_path) == "my-project"
    assert found.resolve("gpu").project_path == "my-project"


def test_without_configuration_the_folder_names_the_project(tmp_path: Path) -> None:
    assert remotes().project_name(tmp_path / "x" / ".." / "demo") == "demo"


@pytest.mark.parametrize("name", ["", " ", "a\nb", 5, "x" * 201])
def test_the_name_of_a_project_has_only_visible_characters(tmp_path: Path, name: object) -> None:
    with pytest.raises(RemoteConfigError):
        remotes(project={"project_path": name}).project_name(tmp_path)


def test_the_root_of_the_file_system_has_no_name() -> None:
    with pytest.raises(RemoteConfigError):
        remotes().project_name(Path("/"))


_SCHEMA = Path(__file__).parents[3] / "bundle.ai" / "tools" / "rye/core/remote.config-schema.yaml"
_READ = {
    "url": ("https://gpu.example.com", 5),
    "key_env": ("GPU_KEY", "a key itself"),
    "node_id": ("fp:0123456789abcdef", "0123"),
    "timeout": (30.5, 0),
    "roles": (["gpu"], "gpu"),
    "allow_insecure": (True, "yes"),
}


def test_the_schema_of_remotes_says_what_is_read() -> None:
    schema = parse_yaml(_SCHEMA.read_text("utf-8"), str(_SCHEMA))["schema"]
    said = schema["properties"]["remotes"]["additionalProperties"]["properties"]

    def fits(key: str, value: object) -> bool:
        config = {"remotes": {"gpu": {key: value}}}
        return SchemaValidator().validate_parameters(config, schema).valid

    assert said.keys() - {"project_path"} == _READ.keys()
    for key, (good, bad) in _READ.items():
        validate_setting("remotes.gpu", key, good)
        with pytest.raises(RemoteConfigError):
            validate_setting("remotes.gpu", key, bad)
        assert (fits(key, good), fits(key, bad), fits(key, None)) == (True, False, True)
    assert not SchemaValidator().validate_parameters({"remotes": {"-a": {}}}, schema).valid
