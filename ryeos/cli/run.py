"""``rye run``: execute a tool, render a directive, print a knowledge text."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.foreign_text import escaped, without_control_characters
from lillux.values import replace
from ryeos.app.command_line import ITEM_FLAG, OWN_FLAG, Arguments, CommandSpec
from ryeos.app.output import OutputError
from ryeos.cli.session import Session, cancelled_by_signals
from ryeos.items.errors import ONLY_FAILED, Answer, UsageError
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.parameters import STEERS

if TYPE_CHECKING:
    from ryeos.cli.progress import StepList
    from ryeos.graph.runner import StepEvent
    from ryeos.items.refs import Kind, Reference
    from ryeos.items.rights import Rights

LOCAL, REMOTE = "local", "remote"
MAX_INPUT_BYTES = 64 * 1024 * 1024
_JSON_HINT = """quote it for the shell, like n:=3 or --params '{"n": 3}'"""


def configure(parser: Arguments, refs: str = "refs|paths", parameters: str = "") -> None:
    """Declare the arguments of a run, and what completion offers for the first ones."""
    add = parser.add_argument
    add("ref", metavar="REF", help="kind:id, an id, or the path of an item file", offers=refs)
    add(
        "pairs",
        metavar="k=v",
        nargs="*",
        help="k=v or --k v as the item's schema says, JSON k:=JSON, a file's text k@FILE",
        offers=parameters,
    )
    add("--params", metavar="JSON|@FILE|-", help="all parameters as one JSON object")
    add("--stdin", action="store_true", help="parameters as JSON on standard input")
    add("--dry-run", action="store_true", help="every check, but start nothing")
    add("--trace", action="store_true", help="show every decision on the way")
    add("--timeout", metavar="S", type=float, help="seconds; 0 for no limit")
    add("--cwd", metavar="DIR", help="where the tool runs (default: the project)")
    add("--async", dest="detached", action="store_true", help="in the background")
    add("--fork", action="store_true", help="have a model carry the directive out")
    add("--thread", metavar="fork", help="the same as --fork")
    add("--model", metavar="M", help="with --fork: PROVIDER/MODEL, or a tier like fast")
    add("--limit", metavar="NAME=N", action="append", help="with --fork: lower a limit: spend=0.5")
    add("--target", default="local", help="local, or remote[:NAME]")
    add("--sandbox", metavar="WORD", help="a level, or less rights: network=none")
    add("--receipt", metavar="on|full", help="leave a receipt; full: with the parameters")
    add("--no-lock", action="store_true", help="neither check nor write a lockfile")


def _configure_run(parser: Arguments) -> None:
    configure(parser, parameters="parameters")
    parser.add_argument(
        "--inputs", action="store_true", help="show what the item takes; also: rye run REF --help"
    )


def run(session: Session) -> int:
    """Run what the arguments name, here or in the background."""
    arguments = session.arguments
    _require_supported(arguments)
    callers = sandbox(session)
    if arguments.receipt:
        session.use_receipts(arguments.receipt)
    rye = session.rye
    reference = rye.reference(arguments.ref)
    if getattr(arguments, "inputs", False):  # `graph run` has no such flag
        return _show_inputs(session)
    is_here = arguments.target == LOCAL
    resolution = cache(lambda: rye.resolver.resolve(reference))
    request = ExecutionRequest(
        item_id=reference.id,
        parameters=parameters(
            arguments,
            lambda: rye.schema_of(reference, resolution()),
            place=in_shell if is_here else in_project(session),
        ),
        timeout_s=timeout(arguments.timeout),
        cwd=arguments.cwd,
        trace=arguments.trace,
        use_lockfile=not arguments.no_lock,
        dry_run=arguments.dry_run,
        callers=callers,
    )
    if arguments.fork or arguments.thread:
        request = replace(request, thread=_thread_request(arguments))
    else:
        _require_no_options_of_threads(arguments)
    if resolution.cache_info().currsize:  # a parameter depended on the schema
        request = replace(request, resolution=resolution())
    undo_ignored_child_signals()
    if not is_here and (arguments.sandbox or arguments.receipt):
        raise UsageError(
            "--sandbox and --receipt: expected with a run on this machine",
            hint="a node holds what the item declares, and its receipt comes back by itself",
        )
    if not is_here:
        return _run_elsewhere(session, reference, request)
    if arguments.detached:
        return _start(session, reference, request)
    if request.thread is not None:
        from ryeos.cli.agent_threads import fork

        _require_directive(rye.kind_of(reference)[0])
        return fork(session, reference, request)
    return execute(session, reference, request)


def _thread_request(arguments: SimpleNamespace) -> ThreadRequest:
    """What the arguments say of the thread. Raises UsageError."""
    if arguments.thread not in {None, "fork"}:
        raise UsageError(f"--thread: expected fork, found {arguments.thread!r:.40}")
    from ryeos.cli.agent_threads import named_limits

    limits = named_limits(arguments.limit or (), "--limit")
    return ThreadRequest(model=arguments.model or "", limits=limits)


def _require_no_options_of_threads(arguments: SimpleNamespace) -> None:
    """Refuse what only a thread heeds: what it was to hold would not hold. Raises UsageError."""
    given = [("--model", arguments.model), *(("--limit", one) for one in arguments.limit or ())]
    options = [(name, value) for name, value in given if value is not None]
    if not options:
        return
    from lillux.errors import as_word

    names = ", ".join(dict.fromkeys(name for name, _ in options))
    typed = [
        one.replace(ITEM_FLAG, "--", 1) for one in arguments.pairs if not one.startswith(OWN_FLAG)
    ]
    if arguments.params:
        options.insert(0, ("--params", arguments.params))
    if arguments.target != LOCAL:
        options.insert(0, ("--target", arguments.target))
    words = [arguments.ref, *typed, "--fork", *(word for option in options for word in option)]
    raise UsageError(
        f"{names}: expected beside --fork, by which a model carries a directive out",
        hint=f"run it so: rye run {' '.join(map(as_word, words))}",
    )


def _require_directive(kind: "Kind") -> None:
    if kind != "directive":
        raise UsageError(
            f"--fork: expected a directive, found a {kind}", hint="run a tool with: rye run REF"
        )


def _run_elsewhere(session: Session, reference: "Reference", request: ExecutionRequest) -> int:
    from ryeos.cli.remote_run import run_on
    from ryeos.remote.run import RemoteOptions

    arguments = session.arguments
    options = RemoteOptions(is_async=arguments.detached)
    remote, written = target_remote(arguments.target), ToolOutput()
    answer, was_shown = run_on(session, remote, reference, request, options, written=written)
    return show_elsewhere(session, answer, written if was_shown else None)


def show_elsewhere(session: Session, answer: Answer, written: "ToolOutput | None") -> int:
    """Show what a run on a node gave as one here, or that it was started; the command's status.

    ``written`` got its output while it ran, None where nothing did.
    """
    from ryeos.cli.remote_run import is_started, show_started, standard_error

    if is_started(answer):
        return show_started(session, answer)
    if written is not None:
        show_rest(session, answer, written)
        return answer.exit_status
    live_stderr(standard_error(answer.envelope).encode("utf-8", "replace"))
    show(session, answer)
    return answer.exit_status


def target_remote(target: str) -> str | None:
    """The name in ``remote:NAME``, None for the default one. Raises UsageError."""
    word, colon, name = target.partition(":")
    if word != REMOTE or (colon and not name):
        raise UsageError(
            f"--target: expected {LOCAL} or {REMOTE}[:NAME], found {target!r}",
            hint="list the remotes there are with: rye remote list",
        )
    return name or None


def execute(session: Session, reference: "Reference", request: ExecutionRequest) -> int:
    """Run an item here, and show what it gave; what it writes, as it comes."""
    steps, written = _LateSteps(session), ToolOutput()
    if not session.output.as_json:
        request = replace(request, on_stdout=written.stdout)
    answer = session.rye.execute(
        reference,
        request,
        cancellation=cancelled_by_signals(),
        on_stderr=written.stderr,
        on_step=steps.tell,
    )
    steps.end()
    show_rest(session, answer, written)
    return answer.exit_status


def show_rest(session: Session, answer: Answer, written: "ToolOutput") -> None:
    """Show what a run gave, of its output what was not shown while it ran. Raises OutputError."""
    has_result = is_object(answer.envelope.get("data")) and written.holds_result
    traceback = written.end(
        has_failed=answer.envelope["status"] == "error", drops_result=has_result
    )
    was_shown = written.was_shown and not has_result
    show(session, answer, was_shown=was_shown, traceback=traceback)
    written.require_shown()


class _LateSteps:
    """The list of steps, which most runs have none of."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: StepList | None = None

    def tell(self, event: "StepEvent") -> None:
        """Show what has happened."""
        if self._steps is None:
            from ryeos.cli.progress import StepList

            self._steps = StepList(self._session.output)
        self._steps.tell(event)

    def end(self) -> None:
        """Leave no half line behind."""
        if self._steps:
            self._steps.end()


def _start(session: Session, reference: "Reference", request: ExecutionRequest) -> int:
    from ryeos.cli.session import own_program

    answer = session.rye.start(reference, request, own_program(session.context))
    thread_id = answer.envelope.get("thread_id")
    if thread_id is None or answer.envelope["status"] != "success":
        show(session, answer)
        return answer.exit_status
    for warning in answer.envelope["metadata"].get("warnings", ()):
        session.output.warn(warning)
    session.output.answer(answer.envelope, thread_id)
    if session.output.as_json:
        return answer.exit_status
    session.output.note(
        f"running in the background; next:\n  rye threads wait {thread_id}\n"
        f"  rye threads logs {thread_id} --follow\n  rye threads kill {thread_id}"
    )
    return answer.exit_status


def show(session: Session, answer: Answer, *, was_shown: bool = False, traceback: str = "") -> None:
    """Show what a run gave, as `rye run` does; of a program's output what was not shown yet."""
    envelope, output = answer.envelope, session.output
    for warning in envelope.get("metadata", {}).get("warnings", ()):
        output.warn(warning)
    if output.as_json:
        output.answer(envelope, "")
        return
    if envelope.get("type") == "thread":
        from ryeos.cli.agent_threads import show_thread

        show_thread(session, answer, has_shown=was_shown)
        return
    for event in envelope.get("trace", ()):
        output.note(_event_line(event))
    if envelope.get("type") == "tool" and envelope["status"] == "success":
        output.answer(envelope, "" if was_shown else _data_text(envelope["data"]))
    elif envelope["status"] == "error":
        for line in answer.diff:
            output.note(without_control_characters(line))
        _show_failure(session, envelope, was_shown=was_shown, traceback=traceback)
    else:
        output.answer(envelope, _text_of(envelope))


def is_object(data: object) -> bool:
    """Whether the data are an object that the tool wrote, and not its output as text."""
    return isinstance(data, dict) and data.keys() != {"stdout", "stderr", "return_code"}


def _show_failure(
    session: Session, envelope: Mapping[str, Any], *, was_shown: bool, traceback: str
) -> None:
    """The tool's own output first, if there is any, then why it counts as failed."""
    data = envelope.get("data")
    if data and not was_shown and not (isinstance(data, dict) and data.keys() <= ONLY_FAILED):
        text = _data_text(data)
        if text:
            session.output.text(text)
    error = str(envelope["error"])
    code = _streamed_code(error, data)
    if code > 0:
        error = f"{envelope['item_id']} exited with code {code}"
    sys.stderr.write(f"error: {error}\n")
    if envelope.get("hint"):
        sys.stderr.write(f"  hint: {envelope['hint']}\n")
    if traceback:
        sys.stderr.write(traceback.rstrip() + "\n")


def _streamed_code(error: str, data: Any) -> int:  # noqa: ANN401 - JSON passes through
    """The exit code, if the error is what the tool wrote to standard error and so was seen."""
    if not isinstance(data, dict) or data.keys() != {"stdout", "stderr", "return_code"}:
        return 0
    return int(data["return_code"]) if error.strip() == data["stderr"].strip() else 0


def _text_of(envelope: Mapping[str, Any]) -> str:
    for name in ("content", "your_directions", "message"):
        if name in envelope:
            return str(envelope[name])
    return ""


def _data_text(data: Any) -> str:  # noqa: ANN401 - JSON passes through
    """A tool's own output: text as it is, other values as indented JSON."""
    if isinstance(data, dict) and data.keys() == {"stdout", "stderr", "return_code"}:
        return str(data["stdout"])
    if isinstance(data, str):
        return data
    return escaped(json.dumps(data, ensure_ascii=False, indent=2))


def _event_line(event: Mapping[str, Any]) -> str:
    details = " ".join(f"{name}={value}" for name, value in event.items() if name != "step")
    return f"{event['step']:<16} {details}"


def sandbox(session: Session) -> "tuple[Rights, ...]":
    """The rights that ``--sandbox`` leaves; a level there is that of the whole command.

    Raises UsageError, SpecError.
    """
    word = session.arguments.sandbox
    if not word:
        return ()
    from ryeos.items.rights import ANYTHING, KEYS, read_rights
    from ryeos.run.sandbox_policy import Level

    if word in set(Level):
        session.use_sandbox(word)
        return ()
    if word.lstrip().startswith("{"):
        return (read_rights(json_object(word, "--sandbox"), "--sandbox", absent=ANYTHING),)
    pairs = [part.partition("=") for part in word.split(",")]
    if any(key not in KEYS or not equals for key, equals, _ in pairs):
        levels = ", ".join(Level)
        raise UsageError(
            f"--sandbox: expected {levels}, KEY=none, or a JSON object, found {word!r:.80}",
            hint="""like --sandbox network=none, or --sandbox '{"write": ["{project}/out"]}'""",
        )
    said = {key: value for key, _, value in pairs}
    return (read_rights(said, "--sandbox", absent=ANYTHING),)


def parameters(
    arguments: SimpleNamespace,
    schema: Callable[[], Mapping[str, Any]] = dict,
    *,
    place: "Place | None" = None,
) -> dict[str, Any]:
    """The parameters of a run, from wherever the arguments say. Raises UsageError.

    ``schema`` gives that of the item; it is asked for only where a parameter depends on it.
    ``place`` makes a relative path (``format: path``) one of the shell's folder: `in_shell`.
    """
    given: dict[str, Any] = {}
    schema = cache(schema)
    if arguments.stdin and arguments.params:
        raise UsageError("--stdin and --params: expected one of them")
    source = "-" if arguments.stdin else arguments.params
    if source:
        given = json_object(source, "--params")
    values = given | values_of(arguments.pairs, schema)
    if values:
        values = with_paths(values, _readable(schema), place or in_shell)
    is_read = source == "-" or any(text.endswith("@-") for text in arguments.pairs)
    if is_read or not _is_piped():
        return values
    name = _piped_name(_readable(schema))
    text = _read_source("-") if name and name not in values else ""
    return {**values, name: text} if text else values


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, which a tool may ask for."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _piped_name(schema: Mapping[str, Any]) -> str:
    """The parameter that the schema marks ``format: stdin``, ``""`` if it has none."""
    found = schema.get("properties")
    rules: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    asks = (name for name, rule in rules.items() if isinstance(rule, Mapping))
    return next((name for name in asks if rules[name].get("format") == "stdin"), "")


def values_of(texts: Sequence[str], schema: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters in words; the schema is asked for only where one depends on it.

    Raises UsageError; for a flag also what reading the schema raises.
    """
    own = [text.removeprefix(OWN_FLAG) for text in texts if text.startswith(OWN_FLAG)]
    if own:
        _require_meant(own, _readable(schema))
        texts = [text for text in texts if not text.startswith(OWN_FLAG)]
    if any(text.startswith(ITEM_FLAG) for text in texts):  # it means nothing without the schema
        return pairs_by_schema(texts, schema())
    if any("=" in text for text in texts):
        return pairs_by_schema(texts, _readable(schema))
    return pairs(texts)


def _require_meant(own: Sequence[str], schema: Mapping[str, Any]) -> None:
    """Raise UsageError where an option of ours behind the item is a parameter of the item too."""
    for flag in own:
        name = colliding_parameter(flag, schema)
        if name:
            raise UsageError(
                f"{flag}: an option of rye, and a parameter of the item",
                hint=f"for the item: {name}=VALUE, or {flag} behind --;"
                f" for rye: {flag} before the item",
            )


def colliding_parameter(flag: str, schema: Mapping[str, Any]) -> str:
    """The parameter that has the name of an option of ours, but one that means the same."""
    found = schema.get("properties")
    rules: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    spelled = flag.removeprefix("--")
    for name in (spelled, spelled.replace("-", "_")):
        rule = rules.get(name)
        if name in rules and not (isinstance(rule, Mapping) and rule.get(STEERS) is True):
            return name
    return ""


# --- parameters by schema -------------------------------------------------------------------------
# ``k=v`` and ``--k v`` mean what the item's schema says of k: text stays text where it may be text.

_OPEN = frozenset({"oneOf", "anyOf", "allOf", "$ref", "const", "enum"})
_MAX_REFERENCES = 16
_JSON_TYPES = frozenset({"number", "integer", "boolean", "array", "object", "null"})


def pairs_by_schema(texts: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """`pairs`, with values and flags as the schema of the item has them. Raises UsageError."""
    found = schema.get("properties")
    rules: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    values: dict[str, Any] = {}
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    rules = {
        name: {**shared, **rule} if isinstance(rule, Mapping) and shared else rule
        for name, rule in rules.items()
    }
    words = iter(texts)
    for text in words:
        if text.startswith(ITEM_FLAG):
            name, equals, value = text.removeprefix(ITEM_FLAG).partition("=")
            name = _property(name, rules)
            if not equals and _types(rules[name]) == {"boolean"}:
                values[name] = True
                continue
            value = value if equals else next(words, ITEM_FLAG)
            if value.startswith(ITEM_FLAG):
                raise UsageError(f"--{name}: expected a value", hint=f"--{name}=VALUE")
            values[name] = _with_word(values.get(name), value, rules[name])
            continue
        name, value = _pair(text)
        is_plain = text.startswith(f"{name}=") and isinstance(value, str)
        values[name] = _with_word(values.get(name), value, rules.get(name)) if is_plain else value
    return values


def _with_word(before: object, text: str, rules: object) -> Any:  # noqa: ANN401 - JSON
    """The value of a parameter after one more word: a list grows, of all others the last counts.

    A word is one element of a list, unless it is a list in JSON.
    """
    value = _typed_value(text, rules)
    if _types(rules) != {"array"} or isinstance(value, list) or not isinstance(rules, Mapping):
        return value
    return [*(before if isinstance(before, list) else ()), _typed_value(text, rules.get("items"))]


def _property(name: str, rules: Mapping[str, Any]) -> str:
    """The parameter that a flag names. Raises UsageError with the closest."""
    for spelled in (name, name.replace("-", "_")):
        if spelled in rules:
            return spelled
    from difflib import get_close_matches

    close = get_close_matches(name, [*rules, "dry-run", "trace", "timeout", "async", "json"], 1)
    known = ", ".join(f"--{one}" for one in rules)
    meant = f"did you mean --{close[0]}?" if close else f"the item takes {known or 'no flags'}"
    raise UsageError(f"rye run: unrecognized arguments: --{name}", hint=meant)


def _types(rules: object) -> set[str]:
    """The types that a value may have; none where the schema leaves it open."""
    said = rules.get("type") if isinstance(rules, Mapping) else None
    return set(said) if isinstance(said, list) else {said} if isinstance(said, str) else set()


def _typed_value(text: str, rules: object) -> Any:  # noqa: ANN401 - JSON
    """The value of a text: JSON where the schema allows no text, else the text itself."""
    types = _types(rules)
    if (types and types <= _JSON_TYPES) or (not types and _is_no_text(text, rules)):
        with suppress(ValueError, RecursionError):
            return _read_json(text)
        return text  # the schema's own error says what was expected
    return text


Place = Callable[[str, str], str]
"""Where a path of a parameter is; called with the parameter's name and what was typed."""


def in_shell(_: str, text: str) -> str:
    """A path that was typed, from the folder of the shell."""
    return str(Path.cwd() / Path(text).expanduser())


def in_project(session: Session) -> Place:
    """The same for a run on a node: relative to the project, which is there too."""

    def place(name: str, text: str) -> str:
        project = session.context.project_path
        path = Path(os.path.normpath(in_shell(name, text)))
        if project is None or not path.is_relative_to(project):
            raise UsageError(
                f"{name}: expected a path inside of the project, found {text!r:.200}",
                hint="a node has the project alone",
            )
        return path.relative_to(project).as_posix()

    return place


def with_paths(values: dict[str, Any], schema: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The parameters, each text that the schema marks ``format: path`` at its place.

    Also within lists and objects, and by references (``$ref``) inside of the schema.
    """
    placed: dict[str, Any] = _with_paths(values, schema, schema, "", place)
    return placed


def _with_paths(
    value: Any,  # noqa: ANN401 - JSON
    rules: object,
    root: Mapping[str, Any],
    name: str,
    place: Place,
) -> Any:  # noqa: ANN401 - JSON
    rules = _referred(rules, root)
    if isinstance(value, str):
        return place(name, value) if value and rules.get("format") == "path" else value
    if isinstance(value, list):
        first, rest = rules.get("prefixItems"), rules.get("items")
        first = first if isinstance(first, list) else []
        each = [*first[: len(value)], *[rest] * max(len(value) - len(first), 0)]
        return [
            _with_paths(one, its, root, name, place) for one, its in zip(value, each, strict=True)
        ]
    if isinstance(value, dict):
        listed, others = rules.get("properties"), rules.get("additionalProperties")
        known = listed if isinstance(listed, Mapping) else {}
        return {
            key: _with_paths(
                one, known.get(key, others), root, f"{name}.{key}" if name else key, place
            )
            for key, one in value.items()
        }
    return value


def _referred(rules: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rules, or those that they refer to; none for a circle or another document."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(rules, Mapping):
            return {}
        pointer = rules.get("$ref")
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return rules
        found: object = root
        for part in pointer.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        rules = found
    return {}


def _is_no_text(text: str, rules: object) -> bool:
    """Whether rules that name no type refuse the text and take the JSON that it is."""
    if not isinstance(rules, Mapping) or _OPEN.isdisjoint(rules):
        return False
    from lillux.schema import violations

    with suppress(LilluxError, ValueError, RecursionError):
        return bool(violations(text, rules)) and not violations(_read_json(text), rules)
    return False


def _readable(schema: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The schema of an item's inputs; empty where it cannot be read, which the run will say."""
    try:
        return schema()
    except LilluxError:
        return {}


def own_flags() -> dict[str, bool]:
    """The options of ``rye run``, and whether a value follows each."""
    from ryeos.app.commands import plain_arguments

    return plain_arguments(RUN).takes_value


def _show_inputs(session: Session) -> int:
    """Show what an item takes, as its own help."""
    from ryeos.app.item_help import inputs_text

    envelope, text = inputs_text(session.rye, session.arguments.ref)
    schema = envelope.get("input_schema") or {}
    both = [flag for flag in own_flags() if colliding_parameter(flag, schema)]
    if both:
        text += (
            f"\n\n{', '.join(both)}: options of rye too. For the item write NAME=VALUE, or the"
            " option behind --;\nfor rye the option before the item."
        )
    session.output.answer(envelope, text)
    return 0


def pairs(texts: Iterable[str]) -> dict[str, Any]:
    """``k=v``, ``k:=JSON`` and ``k@FILE``, the last of a name counts. Raises UsageError."""
    return dict(_pair(text) for text in texts)


def _read_source(source: str) -> str:
    if source == "-":
        data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    elif source.startswith("@"):
        data = _read_file(source[1:])
    else:
        return source
    if len(data) > MAX_INPUT_BYTES:
        raise UsageError(f"parameters: expected at most {MAX_INPUT_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "parameters are text; name a file by its path instead of sending its bytes"
        raise UsageError(f"{source}: expected UTF-8 text ({error.reason})", hint=hint) from None


def _read_file(name: str) -> bytes:
    try:
        return read_bytes(Path(name), MAX_INPUT_BYTES)
    except OSError as error:
        hint = "name a file that can be read, like --params @params.json"
        raise UsageError(f"{name}: {(error.strerror or str(error)).lower()}", hint=hint) from None


def json_object(source: str, where: str) -> dict[str, Any]:
    """The object in a text, ``@FILE``, or ``-`` for standard input. Raises UsageError."""
    text = _read_source(source)
    if not text.strip():
        return {}
    value = _json_value(text, where)
    if not isinstance(value, dict):
        raise UsageError(
            f"{where}: expected a JSON object, found {type(value).__name__}", hint=_JSON_HINT
        )
    return value


def _json_value(text: str, where: str) -> Any:  # noqa: ANN401 - JSON passes through
    try:
        return _read_json(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: expected JSON: {error}", hint=_JSON_HINT) from None


def _read_json(text: str) -> Any:  # noqa: ANN401 - JSON passes through
    """A value of which nothing is lost. Raises ValueError where something would be."""
    return json.loads(text, parse_float=_exact_number, object_pairs_hook=_object_of_one_name_each)


def _exact_number(text: str) -> float:
    """A number that comes out again as it was typed."""
    from decimal import Decimal

    number = float(text)
    if number not in {float("inf"), float("-inf")} and Decimal(text) != Decimal(repr(number)):
        raise ValueError(f"the number {text[:40]} would become {number!r}: say it as a text")
    return number


def _object_of_one_name_each(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(rows)
    if len(found) < len(rows):
        names = [name for name, _ in rows]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:40]!r} stands there twice")
    return found


def _pair(text: str) -> tuple[str, Any]:
    """``k=v`` text, ``k:=JSON``, ``k@FILE`` a file's text, ``k:=@FILE`` a file's JSON."""
    marks = [(text.find(mark), mark) for mark in (":=", "=", "@")]
    found = [(position, -len(mark), mark) for position, mark in marks if position > 0]
    if not found:
        raise UsageError(
            f"parameter {text!r}: expected k=v, k:=JSON or k@FILE", hint="see: rye run --help"
        )
    position, _, mark = min(found)
    name, value = text[:position], text[position + len(mark) :]
    if mark == "=":
        return name, value
    if mark == "@":
        return name, _read_source(value if value == "-" else f"@{value}")
    return name, _json_value(_read_source(value) if value.startswith("@") else value, name)


def timeout(seconds: float | None) -> float | None:
    """A limit as a person gave it. Raises UsageError."""
    if seconds is not None and not 0 <= seconds < float("inf"):
        raise UsageError(
            f"--timeout: expected seconds from 0 up, found {seconds}", hint="no limit: --timeout 0"
        )
    return seconds


def _require_supported(arguments: SimpleNamespace) -> None:
    if arguments.detached and arguments.dry_run:
        raise UsageError(
            "--async, --dry-run: expected one of them", hint="a dry run starts nothing to wait for"
        )
    if arguments.target != LOCAL and arguments.dry_run:
        raise UsageError("--target, --dry-run: expected one of them", hint="a dry run is made here")


def undo_ignored_child_signals() -> None:
    """Make exit codes known.

    A parent that ignores SIGCHLD passes that on, and exit codes of children get lost.
    """
    import signal

    if hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def live_stderr(chunk: bytes) -> None:
    """Pass on what a tool writes to standard error, as it comes."""
    sys.stderr.flush()
    sys.stderr.buffer.write(chunk)
    sys.stderr.buffer.flush()


RUN = CommandSpec(
    _configure_run,
    run,
    [
        "rye run rye/bash/bash command='ls -la'",
        "rye run mine/resize width=640 image@photo.txt",
        "rye run mine/resize --help",
        "rye run mine/resize --width 640",
        "echo '{\"width\": 640}' | rye run mine/resize --params -",
        "rye run directive:mine/review --dry-run",
        "rye run mine/report --sandbox network=none",
        "rye run mine/report --receipt on",
        "rye run mine/build --async",
    ],
    takes_item_flags=True,
)


# --- tool output ----------------------------------------------------------------------------------
# What a tool writes, shown as it comes, at a terminal and in a pipe.
#
# Standard output that is one JSON document is laid out at the end, and so is an object in its last
# line, which is the result. A traceback on standard error is held back: if the tool fails with it,
# its last line comes first.

_MAX_HELD_BYTES = 1024 * 1024
_MAX_DOUBT_BYTES = 16 * 1024
"""Of the start of standard output: whether it is JSON is asked so far, or not any more."""
# How the text begins that another traceback follows.
_LINKS = (b"During handling of", b"The above exception")


def may_be_json(data: bytes) -> bool:
    """Whether a beginning of a text may be one JSON document, as far as its whole lines say.

    Lines of a log may begin like one (``[INFO] ready``), and a document may stand on each line.
    """
    start = data.lstrip()
    if not start:
        return True
    if not start.startswith((b"{", b"[", b'"')):
        return False
    lines = start[: start.rfind(b"\n") + 1].decode("utf-8", "replace").rstrip()
    if not lines or len(data) > _MAX_DOUBT_BYTES:
        return True
    try:
        _, end = json.JSONDecoder().raw_decode(lines)
    except RecursionError:
        return True
    except json.JSONDecodeError as error:
        return error.pos >= len(lines)  # no line ends within a word of JSON
    return not start[len(lines[:end].encode()) :].strip()


class ToolOutput:
    """Passes on what a tool writes."""

    def __init__(self) -> None:
        from ryeos.run.outcomes import TRACEBACK

        self._marker = TRACEBACK.encode()
        # Of standard output: what might become JSON, and the last byte that was shown.
        self._unsure: bytearray | None = bytearray()
        # A last line that may be the result; how the last line that was shown begins, and ends.
        self._result = b""
        self._begins = b""
        self._last = b""
        self._problem: OSError | None = None
        # Of standard error: the last line so far, whether a part of it was passed on, a traceback,
        # and whether that one has its message.
        self._line = b""
        self._is_inside_line = False
        self._traceback = bytearray()
        self._has_message = False

    @property
    def was_shown(self) -> bool:
        """Whether its standard output is on the terminal already."""
        return bool(self._last)

    def stdout(self, chunk: bytes) -> None:
        """Pass on standard output, from its first line on, unless that may be the start of JSON."""
        if self._unsure is not None:
            # Kept no longer than the answer is in doubt: the run has all of it.
            if len(self._unsure) > _MAX_DOUBT_BYTES:
                return
            self._unsure += chunk
            if may_be_json(bytes(self._unsure)):
                return
            chunk, self._unsure = bytes(self._unsure), None
        self._pass_on(self._result + chunk)

    def _pass_on(self, text: bytes) -> None:
        """Show a text but for a last line that may be the result, however it comes in pieces."""
        start = text.rfind(b"\n", 0, len(text.rstrip())) + 1
        begins_line = self._last in (b"", b"\n")
        above, last = text[:start].rstrip(b"\n"), text[start:]
        at = above.rfind(b"\n") + 1
        if above and (at or begins_line):
            self._begins = above[at : at + 1]
        # Where the line above is an object too, it is a stream of them, which nothing holds.
        is_result = last[:1] == b"{" != self._begins and len(last) <= _MAX_HELD_BYTES
        if is_result and (start or begins_line):
            self._result = last
            self._show(text[:start])
            return
        if last.strip() and (start or begins_line):
            self._begins = last[:1]
        self._result = b""
        self._show(text)

    def _show(self, chunk: bytes) -> None:
        if not chunk or self._problem:
            return
        self._last = chunk[-1:]
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader is gone, which ends the run
            raise
        except OSError as error:
            self._problem = error

    @property
    def holds_result(self) -> bool:
        """Whether the last line, which may be the result, was not shown."""
        return bool(self._result)

    def require_shown(self) -> None:
        """Raise OutputError where standard output took not all of it."""
        if self._problem:
            raise OutputError.of_stream(self._problem)

    def stderr(self, chunk: bytes) -> None:
        """Pass on standard error, but for a traceback that may be its end."""
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if self._line and not self._traceback and not self._marker.startswith(self._line):
            self._write(self._line)
            self._line, self._is_inside_line = b"", True

    def end(self, *, has_failed: bool, drops_result: bool = False) -> str:
        """Leave nothing held back; the traceback with which the tool has failed, or ``""``.

        ``drops_result`` leaves a result out that is shown laid out.
        """
        self._show(b"" if drops_result else self._result)
        if self._last not in {b"", b"\n"}:
            self._show(b"\n")
        if self._line:
            self._take(self._line)
        text = self._traceback.decode("utf-8", "replace") if has_failed else ""
        if not has_failed:
            self._release()
        return text

    def _take(self, line: bytes) -> None:
        if self._is_inside_line:
            self._is_inside_line = False
            self._write(line)
            return
        if self._traceback and not self._belongs(line):
            self._release()
        if self._traceback or line.startswith(self._marker):
            self._traceback += line
            if len(self._traceback) > _MAX_HELD_BYTES:
                self._release()
        else:
            self._write(line)

    def _belongs(self, line: bytes) -> bool:
        """Whether a line continues the traceback: a frame, its message, or another one's."""
        if not line.strip() or line[:1].isspace():
            return True
        if line.startswith(_LINKS) and self._has_message:
            self._has_message = False
            return True
        if line.startswith(self._marker):
            return not self._has_message
        had_message, self._has_message = self._has_message, True
        return not had_message

    def _release(self) -> None:
        self._write(bytes(self._traceback))
        self._traceback.clear()
        self._has_message = False

    def _write(self, data: bytes) -> None:
        if data:
            sys.stderr.flush()
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
