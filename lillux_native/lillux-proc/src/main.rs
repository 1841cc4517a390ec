//! `lillux-proc`: runs, starts, ends and looks at processes, and answers in JSON.
//!
//! The contract of both forms, this and the one in Python, is `PROTOCOL.md`.

mod answers;
mod arguments;
mod capture;
mod detached;
mod ending;
mod exec;
#[cfg_attr(unix, path = "interruption_unix.rs")]
#[cfg_attr(windows, path = "interruption_windows.rs")]
mod interruption;
mod liveness;
mod program;
#[cfg_attr(unix, path = "pump_unix.rs")]
#[cfg_attr(windows, path = "pump_windows.rs")]
mod pump;
#[cfg_attr(target_os = "linux", path = "start_linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "start_std.rs")]
mod starting;
#[cfg(windows)]
mod windows;

use std::process::ExitCode;

use arguments::{Request, USAGE, read};

const USAGE_ERROR: u8 = 2;
const INTERNAL: u8 = 1;

fn main() -> ExitCode {
    let request = match read(lexopt::Parser::from_env()) {
        Ok(request) => request,
        Err(problem) => {
            eprint!("lillux-proc: {problem}\n{USAGE}");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let line = match request {
        Request::Help => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Request::Exec(request) => answers::line(&exec::run(request)),
        Request::Spawn(request) => answers::line(&detached::run(request)),
        Request::Kill(request) => answers::line(&ending::run(&request)),
        Request::Status(request) => answers::line(&liveness::run(&request)),
    };
    match answers::write(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lillux-proc: standard output: {error}");
            ExitCode::from(INTERNAL)
        }
    }
}
