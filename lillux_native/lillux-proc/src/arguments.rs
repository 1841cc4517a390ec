//! The command line, read.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

pub const USAGE: &str = "\
usage: lillux-proc exec --cmd C [--arg A]... [--cwd D] [--env K=V]... [--timeout SECONDS=300]
                        [--stdin TEXT | --stdin-pipe] [--max-output BYTES=10485760]
       lillux-proc spawn --cmd C [--arg A]... [--cwd D] [--env K=V]... [--log FILE]
                         [--stdin TEXT | --stdin-pipe] [--show-start-token]
       lillux-proc kill --pid N [--grace SECONDS=3] [--start-token T] [--tree]
       lillux-proc status --pid N [--start-token T] [--show-start-token]
";
const COMMANDS: &str = "exec, spawn, kill, status";
/// Clocks of the system overflow on longer waits.
const LONGEST_S: f64 = 1e9;

/// What is asked for.
pub enum Request {
    Help,
    Exec(Exec),
    Spawn(Spawn),
    Kill(Kill),
    Status(Look),
}

/// A program to start.
#[derive(Default)]
pub struct Program {
    pub command: OsString,
    pub arguments: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Vec<u8>,
}

pub struct Exec {
    pub program: Program,
    /// `None` for no limit.
    pub timeout: Option<Duration>,
    pub max_output: usize,
}

pub struct Spawn {
    pub program: Program,
    pub log: Option<PathBuf>,
    pub show_start_token: bool,
}

pub struct Kill {
    pub pid: i64,
    pub grace: Duration,
    pub start_token: String,
    pub tree: bool,
}

pub struct Look {
    pub pid: i64,
    pub start_token: String,
    pub show_start_token: bool,
}

/// Every flag of every command, as far as it was given.
struct Given {
    command: Option<OsString>,
    program: Program,
    stdin: Option<OsString>,
    stdin_pipe: bool,
    timeout: Duration,
    max_output: usize,
    log: Option<PathBuf>,
    pid: Option<i64>,
    grace: Duration,
    start_token: String,
    show_start_token: bool,
    tree: bool,
}

/// The request of a command line, or what is wrong with it.
pub fn read(mut parser: Parser) -> Result<Request, String> {
    let word = match parser.next().map_err(|error| error.to_string())? {
        None => return Err(format!("expected one of {COMMANDS}, got nothing")),
        Some(Arg::Short('h') | Arg::Long("help")) => return Ok(Request::Help),
        Some(Arg::Value(word)) => word.to_string_lossy().into_owned(),
        Some(other) => return Err(format!("expected one of {COMMANDS}, got {}", shown(&other))),
    };
    let known: &[&str] = match word.as_str() {
        "exec" => &["cmd", "arg", "cwd", "env", "stdin", "stdin-pipe", "timeout", "max-output"],
        "spawn" => &["cmd", "arg", "cwd", "env", "stdin", "stdin-pipe", "log", "show-start-token"],
        "kill" => &["pid", "grace", "start-token", "tree"],
        "status" => &["pid", "start-token", "show-start-token"],
        _ => return Err(format!("expected one of {COMMANDS}, got {word}")),
    };
    let Some(given) = read_flags(&mut parser, known)? else {
        return Ok(Request::Help);
    };
    match word.as_str() {
        "exec" => Ok(Request::Exec(Exec {
            timeout: Some(given.timeout).filter(|limit| !limit.is_zero()),
            max_output: given.max_output,
            program: given.into_program()?,
        })),
        "spawn" => Ok(Request::Spawn(Spawn {
            log: given.log.clone(),
            show_start_token: given.show_start_token,
            program: given.into_program()?,
        })),
        "kill" => Ok(Request::Kill(Kill {
            pid: given.required_pid()?,
            grace: given.grace,
            start_token: given.start_token,
            tree: given.tree,
        })),
        _ => Ok(Request::Status(Look {
            pid: given.required_pid()?,
            start_token: given.start_token,
            show_start_token: given.show_start_token,
        })),
    }
}

impl Given {
    fn into_program(self) -> Result<Program, String> {
        let command = self.command.ok_or("--cmd: expected a value, got nothing")?;
        let stdin = match (self.stdin, self.stdin_pipe) {
            (Some(_), true) => return Err("--stdin-pipe: expected no --stdin beside it".into()),
            (Some(text), false) => text.into_encoded_bytes(),
            (None, true) => own_input()?,
            (None, false) => Vec::new(),
        };
        Ok(Program { command, stdin, ..self.program })
    }

    fn required_pid(&self) -> Result<i64, String> {
        self.pid.ok_or_else(|| "--pid: expected a value, got nothing".into())
    }
}

/// The flags behind the command's word; `None` when they ask for help.
fn read_flags(parser: &mut Parser, known: &[&str]) -> Result<Option<Given>, String> {
    let mut given = Given {
        command: None,
        program: Program::default(),
        stdin: None,
        stdin_pipe: false,
        timeout: Duration::from_secs(300),
        max_output: 10 * 1024 * 1024,
        log: None,
        pid: None,
        grace: Duration::from_secs(3),
        start_token: String::new(),
        show_start_token: false,
        tree: false,
    };
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        let name = match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long(name) if known.contains(&name) => name.to_owned(),
            other => return Err(format!("unknown argument {}", shown(&other))),
        };
        match name.as_str() {
            "stdin-pipe" => given.stdin_pipe = true,
            "show-start-token" => given.show_start_token = true,
            "tree" => given.tree = true,
            _ => {
                let value = parser
                    .value()
                    .map_err(|_| format!("--{name}: expected a value, got nothing"))?;
                take(&mut given, &name, value)?;
            }
        }
    }
    Ok(Some(given))
}

fn take(given: &mut Given, name: &str, value: OsString) -> Result<(), String> {
    match name {
        "cmd" => given.command = Some(value),
        "arg" => given.program.arguments.push(value),
        "cwd" => given.program.cwd = Some(value.into()),
        "env" => given.program.env.extend(env_entry(&value)),
        "stdin" => given.stdin = Some(value),
        "log" => given.log = Some(value.into()),
        "start-token" => given.start_token = value.to_string_lossy().into_owned(),
        "timeout" => given.timeout = seconds(name, &value)?,
        "grace" => given.grace = seconds(name, &value)?,
        "max-output" => {
            given.max_output =
                value.parse().map_err(|_| wrong(name, "bytes, 0 or more", &value))?;
        }
        _ => given.pid = Some(value.parse().map_err(|_| wrong(name, "a whole number", &value))?),
    }
    Ok(())
}

/// An entry that names nothing is passed over.
fn env_entry(entry: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = entry.as_encoded_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=')?;
    if equals == 0 {
        return None;
    }
    // SAFETY: split at an ASCII character, as `from_encoded_bytes_unchecked` asks for.
    let part = |bytes: &[u8]| unsafe { OsString::from_encoded_bytes_unchecked(bytes.to_vec()) };
    Some((part(&bytes[..equals]), part(&bytes[equals + 1..])))
}

fn seconds(name: &str, value: &OsStr) -> Result<Duration, String> {
    let number: f64 = value
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| wrong(name, "seconds, 0 or more", value))?;
    let shortest = if number > 0.0 { Duration::from_nanos(1) } else { Duration::ZERO };
    Ok(Duration::from_secs_f64(number.min(LONGEST_S)).max(shortest))
}

fn wrong(name: &str, expected: &str, value: &OsStr) -> String {
    format!("--{name}: expected {expected}, got {}", value.to_string_lossy())
}

fn shown(argument: &Arg) -> String {
    match argument {
        Arg::Short(letter) => format!("-{letter}"),
        Arg::Long(name) => format!("--{name}"),
        Arg::Value(value) => value.to_string_lossy().into_owned(),
    }
}

fn own_input() -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    std::io::stdin().read_to_end(&mut data).map_err(|error| format!("--stdin-pipe: {error}"))?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(words: &[&str]) -> Result<Request, String> {
        read(Parser::from_args(words))
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        let Ok(Request::Exec(exec)) =
            reading(&["exec", "--cmd", "-x", "--arg", "--arg", "--arg=-y"])
        else {
            panic!("expected a request");
        };
        assert_eq!(exec.program.command, "-x");
        assert_eq!(exec.program.arguments, ["--arg", "-y"]);
    }

    #[test]
    fn an_entry_of_the_environment_that_names_nothing_is_passed_over() {
        assert_eq!(env_entry(OsStr::new("A")), None);
        assert_eq!(env_entry(OsStr::new("=B")), None);
        assert_eq!(env_entry(OsStr::new("A=B=C")), Some(("A".into(), "B=C".into())));
    }

    #[test]
    fn seconds_are_numbers_that_can_be_waited_for() {
        for wrong in ["", "x", "-1", "nan", "inf"] {
            assert!(seconds("timeout", OsStr::new(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(seconds("grace", OsStr::new("0")), Ok(Duration::ZERO));
        assert_ne!(seconds("timeout", OsStr::new("1e-12")), Ok(Duration::ZERO));
    }

    #[test]
    fn a_timeout_of_0_is_no_limit_and_none_given_is_the_default() {
        for (words, limit) in [
            (&["exec", "--cmd", "x", "--timeout", "0"][..], None),
            (&["exec", "--cmd", "x"][..], Some(Duration::from_secs(300))),
        ] {
            let Ok(Request::Exec(exec)) = reading(words) else {
                panic!("expected a request");
            };
            assert_eq!(exec.timeout, limit);
        }
    }

    #[test]
    fn a_flag_of_another_command_is_unknown() {
        assert!(reading(&["status", "--pid", "1", "--tree"]).is_err());
    }
}
