//! The JSON that is printed, with exactly the keys of `PROTOCOL.md`.

use std::io::{self, Write};

use serde::Serialize;

/// What `exec` prints.
#[derive(Serialize)]
pub struct Executed {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
    pub return_code: i32,
    pub duration_ms: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// What `spawn` prints.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Spawned {
    Started {
        success: bool,
        pid: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        start_token: Option<String>,
    },
    Failed {
        success: bool,
        error: String,
    },
}

/// What `kill` prints.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Killed {
    Ended { success: bool, pid: i64, method: &'static str },
    Failed { success: bool, pid: i64, error: String },
}

/// What `status` prints.
#[derive(Serialize)]
pub struct Status {
    pub pid: i64,
    pub alive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_token: Option<String>,
}

/// One line of JSON.
pub fn line(answer: &impl Serialize) -> String {
    let json = serde_json::to_string(answer).expect("text and numbers can be written as JSON");
    json + "\n"
}

/// Writes it to standard output at once.
pub fn write(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(line.as_bytes())?;
    output.flush()
}
