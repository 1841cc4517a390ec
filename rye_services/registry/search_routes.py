"""Finding items: ``/v1/search``."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from rye_services.auth.principal import Principal
from rye_services.problems import Problem
from rye_services.registry.answers import shown_item
from rye_services.registry.callers import Anybody
from rye_services.registry.refusals import refusing
from rye_services.registry.search_index import MAX_QUERY_CHARACTERS, Wanted, words_of
from rye_services.registry.services import RegistryServices

MAX_RESULTS = 100
MAX_OFFSET = 10_000


class Search(BaseModel):
    """What is searched for. ``include_mine``: what the caller does not list, too."""

    query: str = Field(default="", max_length=MAX_QUERY_CHARACTERS)
    item_type: Literal["", "tool", "directive", "knowledge"] = ""
    namespace: str = Field(default="", max_length=256)
    category: str = Field(default="", max_length=256)
    include_mine: bool = False
    limit: int = Field(default=20, ge=0, le=MAX_RESULTS)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


def router(services: RegistryServices) -> APIRouter:
    """The route of searches."""
    routes = APIRouter(prefix="/v1", tags=["registry"])

    @routes.get("/search")
    @refusing
    def search(anybody: Anybody, asked: Annotated[Search, Query()]) -> dict[str, Any]:
        """Items that have every word, the best first; all of them without a word."""
        mine = own_namespaces(services, anybody) if asked.include_mine else ()
        page = {"limit": asked.limit, "offset": asked.offset}
        wanted = Wanted(
            words=words_of(asked.query),
            item_type=asked.item_type,
            namespace=asked.namespace,
            category=asked.category,
            mine=mine,
        )
        if asked.query.strip() and not wanted.words:
            return {"results": [], "total": 0, **page}
        found, total = services.items.search(wanted, **page)
        return {"results": [shown_item(one) for one in found], "total": total, **page}

    return routes


def own_namespaces(services: RegistryServices, anybody: Principal | None) -> tuple[str, ...]:
    """The namespaces of a caller. Raises Problem: nobody has none."""
    if anybody is None:
        raise Problem(401, "include_mine: expected an API key", {"WWW-Authenticate": "Bearer"})
    return services.items.owned(services.account_of(anybody))
