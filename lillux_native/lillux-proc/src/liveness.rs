//! `status`: whether a process is there, and since when.

use crate::answers::Status;
use crate::arguments::Look;

/// What the system shows of a process.
pub struct Seen {
    /// It is a zombie: it did end, and its parent has not noticed.
    pub ended: bool,
    /// When it began, in the system's own words; empty when it does not say.
    pub start_token: String,
    /// Its process group; 0 when the system does not say.
    #[cfg_attr(windows, allow(dead_code))]
    pub group: i64,
}

/// Whether the process runs.
pub fn run(request: &Look) -> Status {
    let seen = look(request.pid);
    let token = &request.start_token;
    let is_meant = |seen: &Seen| token.is_empty() || seen.start_token == *token;
    Status {
        pid: request.pid,
        alive: seen.as_ref().is_some_and(|seen| !seen.ended && is_meant(seen)),
        start_token: request
            .show_start_token
            .then(|| seen.map_or_else(String::new, |seen| seen.start_token)),
    }
}

/// When the process began: tells it from a later one with its number.
pub fn start_token(pid: i64) -> String {
    look(pid).map_or_else(String::new, |seen| seen.start_token)
}

/// What the system shows of a process; `None` if there is none.
pub fn look(pid: i64) -> Option<Seen> {
    let number = i32::try_from(pid).ok().filter(|number| *number > 0)?;
    look_at(number)
}

#[cfg(unix)]
fn look_at(pid: i32) -> Option<Seen> {
    // What other users run may be hidden from us (hidepid of proc(5)).
    shown(pid).or_else(|| {
        answers(pid).then(|| Seen { ended: false, start_token: String::new(), group: 0 })
    })
}

#[cfg(windows)]
fn look_at(pid: i32) -> Option<Seen> {
    crate::windows::look_at(pid.cast_unsigned())
}

#[cfg(unix)]
fn answers(pid: i32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    Pid::from_raw(pid)
        .is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

#[cfg(target_os = "linux")]
fn shown(pid: i32) -> Option<Seen> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The fields of proc_pid_stat(5). The program's name stands in parentheses and may hold some.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &[u8]) -> Option<Seen> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Seen {
        ended: matches!(*fields.first()?, "Z" | "X"),
        start_token: (*fields.get(19)?).to_owned(),
        group: fields.get(2)?.parse().ok()?,
    })
}

#[cfg(all(unix, not(target_os = "linux")))]
fn shown(pid: i32) -> Option<Seen> {
    let told = std::process::Command::new("/bin/ps")
        .args(["-o", "stat=,pgid=,lstart=", "-p", &pid.to_string()])
        .env_clear()
        .envs([("LC_ALL", "C"), ("TZ", "UTC0")])
        .output()
        .ok()?;
    let line = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut words = line.split_whitespace();
    Some(Seen {
        ended: words.next()?.starts_with('Z'),
        group: words.next()?.parse().ok()?,
        start_token: words.collect::<Vec<_>>().join(" "),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_no_field() {
        let zeros = "0 ".repeat(16);
        let stat = format!("7 (a) Z (b) S 1 5 {zeros}4711 0 0");
        let seen = parse_stat(stat.as_bytes()).expect("a process");
        assert!(!seen.ended);
        assert_eq!((seen.group, seen.start_token.as_str()), (5, "4711"));
    }

    #[test]
    fn a_number_that_names_no_process_shows_none() {
        for pid in [-1, 0, i64::from(i32::MAX) + 1, i64::MAX] {
            assert!(look(pid).is_none());
        }
    }
}
