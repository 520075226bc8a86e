//! What one connection of the load does, drawn from a seed.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::workloads::random::Random;

/// How a connection treats its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Sends, reads, closes its half and waits for the end.
    Behaves,
    /// The same, but reads little at a time, with pauses and little room: the server's writes must wait.
    ReadsSlowly,
    /// The same, but writes a few bytes at a time, with pauses.
    WritesPartially,
    /// Closes its half as soon as all is sent, and reads the rest.
    HalfCloses,
    /// Resets the connection at some moment: a close with `SO_LINGER` of zero.
    Resets,
    /// Closes at some moment, whatever is on its way.
    GoesAway,
    /// Connects, and closes or resets at once.
    Connects,
    /// Sends bytes that are no request, and waits for the end.
    SendsGarbage,
}

impl Manner {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Behaves,
        Self::ReadsSlowly,
        Self::WritesPartially,
        Self::HalfCloses,
        Self::Resets,
        Self::GoesAway,
        Self::Connects,
        Self::SendsGarbage,
    ];

    /// What a report calls those who do it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Behaves => "behave",
            Self::ReadsSlowly => "read slowly",
            Self::WritesPartially => "write partially",
            Self::HalfCloses => "half-close",
            Self::Resets => "reset",
            Self::GoesAway => "go away",
            Self::Connects => "connect only",
            Self::SendsGarbage => "send garbage",
        }
    }
}

/// Which server a connection is to, and how it treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// Whether it speaks HTTP, else it wants an echo.
    pub http: bool,
    /// How it behaves.
    pub manner: Manner,
}

impl Part {
    /// Every combination that there is: to an echo server nothing is garbage.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let parts = [false, true].map(|http| Manner::ALL.map(|manner| Self { http, manner }));
        parts.into_iter().flatten().filter(Self::exists).collect()
    }

    /// Whether anybody plays it.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.http || self.manner != Manner::SendsGarbage
    }

    /// What a report calls the server.
    #[must_use]
    pub fn server(self) -> &'static str {
        if self.http { "http" } else { "echo" }
    }

    /// Whether the server owes it every byte of every answer. Not to an HTTP client that closes its half: servers may
    /// take that for a client that is gone, and hyper does.
    #[must_use]
    pub fn is_owed_all(self) -> bool {
        match self.manner {
            Manner::Behaves | Manner::ReadsSlowly | Manner::WritesPartially => true,
            Manner::HalfCloses => !self.http,
            Manner::Resets | Manner::GoesAway | Manner::Connects | Manner::SendsGarbage => false,
        }
    }
}

/// What one connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Whom it plays.
    pub part: Part,
    /// What it sends: so many bytes of an echo, or so many requests.
    pub amount: usize,
    /// The most bytes of one write.
    pub write_max: usize,
    /// The most bytes of one read.
    pub read_max: usize,
    /// The longest pause before a write or read, in microseconds.
    pub pause_us_max: u64,
    /// After how many bytes, there and back together, it breaks off; never if there are not so many.
    pub leave_after: Option<usize>,
    /// Whether it resets the connection when it breaks off.
    pub resets: bool,
}

impl Script {
    /// Draws one for `part`.
    #[must_use]
    pub fn draw(part: Part, random: &mut Random) -> Self {
        let mut within = |range: RangeInclusive<u64>| random.between(*range.start(), *range.end());
        let mut amount = |bytes, requests| size(within(if part.http { requests } else { bytes }));
        let amount = match part.manner {
            Manner::ReadsSlowly => amount(32_768..=131_072, 200..=800),
            Manner::WritesPartially => amount(1..=1024, 1..=4),
            Manner::SendsGarbage => amount(1..=1, 1..=4096),
            Manner::Connects => 0,
            Manner::Behaves | Manner::HalfCloses | Manner::Resets | Manner::GoesAway => amount(1..=65_536, 1..=64),
        };
        let leaves = matches!(part.manner, Manner::Resets | Manner::GoesAway | Manner::Connects);
        // About as many bytes as come and go, so that some leave at the very end.
        let bytes = if part.http { amount * 160 } else { 2 * amount };
        let leave_after = leaves.then(|| size(within(0..=bytes as u64)));
        let resets = part.manner == Manner::Resets || part.manner == Manner::Connects && within(0..=1) == 0;
        let (write_max, read_max, pause_us_max) = match part.manner {
            Manner::ReadsSlowly => (65_536, 4096, 3000),
            Manner::WritesPartially => (16, 65_536, 500),
            _ => (65_536, 65_536, 0),
        };
        Self {
            part,
            amount,
            write_max,
            read_max,
            pause_us_max,
            leave_after,
            resets,
        }
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manner_is_played_to_both_but_garbage() {
        let parts = Part::all();
        assert_eq!(parts.len(), 2 * Manner::ALL.len() - 1);
        assert_eq!(parts.iter().filter(|part| part.http).count(), Manner::ALL.len());
        assert_eq!(parts.iter().filter(|part| part.is_owed_all()).count(), 7);
    }

    #[test]
    fn a_seed_decides_and_who_is_owed_all_never_leaves() {
        for part in Part::all() {
            let draw = || {
                let mut random = Random::new(7);
                (0..200).map(|_| Script::draw(part, &mut random)).collect::<Vec<_>>()
            };
            let scripts = draw();
            assert_eq!(scripts, draw());
            for script in &scripts {
                let leaves = script.leave_after.is_some();
                assert!(!(leaves && part.is_owed_all()), "{script:?}");
                assert!(leaves || !script.resets, "{script:?}");
                assert!(leaves || script.amount > 0, "{script:?}");
            }
        }
    }
}
