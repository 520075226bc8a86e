//! Files of a test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A path that goes away.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Ordering: Relaxed; only that no two are the same matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quadrille-uring-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
