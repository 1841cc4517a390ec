"""What a text seems to declare is what is read of it, or the line is named."""

import pytest

from ryeos.items.declaration_search import may_have_unread_rights
from ryeos.items.declarations import unread_declarations, unread_rights
from ryeos.items.header_names import is_one_slip
from ryeos.items.header_values import MetadataError
from ryeos.items.headers import parse_header
from ryeos.items.refs import Kind
from ryeos.trust.extractors import extract

PYTHON = '"""t"""\n__version__ = "1.0.0"\n__tool_type__ = "python"\n__executor_id__ = "a/b"\n'
JAVASCRIPT = 'export const __version__ = "1.0.0";\nexport const __tool_type__ = "javascript";\n'
SHELL = "#!/bin/bash\n# version: 1.0.0\n# tool_type: bash\n# executor_id: a/b\n"
YAML = 'version: "1.0.0"\ntool_type: bash\nexecutor_id: a/b\n'
DIRECTIVE = (
    '# t\n\n```xml\n<directive name="t" version="1.0.0">\n<metadata>\n'
    "<description>d</description>\n</metadata>\n</directive>\n```\n"
)
KNOWLEDGE = '```yaml\nname: t\ntitle: t\nentry_type: reference\nversion: "1.0.0"\n```\n\nText.\n'

ONE = "SANDBOX = {}\n"


def lines(suffix: str, text: str, kind: Kind = Kind.TOOL) -> list[int]:
    """The lines that are refused."""
    header = extract(kind, suffix, text, "x")
    return [one.line for one in unread_declarations(kind, suffix, text, header)]


# --- python ---------------------------------------------------------------------------------------

REFUSED_IN_PYTHON = {
    "in a chain": ("X = SANDBOX = {}\n", [5]),
    "spread": ("N = {}\nSANDBOX = {**N}\n", [6]),
    "a call": ("SANDBOX = dict()\n", [5]),
    "a name": ("N = {}\nSANDBOX = N\n", [6]),
    "an f-string": ('__category__ = f"a{1}"\n', [5]),
    "concatenated": ('A = "a"\n__category__ = A + "b"\n', [6]),
    "a comprehension": ("SANDBOX = {k: [] for k in ()}\n", [5]),
    "in a branch": ("if True:\n    SANDBOX = {}\n", [6]),
    "in an else": ("if 0:\n    pass\nelse:\n    SANDBOX = {}\n", [8]),
    "in a loop": ("for _ in '1':\n    SANDBOX = {}\n", [6]),
    "as a loop's variable": ("for SANDBOX in [{}]:\n    pass\n", [5]),
    "in a try": ("try:\n    SANDBOX = {}\nfinally:\n    pass\n", [6]),
    "in a with": ("with open('x') as SANDBOX:\n    pass\n", [5]),
    "in a function": ("def f():\n    SANDBOX = {}\n", [6]),
    "global in a function": ("def f():\n    global SANDBOX\n    SANDBOX = {}\n", [7]),
    "in a class": ("class T:\n    SANDBOX = {}\n", [6]),
    "a class": ("class SANDBOX:\n    pass\n", [5]),
    "a type without a value": ("SANDBOX: dict\n", [5]),
    "unpacked": ("SANDBOX, X = {}, 1\n", [5]),
    "a walrus": ("print(SANDBOX := {})\n", [5]),
    "an exception": ("try:\n    pass\nexcept OSError as SANDBOX:\n    pass\n", [7]),
    "a pattern": ("match {}:\n    case SANDBOX:\n        pass\n", [6]),
    "imported": ("from x import SANDBOX\n", [5]),
    "imported as": ("import x as SANDBOX\n", [5]),
    "twice": (ONE + "x = 1\n" + 'SANDBOX = {"read": "any"}\n', [5]),
    "with another spelling": (ONE + "__sandbox__ = {}\n", [6]),
    "augmented": (ONE + 'SANDBOX |= {"read": "any"}\n', [6]),
    "deleted": (ONE + "del SANDBOX\n", [6]),
    "by an item": (ONE + 'SANDBOX["write"] = "any"\n', [6]),
    "by a method": (ONE + 'SANDBOX.update(write="any")\n', [6]),
    "inside by a method": ('SANDBOX = {"read": []}\nSANDBOX["read"].append("/")\n', [6]),
    "through globals": ('globals()["SANDBOX"] = {}\n', [5]),
    "updated globals": ("globals().update(SANDBOX={})\n", [5]),
    "updated vars": ('vars().update({"SANDBOX": {}})\n', [5]),
    "through setattr": ('import sys\nsetattr(sys.modules[__name__], "SANDBOX", {})\n', [6]),
    "through a dictionary": ('import sys\nsys.modules[__name__].__dict__["SANDBOX"] = {}\n', [6]),
    "as an attribute": ("import sys\nsys.modules[__name__].SANDBOX = {}\n", [6]),
    "executed": ('exec("SANDBOX = {}")\n', [5]),
    "Sandbox": ("Sandbox = {}\n", [5]),
    "small and computed": ("sandbox = dict()\n", [5]),
    "__SANDBOX__": ("__SANDBOX__ = {}\n", [5]),
    "SANDBOX_": ("SANDBOX_ = {}\n", [5]),
    "SAND_BOX": ("SAND_BOX = {}\n", [5]),
    "SANDBX": ("SANDBX = {}\n", [5]),
    "SANDBOXS": ("SANDBOXS = {}\n", [5]),
    "SNADBOX": ("SNADBOX = {}\n", [5]),
    "a Cyrillic letter": ("S\u0410NDBOX = {}\n", [5]),
    "full-width and twice": (ONE + "\uff33\uff21\uff2e\uff24\uff22\uff2f\uff38 = {}\n", [5]),
    "a shell's comment": ("# sandbox: {}\n", [5]),
    "a comment in quotes": ('# "sandbox": {}\n', [5]),
    "a comment in brackets": ("# (sandbox: {})\n", [5]),
    "a tag": ("# @sandbox none\n", [5]),
    "SANBDOX": ("SANBDOX = {}\n", [5]),
    "S_AN_DB_OX": ("S_AN_DB_OX = {}\n", [5]),
    "in a constant": ('CONFIG = {\n    "sandbox": {"write": []}}\n', [6]),
    "deep in a constant": ('ENV_CONFIG = {"a": [{"sandbox": {}}]}\n', [5]),
    "beside a block": ('SANDBOX = {}\nCONFIG = {"sandbox": {}}\n', [6]),
    "in letters of numbers": ('CONFIG = {"s\\x61ndbox": {}}\n', [1]),
    "the version": ('__version__ = "2.0.0"\n', [2]),
    "the executor": ('if True:\n    __executor_id__ = "c/d"\n', [6]),
    "the executor, imported": ("from x import __executor_id__\n", [5]),
    "Config_Schema": ("Config_Schema = {}\n", [5]),
    "EXECUTOR_ID": ('EXECUTOR_ID = "a/b"\n', [5]),
    "a schema, changed": ('CONFIG_SCHEMA = {}\nCONFIG_SCHEMA["a"] = 1\n', [6]),
    "inputs, computed": ("INPUTS = tuple()\n", [5]),
    "a shell's executor": ("# executor_id: c/d\n", [5]),
    "a shell's schema": ('# config_schema: {"type": "object"}\n', [5]),
    "another version in a comment": ("# version: 2.0.0\n", [5]),
    "a flag in a comment": ("# @retryable true\n", [5]),
    "small letters in a comment": ('# sandbox = {"write": []}\n', [5]),
    "a commented constant of another kind": ('# __executor_id__ = "c/d"\n', [5]),
    "a tag in a text": ('"""\n@version 2.0\n"""\n', [6]),
    "a sandbox in a text": ('"""\nsandbox: {"write": []}\n"""\n', [6]),
    "an executor far below": ("def f(): pass\n# executor_id: c/d\n", [6]),
    "an executor in a constant": ('CONFIG = {"executor_id": "c/d"}\n', [5]),
    "a key twice": ('SANDBOX = {"write": [],\n "programs": "none",\n "write": ["/"]}\n', [7]),
    "a key twice in parts": ('SANDBOX = {"write": [], "wr" "ite": ["/"]}\n', [5]),
    "a key of a schema twice": ('CONFIG_SCHEMA: dict = {"a": {"b": 1, "b": 2}}\n', [5]),
    "a key of a list twice": ('ENV_CONFIG = {"a": [{"unset": [], "unset": ["X"]}]}\n', [5]),
    "a part through globals": ('SANDBOX = {}\nglobals()["SANDBOX"]["write"] = []\n', [6]),
    "a loop over globals": ('for g in [globals()]:\n    g["SANDBOX"] = {}\n', [6]),
    "in two parts": ('globals()["SAND" + "BOX"] = {}\n', [5]),
    "in parts that are no words": ('globals()["SAN" + "DB" + "OX"] = {}\n', [5]),
    "an f-string as a name": ('globals()[f"SANDBOX"] = {}\n', [5]),
    "an f-string with a part": ("globals()[f\"{'SAN'}DBOX\"] = {}\n", [5]),
    "joined": ('vars()["".join(("SAN", "DBOX"))] = {}\n', [5]),
    "filled in": ('globals()["%s%s" % ("SAN", "DBOX")] = {}\n', [5]),
    "formatted": ('globals()["{}{b}".format("SAN", b="DBOX")] = {}\n', [5]),
    "in large letters": ('globals()["san\\x64box".upper()] = {}\n', [5]),
    "backwards": ('globals()["XOBDNAS"[::-1]] = {}\n', [5]),
    "of numbers": ('globals()[chr(83) + "ANDBO" + chr(88)] = {}\n', [5]),
    "a constant as a name": ('N = "SANDBOX"\nglobals()[N] = {}\n', [6]),
    "a loop over names": ('for n in ["SANDBOX"]:\n    globals()[n] = {}\n', [6]),
    "another name of globals()": ('g = globals()\ng["SANDBOX"] = {}\n', [6]),
    "another name of it again": ('def f():\n    h["SANDBOX"] = {}\ng = globals()\nh = g\n', [6]),
    "another name of globals": ('g = globals\ng()["SANDBOX"] = {}\n', [6]),
    "globals as a parameter": ('def f(g):\n    g["SANDBOX"] = {}\nf(globals())\n', [6]),
    "pairs": ('globals().update([("SANDBOX", {})])\n', [5]),
    "a dictionary by its name": ('D = {"SANDBOX": {}}\nglobals().update(D)\n', [6]),
    "a method of dict": ("dict.update(globals(), SANDBOX={})\n", [5]),
    "setitem": ('import operator\noperator.setitem(globals(), "SANDBOX", {})\n', [6]),
    "merged": ('g = globals()\ng |= {"SANDBOX": {}}\n', [6]),
    "executed in parts": ('exec("SAND" + "BOX={};x=1")\n', [5]),
    "executed twice": ("exec(\"exec('SANDBOX = {}')\")\n", [5]),
    "executed as bytes": ('exec(b"SANDBOX = {}")\n', [5]),
    "executed by another name": ('run = exec\nrun("SANDBOX = {}")\n', [6]),
    "compiled": ('code = compile("SANDBOX = {}", "x", "exec")\nexec(code)\n', [6]),
    "evaluated": ('eval("globals().update(SANDBOX={})")\n', [5]),
    "setattr by another name": ('import sys\ns = setattr\ns(sys, "SANDBOX", {})\n', [7]),
    "handed on": (ONE + 'S = SANDBOX\nS["write"] = []\n', [6]),
    "handed to a function": (ONE + "def f(s):\n    s.clear()\nf(SANDBOX)\n", [8]),
    "a method of it, handed on": (ONE + "clear = SANDBOX.clear\n", [6]),
    "a parameter": ("def f(SANDBOX):\n    pass\n", [5]),
    "a comment with a full-width colon": ("# sandbox\uff1a {}\n", [5]),
    "a comment with a right": ("# sandbox.write: []\n", [5]),
    "a right as a constant": ("SANDBOX_WRITE = []\n", [5]),
    "a right in a text": ('"""\nsandbox.network: none\n"""\n', [6]),
    "without its end": ('__version = "2.0.0"\n', [5]),
}


@pytest.mark.parametrize(("more", "expected"), REFUSED_IN_PYTHON.values(), ids=REFUSED_IN_PYTHON)
def test_a_python_file_that_seems_to_declare_is_refused_with_the_line(
    more: str, expected: list[int]
) -> None:
    assert lines(".py", PYTHON + more) == expected


ACCEPTED_IN_PYTHON = {
    "read once": ONE,
    "with a type": "SANDBOX: dict = {}\n",
    "used": ONE + "print(SANDBOX['read'], SANDBOX.get('read'), 'read' in SANDBOX)\n",
    "another block used": "CONFIG_SCHEMA = {}\nvalidate(CONFIG_SCHEMA)\nS = CONFIG_SCHEMA\n",
    "another mapping": 'import os\nos.environ["SANDBOX"] = "1"\nX = {"SANDBOX": {}}\n',
    "options": "o = vars(parse())\no['sandbox'] = True\nglobals()['CACHE'] = {}\n",
    "a pattern": 'import re\nP = re.compile("SANDBOX = {}")\ndict(SANDBOX={})\n',
    "code that is executed": "exec('print(1)  # in the sandbox')\nmodel.eval()\n",
    "an attribute": "def f(x):\n    x.run(x.SANDBOX, mode='sandbox')\n",
    "in a string": '"""Write SANDBOX = {} or # sandbox: {}"""\nTEXT = "SANDBOX = {}"\n',
    "in a text of many lines": "print('''\nSANDBOX = {}\n# sandbox: {}\n''')\n",
    "in prose": "# The SANDBOX of this tool is narrow: see sandbox, Sandbox.\n" + ONE,
    "code that was taken out": '# SANDBOX = {"network": "any"}\n' + ONE,
    "in a schema": 'CONFIG_SCHEMA = {"properties": {"sandbox": {}}}\n',
    "a switch": 'CONFIG = {"sandbox": True}\nDATA = {"sandbox": {}}\n',
    "a local": "def f(sandbox):\n    sandbox = sandbox or {}\n    config = {}\n",
    "a private name": "_sandbox = None\n",
    "a key twice elsewhere": 'COLORS = {"a": 1, "a": 2}\n',
    "a key on two levels": 'CONFIG_SCHEMA = {"type": "object", "properties": {"type": {}}}\n',
    "ordinary variables": 'name = "a"\nname = "b"\nconfig = dict()\nVERSION = "1"\n',
    "members of a class": 'class Kind:\n    CONFIG = "config"\n    INPUTS = 1\n',
    "a class of another library": "from e2b import Sandbox\n",
    "main": 'if __name__ == "__main__":\n    print()\n',
    "names with the words": "SANDBOX_ENV = 1\nsandbox_write = 2\n# sandbox.write: see rights\n",
    "inboxes": "INBOX = 1\nsandboxed_folder = 2\nSANDBAG = 3\n",
    "named functions": "def f():\n    f.__name__ = 'g'\n",
    "the same in a comment": "# version: 1.0.0\n# executor_id: a/b\n",
    "prose with a field's word": "# config: read from /etc\n# version: see the changelog\n",
    "arguments in a docstring": '"""\nArgs:\n  config: the settings\n  version: which one\n"""\n',
    "a version far below": "def f(): pass\n# version: 1.2.3\n# config: {'a': 1}\n",
    "a constant taken out": '# CONFIG = {"timeout": 1}\n',
    "tools of a model": 'TOOL = {"name": "a", "input_schema": {"type": "object"}}\n',
}


@pytest.mark.parametrize("more", ACCEPTED_IN_PYTHON.values(), ids=ACCEPTED_IN_PYTHON)
def test_python_code_that_declares_nothing_else_is_accepted(more: str) -> None:
    assert lines(".py", PYTHON + more) == []


def test_the_line_that_counts_is_named() -> None:
    text = PYTHON + ONE + "x = 1\n" + 'SANDBOX = {"read": "any"}\n'

    (found,) = unread_declarations(Kind.TOOL, ".py", text, parse_header(".py", text))

    assert str(found) == ("line 5: SANDBOX is assigned a second time; line 7 counts; remove one")
    assert parse_header(".py", text)["SANDBOX"] == {"read": "any"}


def test_a_module_may_use_what_only_tools_declare() -> None:
    text = "from ._version import __version__\nCONFIG_SCHEMA = None\nINPUTS = list()\n"
    header = parse_header(".py", text)

    assert not list(unread_declarations(Kind.TOOL, ".py", text, header, is_module=True))


# --- javascript -----------------------------------------------------------------------------------

REFUSED_IN_JAVASCRIPT = {
    "a call": ("const SANDBOX = Object.freeze({});\n", [3]),
    "a name": ("const N = {};\nconst SANDBOX = N;\n", [4]),
    "spread": ("const N = {};\nconst SANDBOX = {...N};\n", [4]),
    "another declarator": ("const A = 1, SANDBOX = {};\n", [3]),
    "in a block": ("if (true) { const SANDBOX = {}; }\n", [3]),
    "in a function": ("function f() { var SANDBOX = {}; }\n", [3]),
    "without a value": ("let SANDBOX;\n", [3]),
    "twice": ("var SANDBOX = {};\nvar SANDBOX = {read: 'any'};\n", [3]),
    "assigned": ("let SANDBOX = {};\nSANDBOX = {read: 'any'};\n", [4]),
    "augmented": ("let SANDBOX = {};\nSANDBOX ??= {};\n", [4]),
    "by a member": ("const SANDBOX = {};\nSANDBOX.write = 'any';\n", [4]),
    "by an index": ('const SANDBOX = {};\nSANDBOX["write"] = "any";\n', [4]),
    "by a method": ("const SANDBOX = {read: []};\nSANDBOX.read.push('/');\n", [4]),
    "by Object.assign": ("const SANDBOX = {};\nObject.assign(SANDBOX, {write: 'any'});\n", [4]),
    "of exports": ("exports.SANDBOX = {};\n", [3]),
    "of module.exports": ("module.exports.SANDBOX = {};\n", [3]),
    "by a text": ('exports["SANDBOX"] = {};\n', [3]),
    "defined": ('Object.defineProperty(exports, "SANDBOX", {value: {}});\n', [3]),
    "as a key": ("module.exports = { SANDBOX: {} };\n", [3]),
    "destructured": ("const { SANDBOX } = x;\n", [3]),
    "destructured later": ("let A;\n[A, SANDBOX] = [1, {}];\n", [4]),
    "imported": ('import { SANDBOX } from "./x.mjs";\n', [3]),
    "imported as": ('import { A as SANDBOX } from "./x.mjs";\n', [3]),
    "exported as": ("const A = {};\nexport { A as SANDBOX };\n", [4]),
    "exported from": ('export { SANDBOX } from "./x.mjs";\n', [3]),
    "Sandbox": ("const Sandbox = {};\n", [3]),
    "sandbox": ("const sandbox = {};\n", [3]),
    "SANDBX": ("const SANDBX = {};\n", [3]),
    "an escape": ("const SANDB\\u004fX = {};\n", [3]),
    "a line separator": ("// x\u2028const SANDBOX = {};\n", [3]),
    "a carriage return": ("// x\rconst SANDBOX = {};\n", [3]),
    "a comment of HTML": ("<!-- const SANDBOX = {};\n", [3]),
    "a shell's comment": ("// sandbox: {}\n", [3]),
    "a tag": ("/**\n * @sandbox {}\n */\n", [4]),
    "a tag without braces": ("/**\n * @sandbox none\n */\n", [4]),
    "a field in a comment": ('/**\n * sandbox: {"write": []}\n */\n', [4]),
    "an empty field": ("/**\n * sandbox:\n *   write: []\n */\n", [4]),
    "quoted in a comment": ('/* rights: "sandbox": {} */\n', [3]),
    "code in a comment": ("/* const SANDBOX = Object.freeze({}); */\n", [3]),
    "in a template": ("const T = `\nconst SANDBOX = {};\n`;\n", [4]),
    "a comment in a template": ("const T = `\n// sandbox: {}\n`;\n", [4]),
    "a string over lines": ("const T = 'a\\\nSANDBOX = {}';\n", [4]),
    "a regex behind a bracket": (
        'if (true) /`/.test("");\nexport const SANDBOX = {};\n/`/.test("");\n',
        [4],
    ),
    "on one line": ('if (1) /"/.test(""); const SANDBOX = {}; /"/.test("")\n', [3]),
    "behind a false comment": ("if (1) /[/*]/.test(''); SANDBOX = f(); /[*/]/.test('');\n", [3]),
    "in a constant": ("const CONFIG = {\n  sandbox: {write: []} };\n", [4]),
    "the version": ('const __version__ = "2.0.0";\n', [1]),
    "the executor": ('exports.__executor_id__ = "a/b";\n', [3]),
    "the executor in a comment": ("// executor_id: c/d\n", [3]),
    "a version in a comment": ("// version: 2.0.0\n", [3]),
    "a schema further down": ("function f() {}\n/* config_schema: {} */\n", [4]),
    "a template as a name": ("globalThis[`SANDBOX`] = {};\n", [3]),
    "given as a template": ("Reflect.set(globalThis, `SANDBOX`, {});\n", [3]),
    "in two parts": ('globalThis["SAND" + "BOX"] = {};\n', [3]),
    "in parts that are no words": ('globalThis["SAN" + ("DB" + `OX`)] = {};\n', [3]),
    "with a substitution": ('globalThis[`SAN${"D"}${"BOX"}`] = {};\n', [3]),
    "with an escape": ('globalThis["SANDB\\x4fX"] = {};\n', [3]),
    "joined": ('globalThis[["SAN", "DBOX"].join("")] = {};\n', [3]),
    "by concat": ('globalThis["SAN".concat("DBOX")] = {};\n', [3]),
    "in large letters": ('globalThis["sandbox".toUpperCase()] = {};\n', [3]),
    "a constant as a name": ('const n = "SAND" + "BOX";\nglobalThis[n] = {};\n', [4]),
    "a constant in parts": ('const a = "SAN";\nglobalThis[a + "DBOX"] = {};\n', [4]),
    "a computed key": ('Object.assign(exports, {["SAND" + "BOX"]: {}});\n', [3]),
    "pairs": ('Object.assign(exports, Object.fromEntries([["SANDBOX", {}]]));\n', [3]),
    "evaluated": ('eval("var SANDBOX = {}");\n', [3]),
    "evaluated outside": ('(0, eval)("var SANDBOX = {}");\n', [3]),
    "evaluated in parts": ('globalThis?.eval?.("var SAND" + `BOX = {}`);\n', [3]),
    "evaluated by an index": ('globalThis["eval"]("SANDBOX = {}");\n', [3]),
    "evaluated by another name": ('const run = eval;\nrun("SANDBOX = {}");\n', [4]),
    "evaluated twice": ("eval(\"eval('SANDBOX = {}')\");\n", [3]),
    "a function of a text": ('new Function("globalThis.SANDBOX = {}")();\n', [3]),
    "a constructor": ('(() => {}).constructor("SANDBOX = {}")();\n', [3]),
    "a script": ('vm.runInThisContext("var SANDBOX = {}");\n', [3]),
    "applied": ('Reflect.apply(eval, null, ["SANDBOX = {}"]);\n', [3]),
    "a text behind a tag": ("Function`SANDBOX = {}`();\n", [3]),
    "deleted by a text": ('delete exports["SANDBOX"];\n', [3]),
    "exported by default, in parts": ('export default {["sand" + "box"]: {}};\n', [3]),
    "of exports.default": ("exports.default = {sandbox: {}};\n", [3]),
    "of exports by a text": ('module["exports"] = {sandbox: {}};\n', [3]),
    "a timer": ('setTimeout("SANDBOX = {}", 1);\n', [3]),
    "handed on": ('const SANDBOX = {};\nconst S = SANDBOX;\nS.write = "any";\n', [4]),
    "handed to a function": ("const SANDBOX = {};\nclear(SANDBOX);\n", [4]),
    "in another object": ("const SANDBOX = {};\nconst all = { SANDBOX };\n", [4]),
    "a generator": ("export function* SANDBOX() {}\n", [3]),
    "an async generator": ("export async function* SANDBOX() {}\n", [3]),
    "exported as a whole": ('export * as SANDBOX from "node:fs";\n', [3]),
    "exported as a text": ('export * as "SANDBOX" from "node:fs";\n', [3]),
    "exported with a text": ('const A = {};\nexport { A as "SANDBOX" };\n', [4]),
    "caught": ("try { f(); } catch (SANDBOX) {}\n", [3]),
    "a parameter": ("function f(a, SANDBOX) {}\n", [3]),
    "a parameter of an arrow": ("const f = (SANDBOX) => 1;\n", [3]),
    "a parameter alone": ("const f = SANDBOX => 1;\n", [3]),
    "a parameter in braces": ("const f = ({ a, SANDBOX }) => 1;\n", [3]),
    "exported by default": ("export default {sandbox: {write: []}};\n", [3]),
    "exported by default, quoted": ('export default {a: {}, "Sandbox": {}};\n', [3]),
    "exported by default, computed": ("export default {\nget sandbox() {} };\n", [4]),
    "exported by default in a call": ("export default tool({\nsandbox: {} });\n", [4]),
    "of an exported object": ("module.exports = {sandbox: {}};\n", [3]),
    "a schema, exported by default": ("export default {config_schema: {}};\n", [3]),
    "a comment with a full-width colon": ("// sandbox\uff1a {}\n", [3]),
    "a comment with a right": ("// sandbox.write: []\n", [3]),
    "a tag with a right": ("/** @sandbox.write none */\n", [3]),
    "a right as a constant": ("const SANDBOX_WRITE = [];\n", [3]),
    "the executor as a variable": ('const executorId = "a/b";\n', [3]),
}

JSDOC = "/**\n * @version 1.0.0\n * @tool_type javascript\n * @executor_id a/b\n * %s\n */\n%s\n"

REFUSED_IN_JSDOC = {
    "a schema": ('@config_schema {"type": "object"}', "", [5]),
    "a flag": ("@retryable true", "", [5]),
    "an environment": ('@env_config {"unset": ["X"]}', "", [5]),
    "a config": ('@config {"timeout": 1}', "", [5]),
    "in other letters": ("@Version 2.0.0", "", [5]),
    "prose in other letters": ("@Description other", "", [5]),
    "in one word": ("@executorId c/d", "", [5]),
    "without the mark": ("executor_id: c/d", "", [5]),
    "twice": ("@version 2.0.0", "", [2]),
    "a second comment": ("", "/** @version 2.0.0 */", [7]),
    "a plain comment": ("", "/* @executor_id c/d */", [7]),
    "a constant with another value": ("", 'export const __executor_id__ = "c/d";', [4]),
}


@pytest.mark.parametrize(
    ("tag", "below", "expected"), REFUSED_IN_JSDOC.values(), ids=REFUSED_IN_JSDOC
)
def test_tags_that_are_not_what_is_read_are_refused_with_the_line(
    tag: str, below: str, expected: list[int]
) -> None:
    assert lines(".mjs", JSDOC % (tag, below)) == expected


@pytest.mark.parametrize(
    ("tag", "below"),
    [
        ("@param {Object} config the settings", 'export const __version__ = "1.0.0";'),
        ("@name x", "/** @description Runs it. */\nexport function execute() {}"),
        ("", "// config: read from /etc\n// version: see the changelog"),
        ("", "function f() {}\n/** @version 1.2.3 */\nfunction g() {}"),
    ],
)
def test_other_tags_are_accepted(tag: str, below: str) -> None:
    assert lines(".mjs", JSDOC % (tag, below)) == []


@pytest.mark.parametrize(
    ("more", "expected"), REFUSED_IN_JAVASCRIPT.values(), ids=REFUSED_IN_JAVASCRIPT
)
def test_a_javascript_file_that_seems_to_declare_is_refused_with_the_line(
    more: str, expected: list[int]
) -> None:
    assert lines(".mjs", JAVASCRIPT + more) == expected


TWICE_IN_JAVASCRIPT = {
    "rights": ("export const SANDBOX = {write: [],\n write: ['/']};\n", 4),
    "rights, once quoted": ('export const SANDBOX = {write: [], "write": ["/"]};\n', 3),
    "rights with an escape": ('const SANDBOX = {write: [], "wr\\x69te": ["/"]};\n', 3),
    "a schema": ("const CONFIG_SCHEMA = {required: [], required: ['a']};\n", 3),
    "inside": ("const ENV_CONFIG = {a: [{b: 1,\n\nb: 2}]};\n", 5),
}


@pytest.mark.parametrize(("more", "line"), TWICE_IN_JAVASCRIPT.values(), ids=TWICE_IN_JAVASCRIPT)
def test_a_key_twice_in_a_block_of_javascript_is_no_header(more: str, line: int) -> None:
    with pytest.raises(MetadataError, match=f"line {line}: .*expected each key once"):
        lines(".mjs", JAVASCRIPT + more)


ACCEPTED_IN_JAVASCRIPT = {
    "a key twice elsewhere": "const COLORS = {a: 1, a: 2};\n",
    "a key on two levels": "const CONFIG_SCHEMA = {type: 'object', a: {type: 1}};\n",
    "read once": "export const SANDBOX = {};\n",
    "as const": "export const SANDBOX = { read: ['/a'] } as const;\n",
    "satisfies": "export const SANDBOX = {} satisfies Rights;\n",
    "with a type": "const SANDBOX: Rights = {};\n",
    "used": "const SANDBOX = {};\nf(SANDBOX.read, SANDBOX['a'], 'a' in SANDBOX, typeof SANDBOX);\n",
    "listed": "const SANDBOX = {};\nf(Object.keys(SANDBOX), x.SANDBOX);\n",
    "another block used": "const CONFIG_SCHEMA = {};\nvalidate(CONFIG_SCHEMA);\n",
    "a member of a class": "class T { static sandbox = {write: []} }\n",
    "code that is evaluated": "eval('1 + 1'); new Function('return sandbox');\n",
    "prose": "f('write SANDBOX = {} ' + 'in the header', x instanceof Function);\n",
    "calls": "if (sandbox) { run(sandbox, `in the sandbox ${name}`); }\n",
    "an export by default": "export default {name: 'x', version: 1, run() {}, config: {}};\n",
    "arrows": "const f = sandbox => sandbox.run();\nxs.map((sandbox) => sandbox);\n",
    "a map": "m.set('SANDBOX', 1); new Map([['SANDBOX', 1]]);\n",
    "exported": "const SANDBOX = {};\nexport { SANDBOX };\nmodule.exports = { SANDBOX };\n",
    "in a template": "const T = `\n  the const SANDBOX = {}; or sandbox: {}\n`;\n",
    "an attribute in a template": 'const T = `<iframe\n  sandbox="allow-scripts">`;\n',
    "a slash that divides": "const a = (1 + 2) / 3; const T = 'const SANDBOX = {}';\n",
    "prose in a comment": "/**\n * The sandbox: see docs. Write SANDBOX = {...} yourself.\n */\n",
    "other keys": "const CONFIG = { sandbox: true, other: { sandbox: 'docker' } };\n",
    "in a string": "const T = 'const SANDBOX = {}';\n",
    "in prose": "// SANDBOX = what may be done, see sandbox\n",
    "ordinary": "const f = (sandbox) => { const config = {}; return config; };\n",
    "keys": "const S = { type: 'object', properties: { version: {}, config: {} } };\n",
    "compared": "if (x.SANDBOX == 1 || x.SANDBOX === 2) { f(x.SANDBOX <= 3); }\n",
}


@pytest.mark.parametrize("more", ACCEPTED_IN_JAVASCRIPT.values(), ids=ACCEPTED_IN_JAVASCRIPT)
def test_javascript_that_declares_nothing_else_is_accepted(more: str) -> None:
    assert lines(".mjs", JAVASCRIPT + more) == []


# --- shell ----------------------------------------------------------------------------------------

REFUSED_IN_SHELL = {
    "below a command": ("set -e\n# sandbox: {}\n", [6]),
    "indented below": ("f() {\n  # sandbox: {}\n}\n", [6]),
    "behind a command": ("true # sandbox: {}\n", [5]),
    "Sandbox": ("# Sandbox: {}\n", [5]),
    "SANDBX": ("# sandbx: {}\n", [5]),
    "two marks": ("## sandbox: {}\n", [5]),
    "no colon": ("# sandbox {}\n", [5]),
    "twice": ('# sandbox: {}\n# sandbox: {"read": "any"}\n', [6]),
    "a form feed above": ("\x0c\n# sandbox: {}\n", [6]),
    "exported": ("export SANDBOX={}\n", [5]),
    "indented assignment": ("if true; then\n  SANDBOX={}\nfi\n", [6]),
    "the version again": ("# version: 2.0.0\n", [5]),
    "the version assigned": ('echo\n__version__="2.0.0"\n', [6]),
    "the version computed": ("echo\n__version__=$(date)\n", [6]),
    "the version in a branch": ('if true; then\n  __version__="2.0.0"\nfi\n', [6]),
    "the version in a heredoc": ('cat <<EOF\n__version__="2.0.0"\nEOF\n', [6]),
    "the executor below": ("echo\n# executor_id: c/d\n", [6]),
    "another schema": ('# config_schema: {}\n# input_schema: {"a": 1}\n', [6]),
    "a schema below": ("echo\n# config_schema: {}\n", [6]),
    "Tool_Type": ("# Tool_Type: python\n", [5]),
    "in a heredoc": ("cat <<'EOF'\n# sandbox: {}\nEOF\n", [6]),
    "in an indented heredoc": ("cat <<-EOF\n\t# sandbox: {}\n\tEOF\n", [6]),
    "in a string": ("echo '\n# sandbox: {}\n'\n", [6]),
    "assigned in a string": ("echo '\nexport SANDBOX={}\n'\n", [6]),
    "a shift that is no heredoc": (": $((1<<true))\n# sandbox: {}\ntrue\n", [6]),
    "SANBDOX": ("# SANBDOX: {}\n", [5]),
    "S_A_N_D_B_O_X": ("# S_A_N_D_B_O_X: {}\n", [5]),
    "in quotes": ('# "sandbox": {}\n', [5]),
    "in brackets": ("# (sandbox: {})\n", [5]),
    "behind words": ("# rights of this tool: sandbox: {}\n", [5]),
    "with equals": ("# my sandbox = {}\n", [5]),
    "with an arrow": ("# my sandbox => {}\n", [5]),
    "in two words": ("# sand box: {}\n", [5]),
    "with a line": ("# sand-box: {}\n", [5]),
    "in Markdown": ("# **sandbox**: {}\n", [5]),
    "a list": ("# - sandbox: {}\n", [5]),
    "a quote that is no heredoc": ("echo '<<EOF'\n# sandbox: {}\n", [6]),
    "a flag": ("# retryable: true\n", [5]),
    "an environment": ('# env_config: {"unset": ["X"]}\n', [5]),
    "a config": ('# config: {"timeout": 1}\n', [5]),
    "a config over lines": ("# config: {\n# }\n", [5]),
    "a schema with a line": ("# config-schema: {}\n", [5]),
    "a schema in one word": ("# configSchema: {}\n", [5]),
    "parameters": ('# parameters: {"type": "object"}\n', [5]),
    "Executor_Id": ("# Executor_Id: c/d\n", [5]),
    "in two words again": ("# executor id: c/d\n", [5]),
    "an executor with equals": ("# executor_id = c/d\n", [5]),
    "prose in other letters": ("# Description: other\n", [5]),
    "a Cyrillic letter": ("# \u0435xecutor_id: c/d\n", [5]),
    "a variable": ("EXECUTOR_ID=c/d\n", [5]),
    "a block as a variable": ("export ENV_CONFIG='{\"a\": 1}'\n", [5]),
    "a full-width colon": ("# sandbox\uff1a {}\n", [5]),
    "a ratio": ("# sandbox\u2236 {}\n", [5]),
    "a full-width equals sign": ("# sandbox \uff1d {}\n", [5]),
    "an arrow": ("# sandbox \u2192 {}\n", [5]),
    "full-width braces": ("# sandbox\uff1a \uff5b\uff5d\n", [5]),
    "a blank that is not seen": ("# sandbox\u200b\u2009: {}\n", [5]),
    "an executor with a full-width colon": ("# executor_id\uff1a c/d\n", [5]),
    "a right with a dot": ("# sandbox.write: []\n", [5]),
    "a right in a word": ("# sandbox.write: none\n", [5]),
    "a right with a line": ("# sandbox_write: []\n", [5]),
    "a right with a slash": ("echo\n# sandbox/network = none\n", [6]),
    "the version is prose": ("# version: see the changelog\n", [5]),
}


@pytest.mark.parametrize(("more", "expected"), REFUSED_IN_SHELL.values(), ids=REFUSED_IN_SHELL)
def test_a_script_that_seems_to_declare_is_refused_with_the_line(
    more: str, expected: list[int]
) -> None:
    assert lines(".sh", SHELL + more) == expected


ACCEPTED_IN_SHELL = {
    "read once": "# sandbox: {}\nset -e\n",
    "without a blank": "#sandbox: {}\n",
    "over lines": '# sandbox: {"read":\n#   ["/a"]}\n',
    "prose in a heredoc": "cat <<'EOF'\nwrite # sandbox: {}\n# the sandbox\nEOF\n",
    "Python in a heredoc": "cat <<'EOF' >x.py\nSANDBOX = {}\nEOF\n",
    "on the line of a string": "echo '# sandbox: {}'\n",
    "prose in the header": "# What may be done, the sandbox {...}, is below.\n",
    "prose": "echo\n# version: see below\n# The sandbox is small\nname=$1\nversion=$2\n",
    "an ordinary variable": "sandbox=$(mktemp -d)\n",
    "the same again": "# version: 1.0.0\n",
    "a quote in a comment": "echo\n# don't\nsandbox=1\n",
    "files of a sandbox": "echo\n# sandbox.py: the code\n# sandbox/write.sh: {a}\n",
    "prose about rights": "# Here sandbox.write says what a sandbox writes\u2026\n",
    "variables of a sandbox": "SANDBOX_ENV=prod\nsandbox_write=1\n",
    "prose with a field's word": "# config: read from /etc\n# outputs: one line [or two]\n",
    "keys of a schema": '# config_schema: {"properties":\n#   {"config": {"type": "object"},\n'
    '#    "version": {}}}\nset -e\n',
    "prose far below": 'echo\n# version: see the changelog\n# config: {"a": 1}\n',
    "a variable of many scripts": "CONFIG='{\"timeout\": 1}'\nconfig=/etc/x\n",
}


@pytest.mark.parametrize("more", ACCEPTED_IN_SHELL.values(), ids=ACCEPTED_IN_SHELL)
def test_a_script_that_declares_nothing_else_is_accepted(more: str) -> None:
    assert lines(".sh", SHELL + more) == []


# --- data -----------------------------------------------------------------------------------------

REFUSED_DATA = {
    "Sandbox": (".yaml", YAML + "Sandbox: {}\n", [4]),
    "SANDBX": (".yaml", YAML + "sandbx: {}\n", [4]),
    "two spellings": (".yaml", YAML + "sandbox: {}\nSANDBOX: {read: any}\n", [4]),
    "two schemas": (".yaml", YAML + "config_schema: {}\ninput_schema: {a: 1}\n", [5]),
    "executor-id": (".yaml", YAML + "executor-id: c/d\n", [4]),
    "taken in": (".yaml", "x-a: &a {sandbox: {}}\n" + YAML + "<<: *a\nsandbox: {read: any}\n", [5]),
    "a Cyrillic letter": (".yaml", YAML + "s\u0430ndbox: {}\n", [4]),
    "of JSON": (".json", '{"tool_type": "x",\n"Sandbox": {}}', [2]),
    "inside": (".yaml", YAML + "config:\n  script: a\n  sandbox: {}\n", [6]),
    "inside on one line": (".yaml", YAML + "env_config: {sandbox: {}}\n", [4]),
    "inside in other letters": (".yaml", YAML + "config: {Sandbx: {write: []}}\n", [4]),
    "inside of unknown keys": (".yaml", YAML + "metadata: {a: [{sandbox: none}]}\n", [4]),
    "inside without a value": (".yaml", YAML + "config:\n  sandbox:\n", [5]),
    "inside beside a block": (".yaml", YAML + "sandbox: {}\nconfig:\n  sandbox: {}\n", [6]),
    "inside of JSON": (".json", '{"tool_type": "x",\n"config": {"sandbox": {}}}', [2]),
    "below a table of TOML": (".toml", 'tool_type = "x"\n[config]\nsandbox = {}\n', [3]),
    "a table of TOML": (".toml", 'tool_type = "x"\n[config.sandbox]\nread = []\n', [2]),
    "a text of TOML": (".toml", 'tool_type = "x"\n[config]\nsandbox = "{}"\n', [3]),
    "an executor inside": (".yaml", YAML + "config:\n  executor_id: c/d\n", [5]),
    "an executor deep inside": (".yaml", YAML + "config: {a: [{executor_id: c/d}]}\n", [4]),
    "a schema inside": (".yaml", YAML + "config: {config_schema: {type: object}}\n", [4]),
    "a flag inside": (".yaml", YAML + "config:\n  retryable: true\n", [5]),
    "an environment inside": (".yaml", YAML + "metadata: {env_config: {unset: [X]}}\n", [4]),
    "a flag of TOML": (".toml", 'tool_type = "x"\n[config]\nretryable = true\n', [3]),
    "a comment in the form of a shell": (".yaml", YAML + '# sandbox: {"write": []}\n', [4]),
    "an indented comment": (".yaml", YAML + "config:\n  # sandbox: none\n  a: 1\n", [5]),
    "a comment behind a key": (".yaml", YAML + "a: '# b' # sandbox: {}\n", [4]),
    "a comment behind a bar": (".yaml", YAML + "a: | # sandbox: {}\n  b\n", [4]),
    "a comment over lines": (".yaml", YAML + "# sandbox:\n#   write: []\n", [4]),
    "a schema in a comment": (".yaml", YAML + '# config_schema: {"type": "object"}\n', [4]),
    "a comment of a script": (".yaml", YAML + "config:\n  a: |\n    # sandbox: {}\n", [6]),
    "a comment of TOML": (".toml", 'tool_type = "x"\n# sandbox: {"write": []}\n', [2]),
    "a comment of TOML with equals": (".toml", 'tool_type = "x"\n# sandbox = {}\n', [2]),
    "a comment behind a key of TOML": (".toml", 'tool_type = "x" # sandbox: {}\n', [1]),
    "a right with a dot": (".yaml", YAML + "sandbox.write: []\n", [4]),
    "a right with a slash": (".yaml", YAML + "sandbox/write: []\n", [4]),
    "a right with another colon": (".yaml", YAML + "sandbox\uff1awrite: []\n", [4]),
    "a right with a line": (".yaml", YAML + "sandbox_write: []\n", [4]),
    "a right in one word": (".yaml", YAML + "sandboxWrite: []\n", [4]),
    "a right inside": (".yaml", YAML + "config: {sandbox.write: []}\n", [4]),
    "a right of TOML": (".toml", 'tool_type = "x"\n"sandbox.write" = []\n', [2]),
    "a right of JSON": (".json", '{"tool_type": "x",\n"sandbox.network": []}', [2]),
    "a merge inside": (
        ".yaml",
        YAML + 'sandbox:\n  <<: {write: []}\n  programs: any\n  write: ["/"]\n',
        [5],
    ),
    "a merge inside by a name": (
        ".yaml",
        YAML + "x-a: &a {write: []}\nsandbox:\n  <<: [*a]\n",
        [6],
    ),
    "a merge inside an alias": (".yaml", YAML + "x-a: &a\n  <<: {write: []}\nsandbox: *a\n", [5]),
    "a merge of a schema": (
        ".yaml",
        YAML + "config_schema:\n  a:\n    <<: {b: 1}\n    b: 2\n",
        [7],
    ),
    "of TOML": (".toml", 'tool_type = "x"\nSandbox = {}\n', [2]),
}


@pytest.mark.parametrize(("suffix", "text", "expected"), REFUSED_DATA.values(), ids=REFUSED_DATA)
def test_a_key_that_seems_to_declare_is_refused_with_the_line(
    suffix: str, text: str, expected: list[int]
) -> None:
    assert lines(suffix, text) == expected


@pytest.mark.parametrize(
    "more",
    [
        "sandbox: {}\n",
        "x-sandbox: {}\n",
        "x-a: {sandbox: {}}\n",
        "config_schema: {properties: {Sandbox: {}}}\n",
        "parameters: [{name: sandbox, sandbox: {}}]\n",
        "config: {params: {sandbox: {}}, env: {SANDBOX: none}}\n",
        "config: {sandbox: true}\n",
        "config: {sandbox: {enabled: true}, name: sandbox}\n",
        "config: {params: {executor_id: a/b}, env: {RETRYABLE: x}}\n",
        "config: {listed: {inputSchema: {type: object}}, version: 2, inputs: {}}\n",
        "x-a: {executor_id: a/b}\n",
        "# The sandbox of this tool: see docs\n# sandbox.md says more on sandbox.write\n",
        'description: "write # sandbox: {} at the top" # what the sandbox: header says\n',
        "# category: other\n# executor_id: c/d\n# config_schema: see below\n",
        "x-a: &a {timeout: 1}\nconfig:\n  <<: *a\n  timeout: 2\n",
        "config: {sandbox_write: true, sandboxed: [], sandbox_env: {a: b}}\nsandbox_env: x\n",
    ],
)
def test_other_keys_are_accepted(more: str) -> None:
    assert lines(".yaml", YAML + more) == []


# --- markdown -------------------------------------------------------------------------------------

BLOCK = '```xml\n<directive name="t" version="1.0.0">\n</directive>\n```\n'

REFUSED_MARKDOWN = {
    "a second block": (Kind.DIRECTIVE, DIRECTIVE + BLOCK, [11]),
    "a block in other letters": (Kind.DIRECTIVE, BLOCK.replace("xml", "XML") + DIRECTIVE, [2]),
    "a block of tildes": (Kind.DIRECTIVE, BLOCK.replace("```", "~~~") + DIRECTIVE, [2]),
    "an element outside": (Kind.DIRECTIVE, DIRECTIVE + "<directive name='x'/>\n", [10]),
    "front matter": (Kind.DIRECTIVE, "---\npermissions: all\n---\n" + DIRECTIVE, [1]),
    "two metadata": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</directive>", "<metadata>\n</metadata>\n</directive>"),
        [8],
    ),
    "permissions outside": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</directive>", "<permissions>*</permissions>\n</directive>"),
        [8],
    ),
    "Limits": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", '<Limits turns="1"/></metadata>'),
        [7],
    ),
    "an attribute of another element": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("<metadata>", '<metadata version="2.0.0">'),
        [5],
    ),
    "Version of a directive": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace(' version="1', ' Version="2.0.0" version="1'),
        [4],
    ),
    "a version as an element": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", "<version>2.0.0</version></metadata>"),
        [7],
    ),
    "one slip from permissions": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", "<permission>*</permission></metadata>"),
        [7],
    ),
    "permissions inside of another element": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</directive>", "<config><a>\n<permissions/></a></config>\n</directive>"),
        [9],
    ),
    "permissions inside of an element of the metadata": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", "<rights><permissions/></rights></metadata>"),
        [7],
    ),
    "permissions of a namespace": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</directive>", '<x:permissions xmlns:x="u"/>\n</directive>'),
        [8],
    ),
    "limits of a namespace": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", '<x:limits xmlns:x="u"/></metadata>'),
        [7],
    ),
    "a sandbox": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</directive>", "<Sandbox>{}</Sandbox>\n</directive>"),
        [8],
    ),
    "a sandbox inside of another element": (
        Kind.DIRECTIVE,
        DIRECTIVE.replace("</metadata>", "<config><sandbox/></config></metadata>"),
        [7],
    ),
    "a sandbox in the body": (Kind.DIRECTIVE, DIRECTIVE + "\n<x:sandbox>{}</x:sandbox>\n", [11]),
    "permissions in the body": (
        Kind.DIRECTIVE,
        DIRECTIVE + "\n<permissions><execute>*</execute></permissions>\n",
        [11],
    ),
    "front matter below a block": (
        Kind.KNOWLEDGE,
        KNOWLEDGE.replace("\n\nText.", "\n\n---\nversion: 2.0.0\n---\n"),
        [8],
    ),
    "front matter and a block": (Kind.KNOWLEDGE, "---\nname: x\n---\n```yaml\na: 1\n```\n", None),
    "two front matters": (
        Kind.KNOWLEDGE,
        '---\nname: t\nversion: "1.0.0"\n---\n\n---\nname: x\n---\n',
        [6],
    ),
    "Version": (Kind.KNOWLEDGE, KNOWLEDGE.replace("version", "Version"), [5]),
}


@pytest.mark.parametrize(
    ("kind", "text", "expected"), REFUSED_MARKDOWN.values(), ids=REFUSED_MARKDOWN
)
def test_a_second_header_of_a_text_is_refused_with_the_line(
    kind: Kind, text: str, expected: list[int] | None
) -> None:
    if expected is None:
        with pytest.raises(Exception, match="expected one header"):
            lines(".md", text, kind)
    else:
        assert lines(".md", text, kind) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.DIRECTIVE, DIRECTIVE),
        (Kind.DIRECTIVE, DIRECTIVE + "\n````md\n" + BLOCK + "````\n"),
        (Kind.DIRECTIVE, DIRECTIVE + "\n```xml\n<permissions>*</permissions>\n```\n"),
        (Kind.DIRECTIVE, DIRECTIVE + "\nUse `<directive>` so.\n\n---\n\nMore.\n"),
        (Kind.KNOWLEDGE, KNOWLEDGE),
        (Kind.KNOWLEDGE, KNOWLEDGE + "\n```yaml\nversion: 2\nsandbox: {}\n```\n"),
        (Kind.KNOWLEDGE, '---\nname: t\nversion: "1.0.0"\n---\n\nText.\n\n---\n\nMore.\n'),
    ],
)
def test_examples_and_rules_in_a_text_are_accepted(kind: Kind, text: str) -> None:
    assert lines(".md", text, kind) == []


# --- searches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["sandbox", "sandbx", "sandboxs", "snadbox", "sandbux", "andbox"])
def test_one_slip_is_near(word: str) -> None:
    assert is_one_slip(word, "sandbox")


@pytest.mark.parametrize("word", ["sandboxed", "sandbag", "inbox", "sand", "box", "", "snabdox"])
def test_more_is_not_near(word: str) -> None:
    assert not is_one_slip(word, "sandbox")


@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".py", PYTHON + more) for more, _ in REFUSED_IN_PYTHON.values()]
    + [(".mjs", JAVASCRIPT + more) for more, _ in REFUSED_IN_JAVASCRIPT.values()]
    + [(".sh", SHELL + more) for more, _ in REFUSED_IN_SHELL.values()],
)
def test_the_quick_search_of_a_run_misses_no_rights(suffix: str, text: str) -> None:
    found = [
        one for one in unread_rights(suffix, text) if one.name.isidentifier() and one.name in text
    ]
    has_rights = "sandbox" in extract(Kind.TOOL, suffix, text, "x")

    assert not found or may_have_unread_rights(text, has_rights=has_rights)
