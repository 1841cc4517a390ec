//! `spawn`: a program that goes on when this one ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::process::Stdio;

use crate::answers::Spawned;
use crate::arguments::Spawn;
use crate::{liveness, program};

/// Starts the program and says which number it has.
pub fn run(request: Spawn) -> Spawned {
    match start(&request) {
        Err(error) => Spawned::Failed { success: false, error },
        Ok(pid) => Spawned::Started {
            success: true,
            pid,
            start_token: request.show_start_token.then(|| liveness::start_token(pid.into())),
        },
    }
}

fn start(request: &Spawn) -> Result<u32, String> {
    let program = &request.program;
    let failed = |reason: String| format!("Failed to spawn: {reason}");
    let mut command = program::command(program).map_err(failed)?;
    let (stdout, stderr) = outputs(request)?;
    let stdin = input(&program.stdin).map_err(|error| failed(error.to_string()))?;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    detach(&mut command);
    let child = command.spawn().map_err(|error| failed(program::refusal(program, &error)))?;
    Ok(child.id())
}

fn outputs(request: &Spawn) -> Result<(Stdio, Stdio), String> {
    let Some(path) = &request.log else {
        return Ok((Stdio::null(), Stdio::null()));
    };
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let both = options.open(path).and_then(|log| Ok((log.try_clone()?, log)));
    let (first, second) =
        both.map_err(|error| format!("Failed to open log file: {}: {error}", path.display()))?;
    Ok((first.into(), second.into()))
}

/// Input from a file without a name, as a pipe would need a writer.
fn input(data: &[u8]) -> io::Result<Stdio> {
    if data.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = nameless_file()?;
    file.write_all(data)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(target_os = "linux")]
fn nameless_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("stdin", MemfdFlags::CLOEXEC).map(File::from)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless_file() -> io::Result<File> {
    tempfile::tempfile()
}

#[cfg(unix)]
fn detach(_: &mut std::process::Command) {} // it has a session of its own already

#[cfg(windows)]
fn detach(command: &mut std::process::Command) {
    use std::os::windows::process::CommandExt;
    use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS};

    command.creation_flags(CREATE_NEW_PROCESS_GROUP | DETACHED_PROCESS);
}
