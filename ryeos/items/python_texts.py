"""Texts of a Python file that are constant, though written in parts.

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
MAX_ROUNDS = 10
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
                    self._values.setdefault(name, []).extend(elements_of_collection(series))
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
        """The text that a method of a text returns."""
        given = [self.of(one, depth) for one in call.args]
        if method == "format":
            yield from self._formatted(text, call)
        elif method == "join" and len(call.args) == 1:
            yield from self._joined(text, elements_of_collection(call.args[0]), depth)
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


def elements_of_collection(series: ast.expr) -> list[ast.expr]:
    """The elements of a list, a tuple or a set; none of anything else."""
    return series.elts if isinstance(series, (ast.List, ast.Tuple, ast.Set)) else []


def _addends(node: ast.AST) -> list[ast.AST]:
    """The parts that a chain of ``+`` adds, as a list: a chain may be too long for recursion."""
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
