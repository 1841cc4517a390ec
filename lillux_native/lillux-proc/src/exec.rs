//! `exec`: a program run to its end, its output captured, nothing left behind.

use std::fs::File;
use std::io::{self, pipe};
use std::time::{Duration, Instant};

use crate::answers::Executed;
use crate::arguments::Exec;
use crate::interruption::Interruption;
use crate::program;
use crate::pump::{Pipes, Pump};
use crate::starting::{Child, Stream};

/// Between TERM and KILL for a group that should end.
const GRACE: Duration = Duration::from_secs(2);
/// How long a pipe may stay open once the child has ended or was killed.
const DRAIN: Duration = Duration::from_secs(1);
/// The same when we are to end ourselves: the sender may use KILL soon.
const HASTE: Duration = Duration::from_millis(500);
const NOT_RUN: i32 = -1;

/// Runs the program and says what came of it. Does not come back when a signal ends us.
pub fn run(request: Exec) -> Executed {
    let started = Instant::now();
    let interruption = match Interruption::awaited() {
        Ok(interruption) => interruption,
        Err(error) => return not_run(&format!("signals: {error}")),
    };
    let executed = match start(&request) {
        Err(reason) => not_run(&reason),
        Ok((child, pipes)) => {
            let pump = Pump::new(child.id(), pipes, request.program.stdin, request.max_output);
            Run { child, pump, interruption: &interruption }.finish(request.timeout, started)
        }
    };
    interruption.settle();
    executed
}

fn start(request: &Exec) -> Result<(Child, Pipes), String> {
    let program = &request.program;
    let file = program::startable(program)?;
    let (streams, pipes) =
        pipes(!program.stdin.is_empty()).map_err(|error| format!("pipes: {error}"))?;
    Ok((program::start(program, &file, streams, false)?, pipes))
}

/// The child's ends, and ours.
fn pipes(has_input: bool) -> io::Result<([Stream; 3], Pipes)> {
    let (stdin, input) = if has_input {
        let (theirs, ours) = pipe()?;
        (theirs.into(), Some(ours))
    } else {
        (File::open(program::NULL)?.into(), None)
    };
    let ((output, stdout), (error, stderr)) = (pipe()?, pipe()?);
    Ok(([stdin, stdout.into(), stderr.into()], Pipes { input, output, error }))
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

/// A child and what moves its pipes, all at the same time.
struct Run<'a> {
    child: Child,
    pump: Pump,
    interruption: &'a Interruption,
}

impl Run<'_> {
    fn finish(mut self, timeout: Option<Duration>, started: Instant) -> Executed {
        let in_time = self.pump_until(timeout, Self::has_exited_or_should);
        if !in_time {
            end_group(&self.child, false);
            if !self.pump_until(Some(GRACE), Self::has_exited_or_should) {
                end_group(&self.child, true);
            }
        }
        if self.interruption.came() {
            end_group(&self.child, false);
            self.pump_until(Some(HASTE), Self::has_exited);
        }
        self.pump_until(Some(DRAIN), |run| run.pump.is_drained() || run.interruption.came());
        // Before the child is reaped: until then the group's number is ours.
        end_group(&self.child, true);
        let status = if self.pump_until(Some(DRAIN), Self::has_exited) {
            self.child.wait().ok()
        } else {
            None // not even KILL ends what took another user's rights
        };
        let (stdout, stdout_cut) = self.pump.stdout.into_text();
        let (mut stderr, stderr_cut) = self.pump.stderr.into_text();
        if let Some(limit) = timeout.filter(|_| !in_time) {
            let notice = format!("Command timed out after {} seconds", plain(limit));
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

    fn has_exited(&self) -> bool {
        self.pump.has_exited
    }

    fn has_exited_or_should(&self) -> bool {
        self.pump.has_exited || self.interruption.came()
    }

    /// Takes news until something is so, no longer than that; whether it came to be.
    fn pump_until(&mut self, limit: Option<Duration>, is_reached: fn(&Self) -> bool) -> bool {
        let deadline = limit.map(|limit| Instant::now() + limit);
        while !is_reached(self) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            self.pump.step(left, self.interruption);
            // A child that writes without end leaves no pause in which the time could be noticed.
            if left.is_some_and(|left| left.is_zero()) {
                return is_reached(self);
            }
        }
        true
    }
}

/// A number of seconds without zeros behind its point.
fn plain(duration: Duration) -> String {
    let text = format!("{:.6}", duration.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(unix)]
fn end_group(child: &Child, is_forced: bool) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let signal = if is_forced { Signal::KILL } else { Signal::TERM };
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, signal); // no process is left, or it is another user's
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
