//! The pipes of a child and its end, on Windows: a thread each, as pipes cannot be polled there.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::capture::Capture;
use crate::interruption::Interruption;

const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS_IN_FLIGHT: usize = 16;

/// What the threads tell the one that waits.
enum News {
    Output(Vec<u8>),
    Error(Vec<u8>),
    Closed,
    Exited,
}

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
    news: Receiver<News>,
    open_outputs: usize,
}

impl Pump {
    pub fn new(child: u32, pipes: Pipes, input: Vec<u8>, max_output: usize) -> Self {
        let (tell, news) = sync_channel(CHUNKS_IN_FLIGHT);
        if let Some(pipe) = pipes.input {
            thread::spawn(move || feed(pipe, &input));
        }
        for (pipe, news) in
            [(pipes.output, News::Output as fn(Vec<u8>) -> News), (pipes.error, News::Error)]
        {
            let tell = tell.clone();
            thread::spawn(move || read(pipe, &tell, news));
        }
        thread::spawn(move || {
            crate::windows::await_end(child);
            let _ = tell.send(News::Exited);
        });
        Self {
            stdout: Capture::new(max_output),
            stderr: Capture::new(max_output),
            has_exited: false,
            news,
            open_outputs: 2,
        }
    }

    /// Whether the child has ended and no process can write any more.
    pub fn is_drained(&self) -> bool {
        self.has_exited && self.open_outputs == 0
    }

    /// Waits for news, no longer than that, and takes it.
    pub fn step(&mut self, limit: Option<Duration>, _: &Interruption) {
        let told = match limit {
            Some(limit) => self.news.recv_timeout(limit),
            None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match told {
            Ok(News::Output(chunk)) => self.stdout.feed(&chunk),
            Ok(News::Error(chunk)) => self.stderr.feed(&chunk),
            Ok(News::Closed) => self.open_outputs -= 1,
            Ok(News::Exited) => self.has_exited = true,
            // The child's end needs no report: it was reported, or there is no handle.
            Err(RecvTimeoutError::Disconnected) => self.has_exited = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn feed(mut pipe: impl Write, data: &[u8]) {
    let _ = pipe.write_all(data); // no process reads it any more, which is for the child to decide
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
