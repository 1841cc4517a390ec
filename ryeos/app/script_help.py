"""``--help`` of scripts that a person wants to import.

They run where they can do nothing.

(1) after the person agreed, and never for a dry run
(2) the bytes that were read are written to an empty folder, which is all they can read
(3) no network, no other program, no variable, nothing to write; where the system cannot hold
    that, the script is not run
(4) its packages are wheels, which run nothing when they are installed
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lillux.errors import LilluxError
from lillux.files import write_atomic
from lillux.values import replace
from ryeos.app.workspace import Rye
from ryeos.imports.plan import ImportPlan, ProposedItem, ScriptProbe
from ryeos.items.rights import Rights

MAX_SCRIPTS = 40
_TIMEOUT_S, _OUTPUT_BYTES = 20.0, 256 * 1024
_ENV = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "TYPER_USE_RICH": "0",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def with_help(rye: Rye, plan: ImportPlan) -> ImportPlan:
    """The plan, its scripts with the arguments that their ``--help`` says."""
    done = 0
    items: list[ProposedItem] = []
    for item in plan.items:
        if item.probe is None or item.problems or done >= MAX_SCRIPTS:
            items.append(item)
            continue
        from ryeos.imports.python_scripts import with_arguments

        done += 1
        try:
            page, problem = help_page(rye, item.probe), ""
        except LilluxError as error:
            page, problem = "", str(error)
        items.append(with_arguments(item, page, problem))
    return replace(plan, items=tuple(items))


def help_page(rye: Rye, probe: ScriptProbe) -> str:
    """The output of a script for ``--help``. Raises RyeError where it cannot be confined."""
    from lillux.process import ProcessManager
    from lillux.process.model import Command
    from ryeos.run.confinement import CallRights
    from ryeos.run.sandbox_policy import Level

    runner = ProcessManager()
    with TemporaryDirectory(prefix="rye-help-") as name:
        folder = Path(name).resolve()
        python = _python(rye, probe, folder)
        work = folder / "script"
        work.mkdir()
        write_atomic(work / "script.py", probe.data)
        rights = Rights(read=(str(work),), write=(), network=(), programs=(), env=())
        # The folder of an environment, whose packages the script imports.
        home = Path(python).parent.parent
        own = (home,) if (home / "pyvenv.cfg").is_file() else ()
        held = CallRights(level=Level.STRICT, rights=rights, declared_by="--help", own_files=own)
        env = {**_ENV, "PATH": str(Path(python).parent)}
        outcome = runner.run(
            Command(
                argv=(python, "-I", "-B", str(work / "script.py"), "--help"),
                env=env,
                cwd=work,
                timeout_s=_TIMEOUT_S,
                max_output_bytes=_OUTPUT_BYTES,
                leaves_nothing=True,
                confinement=held.confinement(python, env),
            )
        )
    return outcome.stdout.data.decode("utf-8", "replace")


def _python(rye: Rye, probe: ScriptProbe, folder: Path) -> str:
    """The interpreter that has the script's packages. Raises PackagesError."""
    if probe.block is None:
        return sys.executable
    from lillux.process import ProcessManager
    from ryeos.run.package_installer import Installer
    from ryeos.run.packages import ENVIRONMENTS, PackageList

    context = rye.context
    installer = Installer(ProcessManager(), context.own_environment, context.platform)
    requirements = installer.resolve(probe.block, sys.executable, folder)
    place = context.spaces.user.ai / ENVIRONMENTS
    listed = PackageList(None, requirements)
    return installer.python_with(listed, sys.executable, place, make=True)
