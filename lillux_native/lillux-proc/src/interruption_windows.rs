//! Windows has no signals: a process that ends this program ends it at once.

use std::io;

/// What never comes.
pub struct Interruption;

impl Interruption {
    pub fn awaited() -> io::Result<Self> {
        Ok(Self)
    }

    pub fn came(&self) -> bool {
        false
    }

    pub fn settle(&self) {}
}
