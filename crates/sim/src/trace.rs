//! What happened, as a hash, and as text if asked for.

use std::fmt::Write;

use quadrille_policy::Nanos;

use crate::workload::TaskId;

/// A kind of thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A task begins to run.
    Run,
    /// A task waits.
    Block,
    /// A task gives way.
    Yield,
    /// A task ends.
    Exit,
    /// A task became ready.
    Wake,
    /// A worker goes to sleep.
    Sleep,
    /// A worker is claimed.
    Claim,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Block => "block",
            Self::Yield => "yield",
            Self::Exit => "exit",
            Self::Wake => "wake",
            Self::Sleep => "sleep",
            Self::Claim => "claim",
        }
    }
}

/// Sees everything that happens, in order.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    text: Option<String>,
}

impl Trace {
    pub(crate) fn new(with_text: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            text: with_text.then(String::new),
        }
    }

    /// Notes that something happened. `task`: to whom, if to a task.
    #[inline]
    pub(crate) fn note(&mut self, at: Nanos, worker: u16, what: What, task: Option<TaskId>) {
        let task_word = task.map_or(u64::MAX, |task| u64::from(task.0));
        let word = u64::from(worker) << 48 | (what as u64) << 40 | task_word & 0xff_ffff_ffff;
        for word in [at.0, word] {
            // FNV-1a over words instead of bytes, with a rotation that brings high bits down.
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
        if let Some(text) = &mut self.text {
            let _ = match task {
                Some(task) => writeln!(text, "{} w{worker} {} t{}", at.0, what.name(), task.0),
                None => writeln!(text, "{} w{worker} {}", at.0, what.name()),
            };
        }
    }

    /// The hash and, if it was kept, the text.
    pub(crate) fn finish(self) -> (u64, Option<String>) {
        (self.hash, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(notes: &[(u64, u16, What, Option<TaskId>)]) -> u64 {
        let mut trace = Trace::new(false);
        for (at, worker, what, task) in notes {
            trace.note(Nanos(*at), *worker, *what, *task);
        }
        trace.finish().0
    }

    #[test]
    fn every_part_counts_and_so_does_the_order() {
        let task = Some(TaskId(1));
        let base = [(1, 2, What::Run, task), (2, 2, What::Sleep, None)];
        assert_eq!(hash(&base), hash(&base));
        for other in [
            [(2, 2, What::Run, task), base[1]],
            [(1, 3, What::Run, task), base[1]],
            [(1, 2, What::Exit, task), base[1]],
            [(1, 2, What::Run, Some(TaskId(2))), base[1]],
            [base[1], base[0]],
        ] {
            assert_ne!(hash(&base), hash(&other), "{other:?}");
        }
    }

    #[test]
    fn the_text_has_a_line_for_each() {
        let mut trace = Trace::new(true);
        trace.note(Nanos(5), 3, What::Run, Some(TaskId(7)));
        trace.note(Nanos(6), 3, What::Sleep, None);
        assert_eq!(trace.finish().1.as_deref(), Some("5 w3 run t7\n6 w3 sleep\n"));
    }
}
