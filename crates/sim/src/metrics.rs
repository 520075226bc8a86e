//! Counters: the runtime's by the runtime's names, and what only a simulator can see.

use quadrille_policy::{Cause, Level, Placement, Reason};

macro_rules! simulated {
    (
        counts: [$($(#[$doc:meta])* $field:ident,)+]
        moves: [$($(#[$move_doc:meta])* $cause:ident $level:ident $move:ident,)+]
    ) => {
        /// The counters of one worker, or the sum over all. Those of `quadrille::metrics::WorkerMetrics` come first,
        /// under the same names and with the same meaning. In the model of the kernel a deque is a CPU's run queue and
        /// a mailbox its wake list, and searches look at CPUs. What is not simulated, such as pinning, stays 0.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)+
            $($(#[$move_doc])* pub $move: u64,)+
            /// Time with a task, ns: its steps, and what wakers do on its account.
            pub busy_ns: u64,
            /// Part of that: waiting for locks and shared lines, ns.
            pub lock_wait_ns: u64,
            /// Time without a task but awake: searching, going to sleep, waking up, ns.
            pub overhead_ns: u64,
        }

        impl Counters {
            /// Every counter with its name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let mut values = *self;
                values.each().map(|(name, value)| (name, *value)).into_iter()
            }

            fn each(&mut self) -> [(&'static str, &mut u64); COUNTERS] {
                [
                    $((stringify!($field), &mut self.$field),)+
                    $((stringify!($move), &mut self.$move),)+
                    ("busy_ns", &mut self.busy_ns),
                    ("lock_wait_ns", &mut self.lock_wait_ns),
                    ("overhead_ns", &mut self.overhead_ns),
                ]
            }

            /// The counter of moves for this cause from so far away.
            fn moves(&mut self, cause: Cause, level: Level) -> &mut u64 {
                match (cause, level) {
                    $((Cause::$cause, Level::$level) => &mut self.$move,)+
                }
            }
        }

        /// How many there are.
        const COUNTERS: usize = [$(stringify!($field),)+ $(stringify!($move),)+].len() + 3;
    };
}

quadrille_policy::counters!(simulated);

impl Counters {
    pub(crate) fn add(&mut self, other: &Self) {
        for ((_, value), (_, more)) in self.each().into_iter().zip(other.iter()) {
            *value += more;
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for ((_, value), (_, less)) in self.each().into_iter().zip(other.iter()) {
            *value -= less;
        }
    }

    /// Counts a task that runs here and was elsewhere before.
    pub(crate) fn count_move(&mut self, cause: Cause, level: Level) {
        if cause != Cause::Spawn {
            *match level {
                Level::Group => &mut self.migrations_group,
                Level::Llc => &mut self.migrations_llc,
                Level::Node => &mut self.migrations_node,
                Level::Machine => &mut self.migrations_machine,
            } += 1;
        }
        *self.moves(cause, level) += 1;
    }

    /// Counts a successful steal from so far away.
    pub(crate) fn count_steal(&mut self, level: Level) {
        *match level {
            Level::Group => &mut self.steals_group,
            Level::Llc => &mut self.steals_llc,
            Level::Node => &mut self.steals_node,
            Level::Machine => &mut self.steals_machine,
        } += 1;
    }

    /// Counts why a wake-up goes where it goes.
    pub(crate) fn count_reason(&mut self, reason: Reason, placement: Placement) {
        match reason {
            Reason::Waker | Reason::Pulled | Reason::IdleHome | Reason::Other => return,
            Reason::NobodyIdle => {}
            Reason::Searched => self.wakes_searched += 1,
            Reason::CutOff => self.wakes_cut += 1,
            Reason::Capped => self.wakes_capped += 1,
            Reason::Fits => self.wakes_fit += 1,
        }
        self.wakes_overflow += u64::from(matches!(placement, Placement::Injector { .. }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sums_of_each() {
        let one = Counters {
            polls: 3,
            search_steps: 5,
            ..Counters::default()
        };
        let mut sum = one;
        sum.add(&one);
        let values: Vec<_> = sum.iter().filter(|(_, value)| *value != 0).collect();
        assert_eq!(values, [("polls", 6), ("search_steps", 10)]);
    }
}
