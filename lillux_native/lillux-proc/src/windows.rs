//! Processes of Windows, by the calls of its kernel32.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_ACCESS_DENIED, FILETIME, GetLastError, HANDLE, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Threading::{
    GetProcessTimes, INFINITE, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
    PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

use crate::liveness::Seen;

const EXIT_CODE: u32 = 1;
const LOOKING: u32 = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;

/// Keeps the number of a process from being used again.
pub struct Handle(HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { CloseHandle(self.0) };
    }
}

impl Handle {
    pub fn has_ended_within(&self, limit: Duration) -> bool {
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(INFINITE - 1);
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(self.0, limit_ms) == WAIT_OBJECT_0 }
    }

    pub fn terminate(&self) {
        // SAFETY: the handle is open, with the right to do so.
        unsafe { TerminateProcess(self.0, EXIT_CODE) };
    }

    fn creation_time(&self) -> String {
        let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
        let [created, exited, kernel, user] = &mut times;
        // SAFETY: the handle is open, and each time is a place to write to.
        let told = unsafe { GetProcessTimes(self.0, created, exited, kernel, user) };
        if told == 0 {
            return String::new();
        }
        let high = u64::from(times[0].dwHighDateTime) << 32;
        (high | u64::from(times[0].dwLowDateTime)).to_string()
    }
}

/// What the system shows of a process.
pub fn look_at(pid: u32) -> Option<Seen> {
    match open(pid, LOOKING) {
        Ok(Some(handle)) => Some(Seen {
            ended: handle.has_ended_within(Duration::ZERO),
            start_token: handle.creation_time(),
            group: 0,
        }),
        Ok(None) => None,
        Err(_) => Some(Seen { ended: false, start_token: String::new(), group: 0 }),
    }
}

/// A handle by which the process can be ended; none if there is no process.
pub fn ending_handle(pid: u32) -> Result<Option<Handle>, String> {
    open(pid, LOOKING | PROCESS_TERMINATE)
}

/// Blocks until the process has ended.
pub fn await_end(pid: u32) {
    if let Ok(Some(handle)) = open(pid, LOOKING) {
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(handle.0, INFINITE) };
    }
}

/// Ends the process and what descends from it, while it runs.
pub fn end_tree(pid: u32) {
    if !look_at(pid).is_some_and(|seen| !seen.ended) {
        return;
    }
    // By its full path: Windows would look in the working directory first.
    let root = std::env::var_os("SYSTEMROOT").unwrap_or_else(|| r"C:\Windows".into());
    let _ = Command::new(PathBuf::from(root).join("System32").join("taskkill.exe"))
        .args(["/T", "/F", "/PID", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn open(pid: u32, access: u32) -> Result<Option<Handle>, String> {
    // SAFETY: no pointers are passed.
    let handle = unsafe { OpenProcess(access, 0, pid) };
    if !handle.is_null() {
        return Ok(Some(Handle(handle)));
    }
    // SAFETY: reads the thread's last error.
    match unsafe { GetLastError() } {
        ERROR_ACCESS_DENIED => Err(format!("process {pid}: it is another user's")),
        _ => Ok(None),
    }
}
