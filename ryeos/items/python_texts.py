"""Texts of a Python file that are constant, though written in parts, and what is named by them.

``globals()["SAND" + "BOX"] = {}`` binds a name as ``SANDBOX = {}`` does. Nothing is executed: parts
are joined as Python would join them, as far as the text alone decides it.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from string import Formatter

_MAX_TEXTS = 16  # of one expression: a variable may have had several values
_MAX_CHARACTERS = 100_000
_MAX_METHOD_CHARACTERS = 1000
_MAX_DEPTH = 50
_MAX_ROUNDS = 10
_CHANGING_CASE: dict[str, Callable[[str], str]] = {
    "upper": str.upper, "lower": str.lower, "title": str.title, "strip": str.strip,
    "capitalize": str.capitalize, "swapcase": str.swapcase, "casefold": str.casefold,
    "lstrip": str.lstrip, "rstrip": str.rstrip, "encode": str, "decode": str,
}  # fmt: skip


class ConstantTexts:
    """The texts that expressions of one file can be."""

    def __init__(self, module: ast.AST) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        self._known: dict[int, tuple[ast.AST, list[str]]] = {}
        for node in ast.walk(module):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    self._values.setdefault(name, []).append(value)
                case (
                    ast.For(target=ast.Name(id=name), iter=series)
                    | ast.comprehension(target=ast.Name(id=name), iter=series)
                ):
                    self._values.setdefault(name, []).extend(_elements(series))
                case _:
                    continue

    def values(self, name: str) -> list[ast.expr]:
        """The expressions whose value a variable is given, anywhere in the file."""
        return self._values.get(name, [])

    def of(self, node: ast.AST, depth: int = 0) -> list[str]:
        """The texts that an expression can be; none where the file does not decide it."""
        if depth > _MAX_DEPTH:
            return []
        if id(node) not in self._known:
            # With the node, so that no other one gets its identity. Nothing for now, as a variable
            # may be made of itself.
            self._known[id(node)] = (node, [])
            found = self._found(node, depth + 1)
            self._known[id(node)] = (node, list(islice(found, _MAX_TEXTS)))
        return self._known[id(node)][1]

    def _found(self, node: ast.AST, depth: int) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(said)):
                yield said
            case ast.Constant(value=bytes(data)):
                yield data.decode("utf-8", "replace")
            case ast.Name(id=name):
                for one in self.values(name):
                    yield from self.of(one, depth)
            case ast.JoinedStr(values=parts):
                yield from self._joined("", parts, depth)
            case ast.BinOp(op=ast.Add()):
                yield from self._joined("", _addends(node), depth)
            case ast.IfExp(body=one, orelse=other):
                yield from (*self.of(one, depth), *self.of(other, depth))
            case ast.NamedExpr(value=value) | ast.FormattedValue(value=value, format_spec=None):
                yield from self.of(value, depth)
            case _:
                yield from self._made(node, depth)

    def _made(self, node: ast.AST, depth: int) -> Iterator[str]:
        """By an operator or a call: ``"%s" % "a"``, ``"".join(["a", "b"])``, ``"a".upper()``."""
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                parts = right.elts if isinstance(right, ast.Tuple) else [right]
                for form in self.of(left, depth):
                    yield from self._filled(form, parts)
            case ast.Subscript(value=value, slice=ast.Slice() as part):
                bounds = slice(*map(_number, (part.lower, part.upper, part.step)))
                if bounds.step != 0:
                    yield from (said[bounds] for said in self.of(value, depth))
            case ast.Call(func=ast.Attribute(value=value, attr=method)):
                for one in self.of(value, depth):
                    yield from self._called(one, method, node, depth)
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                yield from self.of(value, depth)
            case ast.Call(func=ast.Name(id="chr"), args=[ast.Constant(value=int(number))]):
                if 0 <= number <= sys.maxunicode:
                    yield chr(number)
            case _:
                return

    def _joined(self, between: str, parts: Iterable[ast.AST], depth: int) -> Iterator[str]:
        found = [self.of(one, depth) for one in parts]
        size = sum(max(map(len, one), default=0) for one in found) + len(between) * len(found)
        if size <= _MAX_CHARACTERS and all(found):
            yield from map(between.join, islice(product(*found), _MAX_TEXTS))

    def _filled(self, form: str, parts: list[ast.expr]) -> Iterator[str]:
        """``"%s" % parts``, where the form has nothing else."""
        pieces = form.split("%s")
        if "%" not in "".join(pieces) and len(pieces) == len(parts) + 1:
            yield from self._between(pieces, parts)

    def _between(self, pieces: list[str], parts: list[ast.expr]) -> Iterator[str]:
        """The pieces with a part between each two of them."""
        texts = [ast.Constant(value=one) for one in pieces]
        mixed = [one for pair in zip(texts, parts, strict=False) for one in pair]
        yield from self._joined("", [*mixed, *texts[len(parts) :]], 0)

    def _called(self, text: str, method: str, call: ast.Call, depth: int) -> Iterator[str]:
        """What a method of a text returns."""
        given = [self.of(one, depth) for one in call.args]
        if method == "format":
            yield from self._formatted(text, call)
        elif method == "join" and len(call.args) == 1:
            yield from self._joined(text, _elements(call.args[0]), depth)
            yield from (text.join(one) for said in given for one in said)
        elif len(text) > _MAX_METHOD_CHARACTERS:
            return
        elif method in _CHANGING_CASE:
            yield _CHANGING_CASE[method](text)
        elif method == "replace" and len(given) == len("ab"):
            for old, new in product(*given):
                if len(new) <= _MAX_METHOD_CHARACTERS:
                    yield text.replace(old, new)
        elif method in {"removeprefix", "removesuffix"} and len(given) == 1:
            yield from (getattr(text, method)(one) for one in given[0])

    def _formatted(self, form: str, call: ast.Call) -> Iterator[str]:
        """``"{}{a}".format(...)``, where no field asks for a form of its own."""
        given = {one.arg: one.value for one in call.keywords} | {
            str(number): one for number, one in enumerate(call.args)
        }
        pieces, parts = [""], list[ast.expr]()
        try:
            fields = list(Formatter().parse(form))
        except ValueError:
            return
        for before, name, spec, conversion in fields:
            pieces[-1] += before
            if name is None:
                continue
            value = given.get(name or str(len(parts)))
            if value is None or spec or conversion:
                return
            parts.append(value)
            pieces.append("")
        yield from self._between(pieces, parts)


def _elements(series: ast.expr) -> list[ast.expr]:
    return series.elts if isinstance(series, (ast.List, ast.Tuple, ast.Set)) else []


def _addends(node: ast.AST) -> list[ast.AST]:
    """What a chain of ``+`` adds: as a list, as a chain may be longer than Python may recurse."""
    found: list[ast.AST] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _number(node: ast.expr | None) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case _:
            return None


# --- names that are texts -------------------------------------------------------------------------

_NAMESPACES = frozenset({"globals", "locals", "vars"})
_EXECUTES = frozenset({"exec", "eval"})
_BY_NAME = _EXECUTES | {"setattr", "delattr", "__setattr__", "__delattr__"}
_CHANGES = frozenset({"update", "setdefault", "pop", "__setitem__", "__delitem__", "__ior__"})
_THROUGH_NAMES = "is assigned through the names of the module"
_THROUGH_TEXT = "is assigned through a text"


class NamesByText:
    """What a file binds through a text: ``globals()["A"]``, ``setattr(m, "A", x)``, ``exec``.

    Variables that hold the names of a module (``g = globals()``) count as these, and so do all
    parameters in a file that hands them to a function.
    """

    def __init__(self, module: ast.AST, names_in: Callable[[str], Iterable[str]]) -> None:
        """``names_in`` says which names a text binds when it is executed."""
        self._texts = ConstantTexts(module)
        self._names_in = names_in
        self._functions: dict[str, str] = {}
        self._holders: set[str] = set()
        nodes = list(ast.walk(module))
        for node in nodes:
            self._note_function(node)
        for _ in range(_MAX_ROUNDS):  # a holder may be given to another one, above or below
            before = len(self._holders)
            for node in nodes:
                self._note_holder(node, nodes)
            if len(self._holders) == before:
                break

    def bound(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """The names that one node binds by a text, each with how."""
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Store() | ast.Del()):
                while isinstance(value, ast.Subscript):  # a part of what the names say
                    key, value = value.slice, value.value
                if self._is_namespace(value):
                    yield from ((name, _THROUGH_NAMES) for name in self._texts.of(key))
            case ast.AugAssign(target=target, value=value):
                if self._is_namespace(target):
                    yield from ((name, _THROUGH_NAMES) for name in self._keys(value))
            case ast.Call():
                yield from self._called(node)
            case _:
                return

    def _called(self, call: ast.Call) -> Iterator[tuple[str, str]]:
        function = self._function(call.func)
        if function in _EXECUTES:
            for text in self._keys(*call.args[:1], *(one.value for one in call.keywords)):
                yield from ((name, _THROUGH_TEXT) for name in self._names_in(text))
            return
        value = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_change = function in _CHANGES and value is not None and self._is_namespace(value)
        is_given = any(map(self._is_namespace, call.args)) and function not in {"get", "print"}
        if is_change or is_given or function in _BY_NAME:
            arguments = call.args[: len("mn")] if function in _BY_NAME else call.args
            yield from ((name, _THROUGH_NAMES) for name in self._keys(*arguments))
            for one in call.keywords:
                names = [one.arg] if one.arg else self._keys(one.value)
                yield from ((name, _THROUGH_NAMES) for name in names)

    def _keys(self, *nodes: ast.expr) -> Iterator[str]:
        """The texts of expressions, of dictionaries the keys, of pairs the first."""
        left, seen = list(nodes), set[int]()
        while left:
            node = left.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if said := self._texts.of(node):
                yield from said
                continue
            match node:
                case ast.Name(id=name):
                    left += self._texts.values(name)
                case ast.Dict(keys=keys, values=values):
                    left += [
                        value if key is None else key
                        for key, value in zip(keys, values, strict=True)
                    ]
                case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                    left += [_first_of_pair(one) for one in elements]
                case ast.Call(args=arguments, keywords=keywords):
                    left += [*arguments, *(one.value for one in keywords if not one.arg)]
                    yield from (one.arg for one in keywords if one.arg)
                case _:
                    left += [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]

    def _note_function(self, node: ast.AST) -> None:
        """Note another name of ``exec``, ``globals`` and their like."""
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                function = "" if isinstance(value, ast.Subscript) else self._function(value)
                if function in _NAMESPACES | _BY_NAME:
                    self._functions[name] = function
            case ast.ImportFrom(names=names):
                for one in names:
                    if one.asname and one.name in _NAMESPACES | _BY_NAME:
                        self._functions[one.asname] = one.name
            case _:
                return

    def _function(self, node: ast.expr) -> str:
        """The name of a function that an expression is, ``""`` for another expression."""
        match node:
            case ast.Name(id=name):
                return self._functions.get(name, name)
            case ast.Attribute(attr=name):
                return name
            case ast.Call(func=ast.Name(id="getattr"), args=[_, name, *_]):
                return next(iter(self._texts.of(name)), "")
            case ast.Subscript(slice=key):
                return next(iter(self._texts.of(key)), "")
            case _:
                return ""

    def _is_namespace(self, node: ast.expr) -> bool:
        """Whether an expression is ``globals()`` or its like, a ``__dict__``, or holds one."""
        match node:
            case ast.Name(id=name):
                return name in self._holders
            case ast.Attribute(attr="__dict__"):
                return True
            case ast.NamedExpr(value=value):
                return self._is_namespace(value)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, name, *_]):
                return "__dict__" in self._texts.of(name)
            case ast.Call(func=function):
                return self._function(function) in _NAMESPACES
            case _:
                return False

    def _is_held(self, node: ast.expr) -> bool:
        """Whether a variable with this value holds the names of a module.

        ``vars(x)`` of another object does not, as of the options of a command line.
        """
        if isinstance(node, ast.Call) and self._function(node.func) == "vars" and node.args:
            said = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)}
            return bool(said & {"modules", "__name__", "__import__"})
        return self._is_namespace(node)

    def _note_holder(self, node: ast.AST, nodes: Iterable[ast.AST]) -> None:
        """Note the variables that one of a file's nodes gives the names of a module."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._hold(target, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._hold(target, value)
            case ast.For(target=target, iter=series):
                for one in _elements(series):
                    self._hold(target, one)
            case ast.arguments(defaults=defaults, kw_defaults=further):
                if any(one and self._is_held(one) for one in (*defaults, *further)):
                    self._hold_parameters([node])
            case ast.Call(func=ast.Name(id=name), args=arguments) if name not in _EXECUTES:
                if any(map(self._is_held, arguments)):
                    self._hold_parameters(nodes)
            case _:
                return

    def _hold(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _ if self._is_held(value):
                self._holders.add(name)
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for one, other in zip(targets, values, strict=False):
                    self._hold(one, other)
            case _:
                return

    def _hold_parameters(self, nodes: Iterable[ast.AST]) -> None:
        arguments = (node for node in nodes if isinstance(node, ast.arguments))
        for one in arguments:
            parameters = (*one.posonlyargs, *one.args, *one.kwonlyargs)
            self._holders.update(parameter.arg for parameter in parameters)


def _first_of_pair(node: ast.expr) -> ast.expr:
    """The key of ``("key", value)``; another element itself."""
    is_pair = isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len("kv")
    return node.elts[0] if is_pair and isinstance(node, (ast.Tuple, ast.List)) else node
