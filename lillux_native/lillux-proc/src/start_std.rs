//! A start by the means of std, where they are good enough or there are no others.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::arguments::Program;

/// A file that a child has as one of its three streams.
pub type Stream = std::process::Stdio;

/// A process that was started.
pub type Child = std::process::Child;

/// Starts the file as the program, in a session of its own, with these streams and no other file.
pub fn start(
    program: &Program,
    file: &Path,
    [stdin, stdout, stderr]: [Stream; 3],
    is_detached: bool,
) -> io::Result<Child> {
    let mut command = Command::new(file);
    command.args(&program.arguments).envs(program.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    isolate(&mut command, program, is_detached);
    command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()
}

#[cfg(unix)]
fn isolate(command: &mut Command, program: &Program, _: bool) {
    use std::os::unix::process::CommandExt;

    crate::program::close_each_on_exec();
    command.arg0(&program.command);
    // SAFETY: setsid(2) may be called between fork and exec.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
}

#[cfg(windows)]
fn isolate(command: &mut Command, _: &Program, is_detached: bool) {
    use std::os::windows::process::CommandExt;
    use windows_sys::Win32::System::Threading::{
        CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, DETACHED_PROCESS,
    };

    let console = if is_detached { DETACHED_PROCESS } else { CREATE_NO_WINDOW };
    command.creation_flags(CREATE_NEW_PROCESS_GROUP | console);
}
