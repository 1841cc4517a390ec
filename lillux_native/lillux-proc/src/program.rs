//! The program to start: found, isolated, and a reason when the system refuses it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::Program;
use crate::starting::{self, Child, Stream};

/// Nothing to read, and nowhere to write to.
pub const NULL: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Starts the program from its file, in a session of its own. `is_detached`: it will outlive us.
pub fn start(
    program: &Program,
    file: &Path,
    streams: [Stream; 3],
    is_detached: bool,
) -> Result<Child, String> {
    starting::start(program, file, streams, is_detached).map_err(|error| refusal(program, &error))
}

/// The file to start, or what is wrong with the request.
pub fn startable(program: &Program) -> Result<PathBuf, String> {
    if program.command.is_empty() {
        return Err("--cmd: expected a program, got nothing".into());
    }
    if let Some(cwd) = program.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(format!("cwd: expected an existing directory, got {}", cwd.display()));
    }
    find(program)
}

/// Why it was not started.
fn refusal(program: &Program, error: &io::Error) -> String {
    format!("program {}: {}", program.command.to_string_lossy(), error.to_string().to_lowercase())
}

/// A name is looked up in the absolute directories of the child's PATH, anything else is a path.
///
/// Relative and empty entries are passed over: they would let a file of the working directory stand
/// in for a program of the machine.
fn find(program: &Program) -> Result<PathBuf, String> {
    let name = &program.command;
    if Path::new(name).components().count() > 1 || has_separator(name) {
        return Ok(name.into());
    }
    let path = search_path(program);
    for folder in env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        for file_name in file_names(name) {
            let candidate = folder.join(file_name);
            if is_executable(&candidate) {
                return Ok(candidate);
            }
        }
    }
    let path = path.to_string_lossy();
    Err(format!("program {}: not found, searched {path}", name.to_string_lossy()))
}

fn has_separator(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|byte| std::path::is_separator(char::from(*byte)))
}

fn search_path(program: &Program) -> OsString {
    let set = program.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = set.map(|(_, value)| value.clone()).or_else(|| env::var_os("PATH"));
    path.unwrap_or_else(|| if cfg!(windows) { "" } else { "/bin:/usr/bin" }.into())
}

#[cfg(unix)]
fn file_names(name: &OsStr) -> Vec<OsString> {
    vec![name.to_owned()]
}

#[cfg(windows)]
fn file_names(name: &OsStr) -> Vec<OsString> {
    let mut names = vec![name.to_owned()];
    for extension in [".com", ".exe", ".bat", ".cmd"] {
        let mut with = name.to_owned();
        with.push(extension);
        names.push(with);
    }
    names
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(windows)]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// No file that was handed to us is handed on: a child has its pipes and nothing else.
#[cfg(unix)]
pub fn close_each_on_exec() {
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::os::fd::BorrowedFd;

    let Ok(entries) = std::fs::read_dir("/dev/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // SAFETY: borrowed for one call, which fails for the one that was the listing's own.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
    }
}
