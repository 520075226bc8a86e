//! What this program was built from, as `build.rs` has found it.

/// The commit, and whether what was built differs from it.
pub const COMMIT: &str = env!("QUADRILLE_COMMIT");

/// The version of the compiler.
pub const RUSTC: &str = env!("QUADRILLE_RUSTC");

/// The same in programs that are made from the same sources in the same way, whatever their allocator; other than in
/// all others.
pub const BUILD: &str = env!("QUADRILLE_BUILD");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stamp_says_something() {
        assert!(!COMMIT.is_empty());
        assert!(RUSTC.starts_with(|c: char| c.is_ascii_digit()), "{RUSTC}");
        assert_eq!(BUILD.len(), 16, "{BUILD}");
    }
}
