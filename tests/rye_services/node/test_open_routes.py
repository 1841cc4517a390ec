import json

from rye_services.node.admin_routes import provided_tools
from ryeos import __version__
from ryeos.items.refs import Space
from ryeos.remote.identity import decode_public_key, read_identity
from tests.support.node import Node


def test_health_reports_the_versions_of_the_node(shared_node: Node) -> None:
    assert shared_node.ask("GET", "/health").answer == (
        200,
        {
            "status": "ok",
            "version": __version__,
            "engine_version": __version__,
            "ryeos_version": __version__,
        },
    )


def test_a_node_publishes_its_identity(shared_node: Node) -> None:
    document = shared_node.ask("GET", "/public-key").json
    identity = read_identity(document)

    assert identity.node_id == shared_node.keys.node_id
    assert identity.box_public == shared_node.keys.box_public
    assert decode_public_key(document["items_key"]) == shared_node.keys.items.public_pem


def test_status_reports_the_load_and_the_capabilities(shared_node: Node) -> None:
    status = shared_node.ask("GET", "/status").json

    provided = status.pop("capabilities")
    assert status == {
        "node_id": shared_node.keys.node_id,
        "node_name": "default",
        "healthy": True,
        "active": 0,
        "max_concurrent": 8,
    }
    assert "rye.execute.tool.rye.bash.bash" in provided["provides"]


def test_open_routes_ignore_how_a_caller_authenticates(shared_node: Node) -> None:
    headers = {"Authorization": "Bearer nonsense", "X-Rye-Signature": "nonsense"}

    for path in ("/health", "/public-key", "/status"):
        assert shared_node.ask("GET", path, headers=headers).status == 200


def test_a_bundle_provides_all_of_its_tools(bundle: Space) -> None:
    provided = provided_tools(bundle.base)

    assert "rye.execute.tool.rye.core.primitives.subprocess" in provided
    assert list(provided) == sorted(set(provided))


def test_the_api_describes_itself(shared_node: Node) -> None:
    described = json.loads(shared_node.ask("GET", "/openapi.json").body)

    assert {"/health", "/public-key", "/status", "/admin/authorized-keys"} <= set(
        described["paths"]
    )
    assert shared_node.ask("GET", "/docs").status in {200, 404}
