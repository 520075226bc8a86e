//! A folder that goes with its test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Ordering: Relaxed; only the number matters.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = env::temp_dir().join(format!("quadrille-scratch-{}-{number}", process::id()));
        // Of a run that was killed.
        let _ = fs::remove_dir_all(&root);
        Self(root)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn remove(&self, folder: &str) {
        fs::remove_dir_all(self.0.join(folder)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
