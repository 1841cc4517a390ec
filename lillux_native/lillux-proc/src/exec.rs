//! `exec`: a program run to its end, its output captured, nothing left behind.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::answers::Executed;
use crate::arguments::Exec;
use crate::capture::Capture;
use crate::program;

/// Between TERM and KILL for a group that should end.
const GRACE: Duration = Duration::from_secs(2);
/// How long a pipe may stay open once the child has ended or was killed.
const DRAIN: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS_IN_FLIGHT: usize = 16;
const NOT_RUN: i32 = -1;

/// What the threads tell the one that waits.
enum News {
    Output(Vec<u8>),
    Error(Vec<u8>),
    Closed,
    Exited,
}

/// Runs the program and says what came of it.
pub fn run(request: Exec) -> Executed {
    let started = Instant::now();
    match start(&request) {
        Err(reason) => not_run(&reason),
        Ok(child) => Run::new(child, request).finish(started),
    }
}

fn start(request: &Exec) -> Result<Child, String> {
    let program = &request.program;
    let has_input = !program.stdin.is_empty();
    program::command(program)?
        .stdin(if has_input { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| program::refusal(program, &error))
}

fn not_run(reason: &str) -> Executed {
    Executed {
        success: false,
        stdout: String::new(),
        stderr: format!("Failed to spawn: {reason}"),
        return_code: NOT_RUN,
        duration_ms: 0.0,
        truncated: false,
        signal: None,
    }
}

/// A child and its pipes, all moved at the same time by a thread each.
struct Run {
    child: Child,
    timeout: Duration,
    news: Receiver<News>,
    stdout: Capture,
    stderr: Capture,
    open_outputs: usize,
    has_exited: bool,
}

impl Run {
    fn new(mut child: Child, request: Exec) -> Self {
        let (tell, news) = sync_channel(CHUNKS_IN_FLIGHT);
        if let Some(pipe) = child.stdin.take() {
            thread::spawn(move || feed(pipe, &request.program.stdin));
        }
        if let Some(pipe) = child.stdout.take() {
            let tell = tell.clone();
            thread::spawn(move || read(pipe, &tell, News::Output));
        }
        if let Some(pipe) = child.stderr.take() {
            let tell = tell.clone();
            thread::spawn(move || read(pipe, &tell, News::Error));
        }
        let exit = exit_of(&child);
        thread::spawn(move || {
            exit();
            let _ = tell.send(News::Exited);
        });
        Self {
            child,
            timeout: request.timeout,
            news,
            stdout: Capture::new(request.max_output),
            stderr: Capture::new(request.max_output),
            open_outputs: 2,
            has_exited: false,
        }
    }

    fn finish(mut self, started: Instant) -> Executed {
        let timeout = self.timeout;
        let in_time = self.pump_until(timeout, |run| run.has_exited);
        if !in_time {
            end_group(&self.child, false);
            if !self.pump_until(GRACE, |run| run.has_exited) {
                end_group(&self.child, true);
            }
        }
        self.pump_until(DRAIN, |run| run.has_exited && run.open_outputs == 0);
        // Before the child is reaped: until then the group's number is ours.
        end_group(&self.child, true);
        let status = if self.has_exited || self.pump_until(DRAIN, |run| run.has_exited) {
            self.child.wait().ok()
        } else {
            None // not even KILL ends what took another user's rights
        };
        let (stdout, stdout_cut) = self.stdout.into_text();
        let (mut stderr, stderr_cut) = self.stderr.into_text();
        if !in_time {
            let notice = format!("Command timed out after {} seconds", plain(timeout));
            stderr = if stderr.is_empty() { notice } else { format!("{notice}\n{stderr}") };
        }
        let ended = status.filter(|_| in_time);
        let code = ended.and_then(|status| status.code()).unwrap_or(NOT_RUN);
        Executed {
            success: code == 0,
            stdout,
            stderr,
            return_code: code,
            duration_ms: (started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
            truncated: stdout_cut || stderr_cut,
            signal: ended.and_then(signal_of),
        }
    }

    /// Takes news until something is so, no longer than that; whether it came to be.
    fn pump_until(&mut self, limit: Duration, is_reached: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !is_reached(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.news.recv_timeout(left) {
                Ok(News::Output(chunk)) => self.stdout.feed(&chunk),
                Ok(News::Error(chunk)) => self.stderr.feed(&chunk),
                Ok(News::Closed) => self.open_outputs -= 1,
                Ok(News::Exited) => self.has_exited = true,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
            // A child that writes without end leaves no pause in which the time could be noticed.
            if Instant::now() >= deadline && !is_reached(self) {
                return false;
            }
        }
        true
    }
}

fn feed(mut pipe: impl Write, data: &[u8]) {
    let _ = pipe.write_all(data); // nobody reads it any more, which is for the child to decide
}

fn read(mut pipe: impl Read, tell: &SyncSender<News>, news: fn(Vec<u8>) -> News) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match pipe.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(size) if size > 0 => {
                if tell.send(news(buffer[..size].to_vec())).is_err() {
                    return;
                }
            }
            _ => break,
        }
    }
    let _ = tell.send(News::Closed);
}

/// A number of seconds without zeros behind its point.
fn plain(duration: Duration) -> String {
    let text = format!("{:.6}", duration.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What blocks until the child has ended, and leaves it unreaped: so its group can be signalled.
#[cfg(unix)]
fn exit_of(child: &Child) -> impl FnOnce() + Send + use<> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has a number");
    move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
    }
}

#[cfg(windows)]
fn exit_of(child: &Child) -> impl FnOnce() + Send + use<> {
    let pid = child.id();
    move || crate::windows::await_end(pid)
}

#[cfg(unix)]
fn end_group(child: &Child, is_forced: bool) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let signal = if is_forced { Signal::KILL } else { Signal::TERM };
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, signal); // nobody is left, or it is another user's
    }
}

#[cfg(windows)]
fn end_group(child: &Child, _: bool) {
    crate::windows::end_tree(child.id());
}

#[cfg(unix)]
fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(windows)]
fn signal_of(_: std::process::ExitStatus) -> Option<i32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_told_as_they_were_given() {
        assert_eq!(plain(Duration::from_secs(300)), "300");
        assert_eq!(plain(Duration::from_millis(500)), "0.5");
    }
}
