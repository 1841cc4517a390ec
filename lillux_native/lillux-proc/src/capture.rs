//! Bounded memory for a stream of unbounded length.

/// Keeps the first and the last half of `max_bytes`; a stream no longer than that is kept whole.
pub struct Capture {
    max_head: usize,
    max_tail: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
    total: usize,
}

impl Capture {
    pub fn new(max_bytes: usize) -> Self {
        let max_tail = max_bytes / 2;
        Self { max_head: max_bytes - max_tail, max_tail, head: vec![], tail: vec![], total: 0 }
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.total += chunk.len();
        let room = (self.max_head - self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        // Cut only now and then: each cut moves all that is kept.
        if self.tail.len() > self.max_tail * 2 + 64 * 1024 {
            self.cut();
        }
    }

    /// What was kept as text, with a marker line where something was left out, and whether it was.
    pub fn into_text(mut self) -> (String, bool) {
        self.cut();
        let left_out = self.total - self.head.len() - self.tail.len();
        let mut data = self.head;
        if left_out > 0 {
            data.extend_from_slice(format!("\n... [{left_out} bytes left out] ...\n").as_bytes());
        }
        data.extend_from_slice(&self.tail);
        let text = match String::from_utf8(data) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        (text, left_out > 0)
    }

    fn cut(&mut self) {
        self.tail.drain(..self.tail.len().saturating_sub(self.max_tail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = Capture::new(6);
        capture.feed(b"abc");
        capture.feed(b"def");
        assert_eq!(capture.into_text(), ("abcdef".into(), false));
    }

    #[test]
    fn a_long_stream_keeps_both_ends() {
        let mut capture = Capture::new(5);
        for chunk in [&b"abcd"[..], b"efgh", b"ij"] {
            capture.feed(chunk);
        }
        assert_eq!(capture.into_text(), ("abc\n... [5 bytes left out] ...\nij".into(), true));
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_wanted() {
        let mut capture = Capture::new(0);
        capture.feed(b"abc");
        assert_eq!(capture.into_text(), ("\n... [3 bytes left out] ...\n".into(), true));
    }
}
