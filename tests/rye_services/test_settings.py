from pathlib import Path

import pytest

from rye_services.settings import GIB, MIB, Settings, read_settings
from ryeos.items.errors import RyeError
from tests.support.errors import coded

DATA = Path("/srv/rye")


def settings(tmp_path: Path, text: str = "", **environ: str) -> Settings:
    """The settings of a node in ``tmp_path``."""
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "node.yaml").write_text(text or "{}", "utf-8")
    return read_settings({"data_dir": str(tmp_path)}, environ, DATA)


def test_a_node_needs_no_settings(tmp_path: Path) -> None:
    found = read_settings({}, {}, tmp_path)

    assert (found.host, found.port, found.name) == ("127.0.0.1", 8000, "default")
    assert found.data_dir == tmp_path
    assert found.database_url == f"sqlite:///{tmp_path / 'node.db'}"
    assert found.cas_base_path == tmp_path / "cas"
    assert found.signing_key_dir == tmp_path / "signing"
    assert found.config_dir == tmp_path / "config"
    assert (found.max_request_bytes, found.max_user_storage_bytes) == (50 * MIB, GIB)
    assert found.max_request_bytes == 52_428_800
    assert found.compatible_versions == ("0.1",)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "node.yaml").write_text("port: 1\nname: a\nhost: '::1'\n", "utf-8")
    environ = {"RYE_NODE_PORT": "2", "RYE_NODE_NAME": "b"}

    found = read_settings({"port": "3", "name": None, "data_dir": str(tmp_path)}, environ, DATA)

    assert (found.port, found.name, found.host) == (3, "b", "::1")


@pytest.mark.parametrize(
    ("variable", "value", "name", "expected"),
    [
        ("PORT", "8080", "port", 8080),
        ("RYE_REMOTE_NAME", "gpu", "name", "gpu"),
        ("MAX_CONCURRENT", "2", "max_concurrent", 2),
        ("CAS_BASE_PATH", "/cas", "cas_base_path", Path("/cas").absolute()),
        ("SIGNING_KEY_DIR", "/keys", "signing_key_dir", Path("/keys").absolute()),
        ("DATABASE_URL", "sqlite://", "database_url", "sqlite://"),
        ("RYE_NODE_MAX_REQUEST_BYTES", "1 MiB", "max_request_bytes", MIB),
        ("RYE_NODE_MAX_USER_STORAGE_BYTES", "2GiB", "max_user_storage_bytes", 2 * GIB),
        ("RYE_NODE_ROLES", "all", "roles", ("node", "registry")),
        ("RYE_NODE_COMPATIBLE_VERSIONS", "0.1, 0.2", "compatible_versions", ("0.1", "0.2")),
        ("RYE_NODE_OPEN_WEBHOOKS", "no", "open_webhooks", False),
        ("RYE_NODE_LOG_FORMAT", "json", "log_format", "json"),
        ("RYE_NODE_METRICS", "loopback", "metrics", "loopback"),
        ("RYE_NODE_TRUSTED_PROXIES", "10.0.0.0/8, ::1", "trusted_proxies", ("10.0.0.0/8", "::1")),
        ("RYE_NODE_PORT", "", "port", 8000),
    ],
)
def test_each_setting_has_variables(
    tmp_path: Path, variable: str, value: str, name: str, expected: object
) -> None:
    assert getattr(settings(tmp_path, "", **{variable: value}), name) == expected


def test_the_environment_can_name_the_data_folder(tmp_path: Path) -> None:
    assert read_settings({}, {"RYE_NODE_DATA": str(tmp_path)}, DATA).data_dir == tmp_path


def test_the_name_is_read_where_older_nodes_keep_it(tmp_path: Path) -> None:
    assert settings(tmp_path, "identity: {name: node-1a2b3c4d}").name == "node-1a2b3c4d"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port: 70000", "port: expected a whole number from 0 to 65535, found 70000"),
        ("port: true", "port: expected a whole number from 0 to 65535, found True"),
        ("max_request_bytes: 1 TB", "expected bytes, like 52428800 or 50 MiB, found '1 TB'"),
        ("open_webhooks: perhaps", "open_webhooks: expected true or false, found 'perhaps'"),
        ("roles: [king]", "roles: expected node, registry or all, found ['king']"),
        ("compatible_versions: 1", "compatible_versions: expected a list of texts, found 1"),
        ("host: 1", "host: expected a text, found 1"),
        ("name: a/b", "found 'a/b'"),
        ("log_format: xml", "log_format: expected one of text, json, found 'xml'"),
        ("metrics: true", "metrics: expected one of closed, key, loopback, open, found True"),
        ("trusted_proxies: [10.0.0.1/8]", "like 10.0.0.0/8, fd00::/8, found '10.0.0.1/8'"),
        ("trusted_proxies: proxy.example", "like 10.0.0.0/8, fd00::/8, found 'proxy.example'"),
        ("prot: 1", "prot: there is no such setting"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_file(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        settings(tmp_path, text)

    assert str(error.value).startswith(str(tmp_path / "config" / "node.yaml"))
    assert problem in str(error.value)


def test_an_invalid_variable_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        settings(tmp_path, "", RYE_NODE_PORT="http")

    assert str(error.value) == (
        "RYE_NODE_PORT: expected a whole number from 0 to 65535, found 'http'"
    )


def test_a_mistyped_setting_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        settings(tmp_path, "max_concurent: 1")

    assert error.value.hint == "did you mean max_concurrent?"


@pytest.mark.parametrize("text", ["\n", "# nothing yet\n\n  # nor here\n"])
def test_an_empty_file_changes_no_setting(tmp_path: Path, text: str) -> None:
    assert settings(tmp_path, text).port == 8000


def test_a_file_with_invalid_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        RyeError, match=r"node\.yaml, line 2: expected YAML", check=coded("CONFIG_ERROR")
    ) as caught:
        settings(tmp_path, "port: 1\nname: ]\n")

    assert caught.value.hint == "the settings are in docs/node.md"


def test_an_unknown_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RyeError, match="RYE_NODE_PROT: there is no such setting", check=coded("CONFIG_ERROR")
    ) as caught:
        settings(tmp_path, RYE_NODE_PROT="1")

    assert caught.value.hint == "did you mean RYE_NODE_PORT?"


def test_variables_with_other_prefixes_are_ignored(tmp_path: Path) -> None:
    found = settings(tmp_path, RYE_NODE_ANCHOR="/x", RYE_NODE_PROT="", RYE_NODES="1")

    assert found.port == 8000
