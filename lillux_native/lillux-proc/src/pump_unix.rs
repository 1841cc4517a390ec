//! The pipes of a child and its end, on POSIX systems: no threads, one poll(2) over all of them.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::capture::Capture;
use crate::interruption::Interruption;

const CHUNK_BYTES: usize = 64 * 1024;

/// Our ends of a child's pipes.
pub struct Pipes {
    pub input: Option<PipeWriter>,
    pub output: PipeReader,
    pub error: PipeReader,
}

/// Moves what goes through the pipes, and notices the end of the child.
pub struct Pump {
    pub stdout: Capture,
    pub stderr: Capture,
    pub has_exited: bool,
    exit: OwnedFd,
    input: Option<Input>,
    output_pipe: Option<PipeReader>,
    error_pipe: Option<PipeReader>,
    buffer: Vec<u8>,
}

impl Pump {
    pub fn new(child: u32, pipes: Pipes, input: Vec<u8>, max_output: usize) -> Self {
        Self {
            stdout: Capture::new(max_output),
            stderr: Capture::new(max_output),
            has_exited: false,
            exit: exit_of(child),
            input: pipes.input.and_then(|pipe| Input::new(pipe, input)),
            output_pipe: Some(pipes.output),
            error_pipe: Some(pipes.error),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    /// Whether the child has ended and no process can write any more.
    pub fn is_drained(&self) -> bool {
        self.has_exited && self.output_pipe.is_none() && self.error_pipe.is_none()
    }

    /// Waits for news, no longer than that and not beyond an interruption, and takes it.
    pub fn step(&mut self, limit: Option<Duration>, interruption: &Interruption) {
        let [_, is_over, has_room, has_output, has_error] = ready(
            [
                interruption.file().map(|file| (file, PollFlags::IN)),
                (!self.has_exited).then(|| (self.exit.as_fd(), PollFlags::IN)),
                self.input.as_ref().map(|input| (input.pipe.as_fd(), PollFlags::OUT)),
                self.output_pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
                self.error_pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            ],
            limit,
        );
        self.has_exited |= is_over;
        if has_room {
            self.input = self.input.take().and_then(Input::go_on);
        }
        if has_output {
            read(&mut self.output_pipe, &mut self.buffer, &mut self.stdout);
        }
        if has_error {
            read(&mut self.error_pipe, &mut self.buffer, &mut self.stderr);
        }
    }
}

/// What is still to be written to a child that may not read it.
struct Input {
    pipe: PipeWriter,
    data: Vec<u8>,
    written: usize,
}

impl Input {
    fn new(pipe: PipeWriter, data: Vec<u8>) -> Option<Self> {
        rustix::io::ioctl_fionbio(&pipe, true).ok()?;
        Self { pipe, data, written: 0 }.go_on()
    }

    /// Writes as much as there is room for; `None`, and so the end for the child, when all is.
    fn go_on(mut self) -> Option<Self> {
        while self.written < self.data.len() {
            match self.pipe.write(&self.data[self.written..]) {
                Ok(size) => self.written += size,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(self),
                Err(_) => return None, // no process reads it any more, which is for the child to decide
            }
        }
        None
    }
}

/// Reads once, which does not block now, and closes the pipe at its end.
fn read(pipe: &mut Option<PipeReader>, buffer: &mut [u8], kept: &mut Capture) {
    let Some(open) = pipe else { return };
    match open.read(buffer) {
        Err(error) if error.kind() == ErrorKind::Interrupted => {}
        Ok(size) if size > 0 => kept.feed(&buffer[..size]),
        _ => *pipe = None,
    }
}

/// Of each file, whether what it is polled for is so: something is, or the time is over.
fn ready<const N: usize>(
    files: [Option<(BorrowedFd<'_>, PollFlags)>; N],
    limit: Option<Duration>,
) -> [bool; N] {
    let mut polled: Vec<PollFd<'_>> =
        files.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    if poll(&mut polled, limit.as_ref()).is_err() {
        return [false; N]; // a signal came in between: the caller looks again
    }
    let mut told = polled.iter().map(|file| !file.revents().is_empty());
    files.map(|file| file.is_some() && told.next().unwrap_or(false))
}

/// What can be read from when the child has ended. It is left unreaped: so its group can be signalled.
fn exit_of(child: u32) -> OwnedFd {
    let pid = Pid::from_raw(child.cast_signed()).expect("a child has a number");
    #[cfg(target_os = "linux")]
    if let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        return handle;
    }
    told_by_a_thread(pid)
}

/// The same where the system has no handles for processes: a pipe, closed at the child's end.
fn told_by_a_thread(pid: Pid) -> OwnedFd {
    let (reader, writer) = std::io::pipe().expect("a child has three pipes, and this is one more");
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        drop(writer);
    });
    reader.into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn more_than_a_pipe_holds_goes_through_a_child_and_back() {
        let ((stdin, input), (output, stdout)) = (pipe(), pipe());
        let (error, stderr) = pipe();
        let mut command = Command::new("cat");
        let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().expect("cat");
        drop(command); // and with it the child's ends of the pipes
        let pipes = Pipes { input: Some(input), output, error };
        let mut pump = Pump::new(child.id(), pipes, vec![b'x'; 1 << 20], 1 << 20);
        let interruption = Interruption::awaited().expect("signals can be taken");
        while !pump.is_drained() {
            pump.step(None, &interruption);
        }
        child.wait().expect("a child can be waited for");
        assert_eq!(pump.stdout.into_text(), ("x".repeat(1 << 20), false));
    }

    #[test]
    fn the_end_of_a_child_is_told_without_handles_for_processes_too() {
        let (stdin, input) = pipe();
        let mut child = Command::new("cat").stdin(stdin).spawn().expect("cat");
        let exit = told_by_a_thread(Pid::from_child(&child));
        let asked = || [Some((exit.as_fd(), PollFlags::IN))];
        assert_eq!(ready(asked(), Some(Duration::ZERO)), [false]);
        drop(input);
        assert_eq!(ready(asked(), None), [true]);
        child.wait().expect("a child can be waited for");
    }

    fn pipe() -> (PipeReader, PipeWriter) {
        std::io::pipe().expect("a pipe")
    }
}
