//! A start without a copy of this process: posix_spawn(3), which can make a session of its own.
//!
//! What std offers for that forks, which costs a tenth of a millisecond and, on a machine with more
//! to do than processors, a turn of the scheduler.

use std::ffi::{CString, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::{env, io, ptr};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::arguments::Program;

/// A file that a child has as one of its three streams.
pub type Stream = OwnedFd;

/// A process that was started.
pub struct Child(Pid);

impl Child {
    pub fn id(&self) -> u32 {
        self.0.as_raw_pid().cast_unsigned()
    }

    /// Waits for its end, and lets the system use its number again.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Starts the file as the program, in a session of its own, with these streams and no other file.
pub fn start(program: &Program, file: &Path, streams: [Stream; 3], _: bool) -> io::Result<Child> {
    let file = c_text(file.as_os_str())?;
    let arguments = std::iter::once(&program.command).chain(&program.arguments);
    let arguments = arguments.map(|text| c_text(text)).collect::<io::Result<Vec<_>>>()?;
    let environment = environment(program)?;
    let cwd = program.cwd.as_ref().map(|cwd| c_text(cwd.as_os_str())).transpose()?;
    let mut actions = Actions::new()?;
    for (number, stream) in (0..).zip(&streams) {
        actions.put(stream, number)?;
    }
    if let Some(cwd) = &cwd {
        actions.change_folder(cwd)?;
    }
    let attributes = Attributes::new()?;
    close_on_exec();
    let mut pid = 0;
    // SAFETY: lists of texts that end with a null pointer; all of them outlive the call.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            file.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            pointers(&arguments).as_ptr(),
            pointers(&environment).as_ptr(),
        )
    })?;
    Pid::from_raw(pid).map(Child).ok_or_else(|| io::Error::other("the system named no process"))
}

/// What is done in the child before the program begins.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: initialized by the call when it succeeds, and only used then.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Self(actions.assume_init()))
        }
    }

    fn put(&mut self, stream: &Stream, number: c_int) -> io::Result<()> {
        let file = stream.as_raw_fd();
        // SAFETY: initialized.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, file, number) })
    }

    fn change_folder(&mut self, folder: &CString) -> io::Result<()> {
        // SAFETY: initialized; the text is copied.
        check(unsafe {
            libc::posix_spawn_file_actions_addchdir_np(&raw mut self.0, folder.as_ptr())
        })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialized, and not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// What kind of process it is: it leads a session, and no signal is blocked or ignored on our account.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        const FLAGS: c_int =
            libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK | SETSID as c_int;
        const SETSID: i16 = libc::POSIX_SPAWN_SETSID;
        let mut attributes = MaybeUninit::uninit();
        let mut signals = MaybeUninit::uninit();
        // SAFETY: each is initialized by its first call, and only used when that succeeded.
        unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            let mut made = Self(attributes.assume_init());
            let attributes = &raw mut made.0;
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(attributes, signals.as_ptr()))?;
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE); // std ignores it
            check(libc::posix_spawnattr_setsigdefault(attributes, signals.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(attributes, FLAGS as i16))?;
            Ok(made)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialized, and not used again.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// No file that was handed to us is handed on: a child has its streams and nothing else.
fn close_on_exec() {
    const FIRST: c_uint = 3;
    // SAFETY: marks open files, and touches no memory. As a number, since old C libraries lack it.
    let told = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if told != 0 {
        crate::program::close_each_on_exec(); // before Linux 5.11
    }
}

/// Our environment and what is added, as `NAME=VALUE`.
fn environment(program: &Program) -> io::Result<Vec<CString>> {
    let is_replaced = |name: &OsStr| program.env.iter().any(|(added, _)| added == name);
    let is_last = |index: usize| {
        let name = &program.env[index].0;
        program.env[index + 1..].iter().all(|(later, _)| later != name)
    };
    let kept = env::vars_os().filter(|(name, _)| !is_replaced(name));
    let added = program.env.iter().enumerate().filter(|(index, _)| is_last(*index));
    kept.chain(added.map(|(_, entry)| entry.clone()))
        .map(|(mut entry, value)| {
            entry.push("=");
            entry.push(value);
            c_text(&entry)
        })
        .collect()
}

fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    let ends = std::iter::once(ptr::null_mut::<c_void>().cast());
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain(ends).collect()
}

fn c_text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
