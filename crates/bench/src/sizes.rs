//! Sizes of messages that are part of a type: where a number becomes one.

use crate::outcome::{Measured, Stop};

/// The message sizes of hackbench over channels, in bytes.
pub(crate) const CHANNEL_SIZES: [usize; 7] = [4, 16, 64, 100, 256, 1024, 4096];

/// What is to run with messages of some size.
pub(crate) trait BySize {
    /// Runs it with messages of `SIZE` bytes.
    ///
    /// # Errors
    /// Why there are no figures.
    fn run<const SIZE: usize>(self) -> Result<Measured, Stop>;
}

/// Runs it with messages of `size` bytes.
///
/// # Errors
/// [`Stop::Failed`] if that is none of [`CHANNEL_SIZES`]; else its own.
pub(crate) fn by_size(size: usize, run: impl BySize) -> Result<Measured, Stop> {
    match size {
        4 => run.run::<4>(),
        16 => run.run::<16>(),
        64 => run.run::<64>(),
        100 => run.run::<100>(),
        256 => run.run::<256>(),
        1024 => run.run::<1024>(),
        4096 => run.run::<4096>(),
        size => Err(Stop::failed(format!(
            "messages of {size} bytes over channels; sizes are {CHANNEL_SIZES:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says which size it was run with.
    struct Asks;

    impl BySize for Asks {
        fn run<const SIZE: usize>(self) -> Result<Measured, Stop> {
            Err(Stop::failed(format!("run with {SIZE}")))
        }
    }

    #[test]
    fn every_size_becomes_its_type() {
        let said = |size| match by_size(size, Asks) {
            Err(stop) => format!("{stop:?}"),
            Ok(_) => String::new(),
        };
        for size in CHANNEL_SIZES {
            assert!(said(size).contains(&format!("run with {size}\"")), "{}", said(size));
        }
        assert!(said(99).contains("99 bytes"), "{}", said(99));
    }
}
