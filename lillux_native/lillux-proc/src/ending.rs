//! `kill`: a process that is known by its number only is ended, and never another one.

#[cfg(unix)]
use std::time::{Duration, Instant};

use crate::answers::Killed;
use crate::arguments::Kill;

/// How long a killed process may take to be gone, which is for the system to decide.
#[cfg(unix)]
const DEATH: Duration = Duration::from_secs(1);
#[cfg(unix)]
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
#[cfg(unix)]
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// Ends the process and says how.
pub fn run(request: &Kill) -> Killed {
    match require_endable(request).and_then(|()| system::end(request)) {
        Ok(method) => Killed::Ended { success: true, pid: request.pid, method },
        Err(error) => Killed::Failed { success: false, pid: request.pid, error },
    }
}

fn require_endable(request: &Kill) -> Result<(), String> {
    let pid = request.pid;
    if pid <= 1 {
        return Err(format!("pid: expected a process above 1, got {pid}"));
    }
    if pid == i64::from(std::process::id()) {
        return Err(format!("pid: expected another process than this one, got {pid}"));
    }
    if request.tree && system::is_own_group(pid) {
        return Err(format!("pid: expected another group than this process's, got {pid}"));
    }
    Ok(())
}

/// Looks again and again until it is so, no longer than that; whether it came to be.
#[cfg(unix)]
fn wait_until(limit: Duration, is_reached: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = SHORTEST_LOOK;
    while !is_reached() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    true
}

#[cfg(unix)]
mod system {
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process, kill_process_group};

    use super::{DEATH, Kill, wait_until};
    use crate::liveness::look;

    pub fn is_own_group(pid: i64) -> bool {
        i64::from(getpgrp().as_raw_pid()) == pid
    }

    /// Asks the process to end, and makes it end when the grace has passed.
    pub fn end(request: &Kill) -> Result<&'static str, String> {
        let Some(target) = Target::of(request) else {
            return Ok("already_dead");
        };
        if !target.send(Signal::TERM)? {
            return Ok("already_dead");
        }
        if wait_until(request.grace, || target.is_gone()) || !target.send(Signal::KILL)? {
            return Ok("terminated");
        }
        wait_until(DEATH, || target.is_gone());
        Ok("killed")
    }

    /// A process, or the group it leads, that was there when it was looked at.
    struct Target {
        pid: Pid,
        handle: Handle,
        is_group: bool,
    }

    impl Target {
        /// (1) A hold on the process that has the number now, (2) then a look whether it is the right one.
        fn of(request: &Kill) -> Option<Self> {
            let pid = Pid::from_raw(i32::try_from(request.pid).ok()?)?;
            let handle = Handle::of(pid)?;
            let seen = look(request.pid).filter(|seen| !seen.ended)?;
            if !request.start_token.is_empty() && seen.start_token != request.start_token {
                return None;
            }
            let is_group = request.tree && getpgid(Some(pid)) == Ok(pid);
            Some(Self { pid, handle, is_group })
        }

        /// Sends a signal; false when no process was left to get it.
        fn send(&self, signal: Signal) -> Result<bool, String> {
            let sent = if self.is_group {
                // A group's number is not used again while it has a member, or its leader is.
                kill_process_group(self.pid, signal)
            } else {
                self.handle.send(self.pid, signal)
            };
            match sent {
                Ok(()) => Ok(true),
                Err(Errno::SRCH) => Ok(false),
                Err(Errno::PERM) if self.is_gone() => Ok(false), // macOS says so of a zombie
                Err(Errno::PERM) => Err(format!("process {}: it is another user's", self.raw())),
                Err(error) => Err(format!("process {}: {error}", self.raw())),
            }
        }

        fn is_gone(&self) -> bool {
            if self.is_group && has_members(self.raw()) {
                return false;
            }
            self.handle.is_gone(self.raw())
        }

        fn raw(&self) -> i64 {
            self.pid.as_raw_pid().into()
        }
    }

    /// Stands for the process itself where the system can do that: then its number may be used
    /// again meanwhile, and nothing else is hit.
    struct Handle {
        #[cfg(target_os = "linux")]
        descriptor: Option<std::os::fd::OwnedFd>,
    }

    #[cfg(target_os = "linux")]
    impl Handle {
        fn of(pid: Pid) -> Option<Self> {
            use rustix::process::{PidfdFlags, pidfd_open};

            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(descriptor) => Some(Self { descriptor: Some(descriptor) }),
                Err(Errno::SRCH) => None,
                Err(_) => Some(Self { descriptor: None }), // an older system, or a sandbox
            }
        }

        fn send(&self, pid: Pid, signal: Signal) -> Result<(), Errno> {
            match &self.descriptor {
                Some(descriptor) => rustix::process::pidfd_send_signal(descriptor, signal),
                None => kill_process(pid, signal),
            }
        }

        fn is_gone(&self, pid: i64) -> bool {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};

            let Some(descriptor) = &self.descriptor else {
                return look(pid).is_none_or(|seen| seen.ended);
            };
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut watched = [PollFd::new(descriptor, PollFlags::IN)];
            poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
        }
    }

    #[cfg(not(target_os = "linux"))]
    impl Handle {
        fn of(_: Pid) -> Option<Self> {
            Some(Self {})
        }

        fn send(&self, pid: Pid, signal: Signal) -> Result<(), Errno> {
            kill_process(pid, signal)
        }

        fn is_gone(&self, pid: i64) -> bool {
            look(pid).is_none_or(|seen| seen.ended)
        }
    }

    /// Whether a process of the group runs; zombies, which a signal still finds, do not count.
    #[cfg(target_os = "linux")]
    fn has_members(group: i64) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return false;
        };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(look)
            .any(|seen| !seen.ended && seen.group == group)
    }

    #[cfg(not(target_os = "linux"))]
    fn has_members(group: i64) -> bool {
        use rustix::process::test_kill_process_group;

        let pid = i32::try_from(group).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process_group(pid).is_ok())
    }
}

#[cfg(windows)]
mod system {
    use super::Kill;
    use crate::liveness::look;
    use crate::windows;

    pub fn is_own_group(_: i64) -> bool {
        false
    }

    /// Waits for the grace, as nothing gentle reaches a process without a window; then ends it.
    pub fn end(request: &Kill) -> Result<&'static str, String> {
        let Ok(pid) = u32::try_from(request.pid) else {
            return Ok("already_dead");
        };
        let Some(handle) = windows::ending_handle(pid)? else {
            return Ok("already_dead");
        };
        let Some(seen) = look(request.pid).filter(|seen| !seen.ended) else {
            return Ok("already_dead");
        };
        if !request.start_token.is_empty() && seen.start_token != request.start_token {
            return Ok("already_dead");
        }
        if handle.has_ended_within(request.grace) {
            return Ok("terminated");
        }
        if request.tree {
            windows::end_tree(pid);
        }
        handle.terminate();
        Ok("killed")
    }
}
