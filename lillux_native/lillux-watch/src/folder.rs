//! News that something in a folder changed, by what the system has for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// A folder that is watched.
pub struct FolderWatch {
    folder: PathBuf,
    news: Receiver<notify::Result<Event>>,
    /// Whether the folder is still the one that is watched; it may have been removed.
    pub is_valid: bool,
    _watcher: RecommendedWatcher,
}

impl FolderWatch {
    /// A watch on what is in the folder, not below; `None` where it, or the means, is missing.
    pub fn open(folder: &Path) -> Option<Self> {
        let (tell, news) = channel();
        let mut watcher = notify::recommended_watcher(tell).ok()?;
        watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
        Some(Self { folder: folder.into(), news, is_valid: true, _watcher: watcher })
    }

    /// Sleeps until something in the folder changed; false when nothing did in that time.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let Ok(first) = self.news.recv_timeout(limit) else {
            return false;
        };
        let mut is_change = self.note(first);
        while let Ok(next) = self.news.try_recv() {
            is_change |= self.note(next);
        }
        is_change
    }

    /// Whether it tells of a change: our own looks open and close files, too.
    fn note(&mut self, told: notify::Result<Event>) -> bool {
        let Ok(event) = told else {
            self.is_valid = false; // events were lost, or nothing is reported any more
            return true;
        };
        let is_end =
            matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        if is_end && event.paths.contains(&self.folder) {
            self.is_valid = false;
        }
        !event.kind.is_access()
    }
}
