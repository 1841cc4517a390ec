//! `lillux-watch`: waits until a thread has ended, and answers in JSON.
//!
//! The contract of both forms, this and the one in Python, is `PROTOCOL.md`.

mod arguments;
mod database;
mod folder;
mod waiting;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Request, USAGE, read};
use serde::Serialize;

const USAGE_ERROR: u8 = 2;
const INTERNAL: u8 = 1;
const TIMED_OUT: u8 = 124;

#[derive(Serialize)]
struct Answer<'a> {
    status: &'a str,
    thread_id: &'a str,
}

fn main() -> ExitCode {
    let watch = match read(lexopt::Parser::from_env()) {
        Ok(Request::Watch(watch)) => watch,
        Ok(Request::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprint!("lillux-watch: {problem}\n{USAGE}");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let status = waiting::await_status(&watch.db, &watch.thread_id, watch.timeout);
    let answer = Answer { status: &status, thread_id: &watch.thread_id };
    let line = serde_json::to_string(&answer).expect("text can be written as JSON") + "\n";
    if let Err(error) = std::io::stdout().write_all(line.as_bytes()) {
        eprintln!("lillux-watch: standard output: {error}");
        return ExitCode::from(INTERNAL);
    }
    if status == waiting::TIMEOUT && watch.exit_code {
        return ExitCode::from(TIMED_OUT);
    }
    ExitCode::SUCCESS
}
