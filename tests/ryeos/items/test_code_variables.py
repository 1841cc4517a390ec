"""What is left of variables of the user that name code of a project."""

import sys

import pytest

from ryeos.items.code_variables import left_of_variables

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")

HOME, PROJECT = "/home/u", "/home/u/project"


def left(name: str, value: str) -> str:
    """What is left of one variable."""
    env = {"HOME": HOME, name: value}
    found = left_of_variables(env, "linux", lambda path: f"{path}/".startswith(f"{PROJECT}/"))
    return found.get(name, value)


GONE = {
    "PERL5OPT": ["-I.", "-I. -Mx", "-I lib -Mx", "-wI.", "-Mlib=lib", "-Mlib=/home/u/project/l"],
    "PERL5LIB": [".", "lib", "./lib", "/home/u/project/lib"],
    "PERLLIB": ["lib", "../lib"],
    "RUBYOPT": ["-I.", "-I lib -rx", "-wIlib", "-r./x", "-r/home/u/project/x"],
    "RUBYLIB": [".", "lib", "/home/u/project/lib"],
    "GEM_PATH": ["gems", "/home/u/project/gems"],
    "CLASSPATH": [".", "lib/a.jar", "/home/u/project/a.jar", "*"],
    "JAVA_TOOL_OPTIONS": [
        *("-javaagent:a.jar", "-javaagent:/home/u/project/a.jar=x", "-agentpath:./a.so"),
        *("-Xbootclasspath/a:a.jar", "-cp lib", "-Djava.ext.dirs=lib", "@options"),
    ],
    "JDK_JAVA_OPTIONS": ["-cp .", "--module-path mods", "--class-path=a.jar", "@options"],
    "_JAVA_OPTIONS": ["-XX:Flags=.hotspotrc", "--patch-module java.base=x"],
    "PAGER": ["./less", "bin/less", "/home/u/project/less -R", "sh ./less", "'./less' -R"],
    "EDITOR": ["./vi", "../vi", "~/project/vi", "env X=1 ./vi", "/usr/bin/vi -u/home/u/project/rc"],
    "VISUAL": ["./vi", "$PWD/vi"],
    "GIT_PAGER": ["./less", "cat|./less"],
    "GIT_EDITOR": ["./vi"],
    "LESSOPEN": ["|./filter %s"],
    "GIT_SSH_COMMAND": ["ssh -F ./config"],
}
KEPT = {
    "PERL5OPT": ["-Mstrict", "-I/opt/perl", "-w"],
    "PERL5LIB": ["/opt/perl:/usr/share/perl"],
    "RUBYOPT": ["-w", "-rjson", "-I/opt/ruby"],
    "CLASSPATH": ["/opt/a.jar:/opt/b.jar"],
    "JAVA_TOOL_OPTIONS": ["-Xmx1g -Dfile.encoding=UTF-8", "-javaagent:/opt/a.jar"],
    "PAGER": ["less", "less -R", "/usr/bin/less -R"],
    "EDITOR": ["vi", "~/bin/vi", "code --wait", "/usr/bin/vi -u/home/u/.vimrc"],
    "LESSOPEN": ["||/usr/bin/lesspipe.sh %s", "| /usr/bin/lesspipe %s"],
    "GIT_SSH_COMMAND": ["ssh -i ~/.ssh/id -o BatchMode=yes"],
}
PARTS = {
    "PERL5LIB": ("lib:/opt/perl", "/opt/perl"),
    "RUBYLIB": ("/opt/ruby:.", "/opt/ruby"),
    "CLASSPATH": ("a.jar:/opt/b.jar", "/opt/b.jar"),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GONE.items() for v in values])
def test_nothing_is_left_of_a_value_that_names_code_of_a_project(name: str, value: str) -> None:
    assert left(name, value) == ""


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in KEPT.items() for v in values])
def test_a_value_that_names_code_elsewhere_stays(name: str, value: str) -> None:
    assert left(name, value) == value


@pytest.mark.parametrize("name", PARTS)
def test_of_a_list_the_folders_outside_of_projects_are_left(name: str) -> None:
    value, expected = PARTS[name]

    assert left(name, value) == expected
