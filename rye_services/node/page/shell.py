"""What every page stands in: head, heading, navigation. Pure."""

from rye_services.node.page import links
from rye_services.node.page.markup import Html, Part, joined, tag
from rye_services.node.page.model import Viewer

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page: nothing from elsewhere, nothing inline, no frame, nothing kept."""


def document(title: str, *body: Part, viewer: Viewer | None, refresh_s: int = 0) -> str:
    """A whole page. ``refresh_s``: how often it is loaded anew in a browser without scripts."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - Rye node"),
        tag("link", rel="icon", href=links.ICON, type="image/svg+xml"),
        tag("link", rel="stylesheet", href=links.STYLE),
        tag("script", src=links.SCRIPT, defer=True),
        tag("noscript", tag("meta", http_equiv="refresh", content=refresh_s))
        if refresh_s
        else None,
    )
    page = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("a", "Rye node", href=links.HOME, class_="name"), _navigation(viewer)),
        tag("main", tag("h1", title), *body, id="content"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, page, lang='en')}\n"


def _navigation(viewer: Viewer | None) -> Html:
    api = tag("a", "API", href=links.API)
    if viewer is None:
        return tag("nav", api, aria_label="Pages")
    leave = tag(
        "form",
        tag("input", type="hidden", name="token", value=viewer.form_token),
        tag("button", "Log out", type="submit"),
        method="post",
        action=links.LOGOUT,
    )
    who = tag("span", f"{viewer.user_id} ({viewer.key_name})", class_="who")
    return tag("nav", api, who, leave, aria_label="Pages")


def table(caption: str, headings: list[str], rows: list[Html], *, empty: str) -> Html:
    """A table with a caption and headings that a screen reader can use; a sentence where empty."""
    if not rows:
        return tag("p", empty, class_="empty")
    heads = (tag("th", heading, scope="col") for heading in headings)
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *heads)),
            tag("tbody", joined(rows)),
        ),
        class_="wide",
        role="region",
        tabindex=0,
        aria_label=caption,
    )
