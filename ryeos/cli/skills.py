"""``rye skill``: sign skills with all their files, verify them, write directives as skills."""

from pathlib import Path

from ryeos.app.output import one_line
from ryeos.app.skills import SkillState, export_skill, skills
from ryeos.cli.arguments import Arguments
from ryeos.cli.import_items import import_sources
from ryeos.cli.session import CommandSpec, Session
from ryeos.imports.kinds import find_kind
from ryeos.imports.plan import ImportSource
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import PROJECT, USER, parse_reference


def _configure_add(parser: Arguments) -> None:
    add = parser.add_argument
    add("path", metavar="FOLDER", nargs="+", help="a folder with a SKILL.md")
    add("--space", choices=(PROJECT, USER), default=PROJECT, help="default: project")
    add("--copy", action="store_true", help="copy it to .ai/skills, though it lies in the space")
    add("--dry-run", action="store_true", help="show what would be made, write nothing")
    add("--yes", action="store_true", help="write and sign all of it without asking")


def _add(session: Session) -> int:
    arguments = session.arguments
    arguments.only, arguments.force, arguments.replace = None, True, False
    kind, sources = find_kind("skill"), []
    for typed in arguments.path:
        folder = session.context.cwd / Path(typed).expanduser()
        folder = folder.parent if folder.name == "SKILL.md" else folder
        if not (folder / "SKILL.md").is_file():
            raise UsageError(
                f"{typed}: expected a folder with a SKILL.md",
                hint="look for skills here with: rye import --from skill --dry-run",
            )
        sources.append((kind, ImportSource(path=folder, project=None, copies=arguments.copy)))
    return import_sources(session, sources)


def _configure_list(parser: Arguments) -> None:
    """No arguments."""


def _list(session: Session) -> int:
    found = list(skills(session.rye))
    envelope = {"status": "success", "skills": [one.describe() for one in found]}
    session.output.answer(envelope, "\n".join(map(_line, found)) or "no skills: rye import")
    return 0


def _configure_verify(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", nargs="*", help="a skill or its id (default: all)")


def _verify(session: Session) -> int:
    found = list(skills(session.rye))
    for name in session.arguments.name:
        if not any(name in _names(one) for one in found):
            raise RyeError(
                f"{name[:80]}: no such skill", code="ITEM_NOT_FOUND", hint="rye skill list"
            )
    wanted = session.arguments.name
    chosen = [one for one in found if not wanted or set(wanted) & set(_names(one))]
    refused = [one for one in chosen if one.problem]
    envelope = {
        "status": "error" if refused else "success",
        "skills": [one.describe() for one in chosen],
    }
    if refused:
        envelope |= {"error": refused[0].problem, "code": refused[0].code}
    lines = [_line(one) for one in chosen]
    lines += [one_line(f"hint: {one.hint}", 400) for one in refused if one.hint]
    session.output.answer(envelope, "\n".join(lines) or "no skills")
    return 4 if refused else 0


def _names(one: SkillState) -> tuple[str, ...]:
    return (one.manifest.name, one.location.ref.id, str(one.location.ref))


def _line(one: SkillState) -> str:
    state = "refused" if one.problem else "valid"
    text = one.problem or f"{len(one.manifest.files)} files in {one.manifest.folder}"
    return one_line(f"{state:<8} {one.location.ref}  {text}", 400)


def _configure_export(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="DIRECTIVE", help="like mine/review")
    parser.add_argument("--to", metavar="FOLDER", default=".", help="default: this folder")


def _export(session: Session) -> int:
    reference = parse_reference(session.arguments.ref, "directive")
    folder = session.context.cwd / Path(session.arguments.to).expanduser()
    written = [str(path) for path in export_skill(session.rye, reference, folder)]
    session.output.answer({"status": "success", "files": written}, "\n".join(written))
    return 0


COMMANDS = {
    "skill add": CommandSpec(
        _configure_add,
        _add,
        ["rye skill add .claude/skills/pdf-forms", "rye skill add ~/downloads/pdf-forms"],
    ),
    "skill list": CommandSpec(_configure_list, _list, ["rye skill list", "rye skill list --json"]),
    "skill verify": CommandSpec(
        _configure_verify, _verify, ["rye skill verify", "rye skill verify pdf-forms"]
    ),
    "skill export": CommandSpec(
        _configure_export, _export, ["rye skill export mine/review --to .claude/skills"]
    ),
}
