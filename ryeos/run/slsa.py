"""The provenance statement of SLSA for a receipt.

A file of its own: only an export of receipts needs it.
"""

from typing import Any

from ryeos.items.errors import RyeError
from ryeos.run.receipt_log import Receipt
from ryeos.run.receipt_statements import MODEL_CALL_TYPE, STATEMENT_TYPE, THREAD_TYPE

SLSA_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://rye.dev/run/v1"


def slsa_statement(receipt: Receipt, builder: str) -> dict[str, Any]:
    """A receipt as SLSA provenance v1. Raises RyeError for a run without output."""
    said = receipt.predicate
    if receipt.statement.get("predicateType") in {THREAD_TYPE, MODEL_CALL_TYPE}:
        raise RyeError(
            f"receipt {receipt.id}: provenance is of what a tool made, and this is"
            f" {said.get('item', 'a thread')!s:.80}",
            code="UNSUPPORTED",
            hint="export it as it is: --format in-toto",
        )
    if said.get("status") != "success":
        raise RyeError(
            f"receipt {receipt.id}: provenance is of what was made, and this run failed",
            code="UNSUPPORTED",
            hint="export it as it is: --format in-toto",
        )
    chain = said.get("chain") or []
    interpreter = said.get("interpreter") or {}
    materials = [
        {"name": one["id"], "digest": {"sha256": one["sha256"]}} for one in chain if one["sha256"]
    ]
    if interpreter.get("sha256"):
        program = {"sha256": interpreter["sha256"]}
        materials.append({"name": interpreter["path"], "digest": program})
    return {
        "_type": STATEMENT_TYPE,
        "subject": receipt.statement.get("subject") or [],
        "predicateType": SLSA_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"item": said["item"], "parameters": said["parameters"]},
                "internalParameters": {"rights": said["rights"], "locked": said["locked"]},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {
                    "invocationId": receipt.digest,
                    "startedOn": said["startedOn"],
                    "finishedOn": said["finishedOn"],
                },
            },
        },
    }
