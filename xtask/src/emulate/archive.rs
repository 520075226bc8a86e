//! A cpio archive of the kind `newc`, which the kernel unpacks into its first file system.
//!
//! Every entry is a header of numbers in hexadecimal, a name and a content, each padded to four bytes. It is not
//! compressed: unpacking is what an emulated machine is slowest at.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::packages::cannot;
use crate::failure::Outcome;

/// File types and permissions of the entries, as in `stat`.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive in memory, being written.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Archive {
    /// An empty folder, and those around it.
    pub(crate) fn folder(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent);
        }
        if self.folders.insert(name.to_owned()) {
            self.entry(name, FOLDER, (0, 0), b"");
        }
    }

    /// A file that may be executed; one that is there already stays.
    pub(crate) fn program(&mut self, name: &str, content: &[u8]) {
        self.named(name, PROGRAM, (0, 0), content);
    }

    /// A copy of a file of the host.
    pub(crate) fn copy(&mut self, name: &str, file: &Path) -> Outcome {
        let content = fs::read(file).map_err(|error| cannot("read", file, &error))?;
        self.program(name, &content);
        Ok(())
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, name: &str, target: &str) {
        self.named(name, LINK, (0, 0), target.as_bytes());
    }

    /// A device of characters.
    pub(crate) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.named(name, CHARACTER_DEVICE, (major, minor), b"");
    }

    /// Writes the archive.
    pub(crate) fn write_to(mut self, mut out: impl Write) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), b"");
        out.write_all(&self.bytes)
    }

    fn named(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let name = name.trim_start_matches('/');
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent);
        }
        if self.names.insert(name.to_owned()) {
            self.entry(name, mode, device, content);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("no file here has 4 GiB");
        let (size, name_size) = (length(content.len()), length(name.len() + 1));
        // Inode, mode, owner, group, links, time, size, device (2), device that it stands for (2), length of the name,
        // sum.
        let header = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for number in header {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, modes and contents, read back.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701", "at {at}");
            let number = |index: usize| {
                let digits = &bytes[at + 6 + 8 * index..at + 14 + 8 * index];
                u32::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("hexadecimal")
            };
            let (mode, size, name_size) = (number(1), number(6) as usize, number(11) as usize);
            let name = &bytes[at + 110..at + 110 + name_size - 1];
            let content = (at + 110 + name_size).next_multiple_of(4);
            found.push((
                String::from_utf8(name.to_vec()).expect("text"),
                mode,
                bytes[content..content + size].to_vec(),
            ));
            at = (content + size).next_multiple_of(4);
        }
        found
    }

    #[test]
    fn folders_come_first_and_nothing_comes_twice() {
        let mut archive = Archive::default();
        archive.program("/usr/lib/a.so", b"first");
        archive.program("/usr/lib/a.so", b"second");
        archive.link("usr/lib/b.so", "a.so");
        archive.device("dev/console", 5, 1);
        let mut bytes = Vec::new();
        archive.write_to(&mut bytes).expect("memory");
        let found = entries(&bytes);
        let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        let expected = [
            "usr",
            "usr/lib",
            "usr/lib/a.so",
            "usr/lib/b.so",
            "dev",
            "dev/console",
            "TRAILER!!!",
        ];
        assert_eq!(names, expected);
        assert_eq!(found[2], ("usr/lib/a.so".to_owned(), PROGRAM, b"first".to_vec()));
        assert_eq!(found[3], ("usr/lib/b.so".to_owned(), LINK, b"a.so".to_vec()));
        assert_eq!(found[5].1, CHARACTER_DEVICE);
    }
}
