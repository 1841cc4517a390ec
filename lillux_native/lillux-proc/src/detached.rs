//! `spawn`: a program that goes on when this one ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::Path;

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
    let file = program::startable(program).map_err(failed)?;
    let [stdout, stderr] = outputs(request)?;
    let stdin = input(&program.stdin).map_err(|error| failed(error.to_string()))?;
    let streams = [stdin.into(), stdout.into(), stderr.into()];
    let child = program::start(program, &file, streams, true).map_err(failed)?;
    Ok(child.id())
}

/// Both at the end of the log: a run that is continued keeps the log of its first half.
fn outputs(request: &Spawn) -> Result<[File; 2], String> {
    let mut options = OpenOptions::new();
    let path = match &request.log {
        Some(path) => {
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            path.as_path()
        }
        None => {
            options.write(true);
            Path::new(program::NULL)
        }
    };
    let both = options.open(path).and_then(|log| Ok([log.try_clone()?, log]));
    both.map_err(|error| format!("Failed to open log file: {}: {error}", path.display()))
}

/// Input from a file without a name, as a pipe would need a writer.
fn input(data: &[u8]) -> io::Result<File> {
    if data.is_empty() {
        return File::open(program::NULL);
    }
    let mut file = nameless_file()?;
    file.write_all(data)?;
    file.rewind()?;
    Ok(file)
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
