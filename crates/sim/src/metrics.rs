//! Counters: the runtime's by the runtime's names, and what only a simulator can see.

use quadrille_policy::{Cause, Level, Placement, Reason};

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// The counters of one worker, or the sum over all. Those of `quadrille::metrics::WorkerMetrics` come first, under the
        /// same names and with the same meaning.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl Counters {
            /// Every counter with its name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }

            pub(crate) fn subtract(&mut self, other: &Self) {
                $(self.$field -= other.$field;)+
            }
        }
    };
}

counters! {
    /// Polls of tasks.
    polls,
    /// Tasks that this worker took from its own LIFO slot.
    slot_pops,
    /// Tasks that this worker took from its own deque, or run queue.
    local_pops,
    /// Tasks taken from its group's FIFO and mailbox.
    group_pops,
    /// Tasks taken from injectors.
    injector_pops,
    /// Tasks put up for the workers of other LLCs; none, the simulated runtime does not.
    exports,
    /// Visits to such a queue of another LLC that found a task; none.
    export_pops,
    /// Visits to that of the own LLC, for which nobody had come; none.
    exports_taken_back,
    /// Wake-ups and spawns that took a task to another LLC on behalf of its coupling set or its waker; none.
    set_moves,
    /// Stolen tasks that were given back, because they belong to a few that stay on their node; none.
    steals_given_back,
    /// Successful steals inside its group.
    steals_group,
    /// Successful steals inside its LLC.
    steals_llc,
    /// Successful steals inside its node.
    steals_node,
    /// Successful steals from another node.
    steals_machine,
    /// Tasks that ran here and were last run by another worker of the same group.
    migrations_group,
    /// The same, from another group of the LLC.
    migrations_llc,
    /// The same, from another LLC of the node.
    migrations_node,
    /// The same, from another node.
    migrations_machine,
    /// Wake-ups by tasks of this worker that stayed with it.
    wakes_self,
    /// Wake-ups pushed directly into a queue, under its lock.
    wakes_direct,
    /// Wake-ups pushed into a mailbox, or a wake list.
    wakes_mailbox,
    /// Wake-ups pushed into an injector.
    wakes_injector,
    /// Wake-ups among those to an injector for which the home group's queue was too long (policy 1).
    wakes_overflow,
    /// Times a member of a group found the lock of its queue taken when it queued a wake-up (policy 1).
    lock_contended,
    /// Wake-ups whose home group was busy while another group of the cache had an idle worker, which was looked for.
    wakes_searched,
    /// Those among them that found one.
    wakes_found,
    /// The same, but not looked for because the cache is too busy (policy 2).
    wakes_cut,
    /// The same, but not looked for because the task was moved often enough (policy 4).
    wakes_capped,
    /// The same, but not looked for because the home group's queue is short (policy 4).
    wakes_fit,
    /// Random probes of two workers, whether one is idle (policy 2).
    probes,
    /// Those among them that met an idle one.
    probes_idle,
    /// Times a count was added to a sum that workers share (policy 5).
    publications,
    /// Other workers that this worker claimed and woke.
    unparks,
    /// Those among them that slept.
    unparks_futex,
    /// Times that an idle worker was left asleep because waking it would not pay.
    unparks_suppressed,
    /// Times this worker was woken and found nothing.
    useless_unparks,
    /// Searches begun.
    searches,
    /// Searches that found nothing.
    searches_failed,
    /// Times it went to sleep or spun on its park word.
    parks,
    /// Looks at all queues as sentinel.
    sentinel_looks,
    /// Tasks found stuck by such a look.
    rescues,
    /// Always 0 in a simulation: pinning is not simulated.
    pin_fallbacks,
    /// Moves of tasks by wake-ups, inside the group.
    moves_wake_group,
    /// Moves of tasks by wake-ups, from another group of the LLC.
    moves_wake_llc,
    /// Moves of tasks by wake-ups, from another LLC of the node.
    moves_wake_node,
    /// Moves of tasks by wake-ups, from another node.
    moves_wake_machine,
    /// Moves of tasks by steals, inside the group.
    moves_steal_group,
    /// Moves of tasks by steals, from another group of the LLC.
    moves_steal_llc,
    /// Moves of tasks by steals, from another LLC of the node.
    moves_steal_node,
    /// Moves of tasks by steals, from another node.
    moves_steal_machine,
    /// Moves of tasks because their cache fetched them, inside the group.
    moves_pull_group,
    /// Moves of tasks because their cache fetched them, from another group of the LLC.
    moves_pull_llc,
    /// Moves of tasks because their cache fetched them, from another LLC of the node.
    moves_pull_node,
    /// Moves of tasks because their cache fetched them, from another node.
    moves_pull_machine,
    /// Moves of tasks that were stuck, inside the group.
    moves_rescue_group,
    /// Moves of tasks that were stuck, from another group of the LLC.
    moves_rescue_llc,
    /// Moves of tasks that were stuck, from another LLC of the node.
    moves_rescue_node,
    /// Moves of tasks that were stuck, from another node.
    moves_rescue_machine,
    /// First runs of tasks away from who spawned them, inside the group.
    moves_spawn_group,
    /// First runs of tasks away from who spawned them, from another group of the LLC.
    moves_spawn_llc,
    /// First runs of tasks away from who spawned them, from another LLC of the node.
    moves_spawn_node,
    /// First runs of tasks away from who spawned them, from another node.
    moves_spawn_machine,
    /// Lost wake-ups. Must stay 0.
    rescued_by_timeout,
    /// Time with a task, ns: its steps, and what wakers do on its account.
    busy_ns,
    /// Part of that: waiting for locks and shared lines, ns.
    lock_wait_ns,
    /// Time without a task but awake: searching, going to sleep, waking up, ns.
    overhead_ns,
    /// Queues and CPUs looked at by searches.
    search_steps,
}

impl Counters {
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
        *match (cause, level) {
            (Cause::Wake, Level::Group) => &mut self.moves_wake_group,
            (Cause::Wake, Level::Llc) => &mut self.moves_wake_llc,
            (Cause::Wake, Level::Node) => &mut self.moves_wake_node,
            (Cause::Wake, Level::Machine) => &mut self.moves_wake_machine,
            (Cause::Steal, Level::Group) => &mut self.moves_steal_group,
            (Cause::Steal, Level::Llc) => &mut self.moves_steal_llc,
            (Cause::Steal, Level::Node) => &mut self.moves_steal_node,
            (Cause::Steal, Level::Machine) => &mut self.moves_steal_machine,
            (Cause::Pull, Level::Group) => &mut self.moves_pull_group,
            (Cause::Pull, Level::Llc) => &mut self.moves_pull_llc,
            (Cause::Pull, Level::Node) => &mut self.moves_pull_node,
            (Cause::Pull, Level::Machine) => &mut self.moves_pull_machine,
            (Cause::Rescue, Level::Group) => &mut self.moves_rescue_group,
            (Cause::Rescue, Level::Llc) => &mut self.moves_rescue_llc,
            (Cause::Rescue, Level::Node) => &mut self.moves_rescue_node,
            (Cause::Rescue, Level::Machine) => &mut self.moves_rescue_machine,
            (Cause::Spawn, Level::Group) => &mut self.moves_spawn_group,
            (Cause::Spawn, Level::Llc) => &mut self.moves_spawn_llc,
            (Cause::Spawn, Level::Node) => &mut self.moves_spawn_node,
            (Cause::Spawn, Level::Machine) => &mut self.moves_spawn_machine,
        } += 1;
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
