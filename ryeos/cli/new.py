"""``rye new``: a template that is valid, runs as it is, and only waits to be signed."""

import re
from collections.abc import Iterator
from pathlib import Path

from lillux.files import create_file, make_directory
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.config_templates import CONFIGS
from ryeos.app.templates import TEMPLATES, Template
from ryeos.cli.session import Session
from ryeos.items.errors import InvalidRefError, RyeError, UsageError, target_exists_error
from ryeos.items.refs import PROJECT, USER, ItemRef, Kind, Reference, Space, parse_reference
from ryeos.trust.keys import require_user_space
from ryeos.trust.resolver import candidates

DEFAULT_LANGUAGE = "python"
_LANGUAGES = tuple(language for kind, language in TEMPLATES if kind is Kind.TOOL)
# What needs no quoting in any of the languages, and does not hide the file.
_PLAIN_SEGMENT = re.compile(r"[^\W_][\w.-]*")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")


def _configure(parser: Arguments) -> None:
    add = parser.add_argument
    add("kind", metavar="KIND", choices=[kind.value for kind in Kind], help=", ".join(Kind))
    add("id", metavar="ID", help="folders and a name, like mine/hello")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--language", choices=_LANGUAGES, help=f"of a tool; default: {DEFAULT_LANGUAGE}")


def _run(session: Session) -> int:
    arguments = session.arguments
    reference = parse_reference(arguments.id, arguments.kind)
    ref = ItemRef(Kind(arguments.kind), reference.id)
    _validate_name(ref)
    template = _template(ref, arguments.language)
    space = _space(session)
    _require_free(ref, space)
    path = Path(f"{space.directory(ref.kind) / ref.id}{template.suffix}")
    text = template.fill(name=ref.name, category=ref.category, author=_author(session))
    make_directory(path.parent, within=space.within)
    try:
        create_file(path, text.encode(), within=space.within)
    except FileExistsError:
        raise _taken_error(path) from None
    _show(session, ref, path, template)
    return 0


def _validate_name(ref: ItemRef) -> None:
    for segment in ref.id.split("/"):
        if not _PLAIN_SEGMENT.fullmatch(segment):
            problem = f"expected letters, digits, '-', '_' and '.' in {segment[:60]!r}"
            raise InvalidRefError(str(ref), f"{problem}, a letter or digit first")
    if ref.kind is Kind.DIRECTIVE and not _SNAKE_CASE.fullmatch(ref.name):
        better = re.sub(r"\W+", "_", ref.name.lower()).lstrip("0123456789_")
        hint = f"rye new directive {'/'.join(filter(None, (ref.category, better)))}"
        raise UsageError(f"{ref}: expected a name in snake_case, found {ref.name!r}", hint=hint)


def _template(ref: ItemRef, language: str | None) -> Template:
    if ref.kind is Kind.TOOL:
        return TEMPLATES[ref.kind, language or DEFAULT_LANGUAGE]
    if ref.kind is Kind.CONFIG and ref.id in CONFIGS:
        return Template(suffix=".yaml", text=CONFIGS[ref.id].text("@CATEGORY@"))
    if language:
        raise UsageError(f"--language {language}: expected with a tool, found a {ref.kind.value}")
    return TEMPLATES[ref.kind, ""]


def _space(session: Session) -> Space:
    if session.arguments.space == USER:
        return require_user_space(session.context)
    return session.rye.space(PROJECT)


def _require_free(ref: ItemRef, space: Space) -> None:
    """One id, one file: the same name with another suffix would hide one of the two."""
    for path in candidates(space, ref):
        if path.exists():
            raise _taken_error(path)


def _taken_error(path: Path) -> RyeError:
    return target_exists_error(
        str(path), "an item of this id", "choose another id, or edit that file"
    )


def _author(session: Session) -> str:
    """The user's name, as far as it can stand in any header."""
    named = session.environ.get("USER") or session.environ.get("USERNAME") or ""
    return re.sub(r"[^\w.-]", "", named) or "unknown"


def _show(session: Session, ref: ItemRef, path: Path, template: Template) -> None:
    for note in _notes(session, ref):
        session.output.warn(note)
    place = f" --space {USER}" if session.arguments.space == USER else ""
    sign = f"rye sign {ref}{place}"
    following = [sign, template.try_it.format(id=ref.id)] if template.try_it else [sign]
    envelope = {
        "status": "success",
        "ref": str(ref),
        "path": str(path),
        "space": session.arguments.space,
        "next": following,
    }
    session.output.answer(envelope, str(path))
    for command in following:
        session.output.note(f"next: {command}")
    if "sandbox" in template.text.lower():
        session.output.note(f"which rights it needs: rye sandbox suggest {ref.id}")


def _notes(session: Session, ref: ItemRef) -> Iterator[str]:
    resolver = session.rye.resolver
    reference = Reference(ref.kind, ref.id)
    hidden = resolver.resolve(reference).shadowed if ref.kind is not Kind.CONFIG else ()
    for location in hidden:
        yield f"{ref} hides {one_line(str(location.path))} ({location.space.label})"


NEW = CommandSpec(
    _configure,
    _run,
    [
        "rye new tool mine/hello",
        "rye new tool mine/count --language bash",
        "rye new directive mine/review",
        "rye new knowledge mine/style --space user",
        "rye new config execution/execution",
    ],
)
