//! Whether the servers have stood the load: what failed, a sentence each.

use super::load::Tally;
use super::server::Look;

/// By how much resident memory may be above that after the first part, in hundredths.
pub const GROWTH_PERCENT: u64 = 10;

/// And by so much beyond that, in bytes.
pub const GROWTH_BYTES: u64 = 4 << 20;

/// What was seen of the servers.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Before the first connection.
    pub before: Look,
    /// After a part of the time, without a connection.
    pub early: Look,
    /// At the end, without a connection.
    pub late: Look,
    /// Tasks that panicked.
    pub panics: u64,
    /// What the load did, all of its time.
    pub tally: Tally,
}

/// The most resident memory at the end, in bytes, of who had `early` after the first part.
#[must_use]
pub fn resident_bytes_max(early: u64) -> u64 {
    early + early / 100 * GROWTH_PERCENT + GROWTH_BYTES
}

impl Seen {
    /// What failed; nothing if all is well.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (look, when) in [(self.early, "after the first part"), (self.late, "at the end")] {
            if look.tasks != self.before.tasks {
                failures.push(format!(
                    "{when} {} tasks of the server lived without a connection, {} lived before the first one",
                    look.tasks, self.before.tasks
                ));
            }
            if look.descriptors != self.before.descriptors {
                failures.push(format!(
                    "{when} the server had {} descriptors open without a connection, {} before the first one",
                    look.descriptors, self.before.descriptors
                ));
            }
        }
        if self.late.resident_bytes > resident_bytes_max(self.early.resident_bytes) {
            failures.push(format!(
                "resident memory of the server grew from {} KiB after the first part to {} KiB at the end, {} KiB were allowed",
                self.early.resident_bytes >> 10,
                self.late.resident_bytes >> 10,
                resident_bytes_max(self.early.resident_bytes) >> 10
            ));
        }
        if self.panics > 0 {
            failures.push(format!("{} tasks of the server panicked", self.panics));
        }
        if let Some(first) = self.tally.failures.first() {
            failures.push(format!(
                "{} connections did not get what the server owed them; the first: {first}",
                self.tally.failures.len()
            ));
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        tasks: 2,
        descriptors: 14,
        resident_bytes: 10 << 20,
    };

    fn well() -> Seen {
        Seen {
            before: LOOK,
            early: LOOK,
            late: LOOK,
            panics: 0,
            tally: Tally::default(),
        }
    }

    fn check(change: impl FnOnce(&mut Seen), expected: &[&str]) {
        let mut seen = well();
        change(&mut seen);
        let failures = seen.failures();
        assert_eq!(failures.len(), expected.len(), "{failures:?}");
        for (failure, expected) in failures.iter().zip(expected) {
            assert!(failure.contains(expected) && !failure.contains('\n'), "{failure}");
        }
    }

    #[test]
    fn each_thing_that_failed_has_a_sentence() {
        check(|_| (), &[]);
        check(|seen| seen.late.tasks = 3, &["at the end 3 tasks"]);
        check(|seen| seen.early.tasks = 9, &["after the first part 9 tasks"]);
        check(|seen| seen.late.descriptors = 15, &["15 descriptors open"]);
        check(|seen| seen.late.descriptors = 13, &["13 descriptors open"]);
        check(|seen| seen.panics = 1, &["1 tasks of the server panicked"]);
        check(
            |seen| seen.tally.failures = vec!["thread 7: late".to_owned(); 2],
            &["2 connections did not get what the server owed them; the first: thread 7: late"],
        );
        check(
            |seen| (seen.late.tasks, seen.panics) = (5, 1),
            &["at the end 5 tasks", "panicked"],
        );
    }

    #[test]
    fn memory_may_grow_by_a_tenth_and_four_mebibytes() {
        let limit = resident_bytes_max(LOOK.resident_bytes);
        assert_eq!(limit >> 20, 14);
        check(|seen| seen.late.resident_bytes = limit, &[]);
        check(|seen| seen.late.resident_bytes = limit + 1024, &["grew from 10240 KiB"]);
        check(|seen| seen.early.resident_bytes = 1 << 20, &["grew from 1024 KiB"]);
    }
}
