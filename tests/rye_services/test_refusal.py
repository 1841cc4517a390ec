import pytest

from rye_services.refusal import RefusedError


@pytest.mark.parametrize(
    ("code", "exit_status", "status"),
    [
        ("INVALID_PARAMS", 2, 400),
        ("VALIDATION_FAILED", 6, 400),
        ("PERMISSION_DENIED", 4, 403),
        ("ITEM_NOT_FOUND", 3, 404),
        ("CONFLICT", 1, 409),
        ("RESOURCE_EXCEEDED", 6, 413),
    ],
)
def test_the_code_decides_how_a_command_ends_and_what_http_answers(
    code: str, exit_status: int, status: int
) -> None:
    error = RefusedError("x: refused", code=code)

    assert (error.code, error.exit_status, error.http_status) == (code, exit_status, status)


def test_a_refusal_without_a_code_is_about_the_request() -> None:
    error = RefusedError("x: refused", hint="send y")

    assert (error.code, error.exit_status, error.http_status) == ("INVALID_PARAMS", 2, 400)
    assert (str(error), error.hint) == ("x: refused", "send y")


def test_a_refusal_may_have_another_http_status_than_its_code() -> None:
    assert RefusedError("x: refused", code="ITEM_NOT_FOUND", status=403).http_status == 403
