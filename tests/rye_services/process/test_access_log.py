from tests.support.node import Node


def test_a_request_is_one_line_without_its_query(shared_node: Node) -> None:
    shared_node.ask("GET", "/nothing/here?secret=hunter2")

    line = shared_node.wait_for_line("/nothing/here")
    assert "rye_services.access: GET /nothing/here 404 " in line
    assert not any("hunter2" in line for line in shared_node.log)


def test_a_line_break_in_a_path_starts_no_other_entry(shared_node: Node) -> None:
    shared_node.ask("GET", "/a%0A2026-01-01%20forged%1b[31m")

    line = shared_node.wait_for_line("forged")
    assert "GET /a\\n2026-01-01 forged\\x1b[31m 404" in line


def test_health_requests_are_not_logged(shared_node: Node) -> None:
    shared_node.ask("GET", "/health")
    shared_node.ask("GET", "/after-health")

    shared_node.wait_for_line("/after-health")
    assert not any("GET /health" in line for line in shared_node.log)
