"""What a client takes, by the headers that say so with weights (RFC 9110, 12.4.2)."""

import re
from collections.abc import Iterable

_WEIGHT = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def weight_of(values: Iterable[str], *names: str) -> float:
    """The weight of the first of the names that is listed, from 0 to 1; 0 where none is.

    ``values`` are those of one header, like ``Accept``; ``names`` are in lower case, the most
    precise first. One that is listed twice counts as it is listed first.
    """
    listed: dict[str, float] = {}
    for one in ",".join(values).lower().split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        listed.setdefault(name, _weight(parameters))
    return next((listed[name] for name in names if name in listed), 0.0)


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = (part.strip() for part in parameter.partition("="))
        if name == "q":
            return float(value) if _WEIGHT.fullmatch(value) else 0.0
    return 1.0
