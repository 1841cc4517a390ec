"""Names of a Python file that are written as texts, and what is bound by them."""

import ast
from collections.abc import Callable, Iterable, Iterator

from ryeos.items.python_texts import MAX_ROUNDS, ConstantTexts, elements_of_collection

_NAMESPACES = frozenset({"globals", "locals", "vars"})
_EXECUTES = frozenset({"exec", "eval"})
_BY_NAME = _EXECUTES | {"setattr", "delattr", "__setattr__", "__delattr__"}
_CHANGES = frozenset({"update", "setdefault", "pop", "__setitem__", "__delitem__", "__ior__"})
_THROUGH_NAMES = "is assigned through the names of the module"
_THROUGH_TEXT = "is assigned through a text"


class NamesByText:
    """Names that a file binds by a text: ``globals()["A"]``, ``setattr(m, "A", x)``, ``exec``.

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
        for _ in range(MAX_ROUNDS):  # a holder may be given to another one, above or below
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
        """True if an expression is ``globals()`` or its like, a ``__dict__``, or holds one."""
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
        """True if a variable with this value holds the names of a module.

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
                for one in elements_of_collection(series):
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
