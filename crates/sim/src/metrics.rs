//! Counters: the runtime's by the runtime's names, and what only a simulator can see.

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
    /// Other workers that this worker claimed and woke.
    unparks,
    /// Those among them that slept.
    unparks_futex,
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
    /// Wake-ups for which an idle worker was looked for.
    idle_searches,
    /// Wake-ups for which the search was left out because the cache was too busy.
    idle_searches_cut,
    /// Tasks that a wake-up moved to an idle worker that it had found.
    idle_found_moves,
    /// Publications of counts to shared lines.
    count_publications,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sums_of_each() {
        let one = Counters {
            polls: 3,
            count_publications: 5,
            ..Counters::default()
        };
        let mut sum = one;
        sum.add(&one);
        let values: Vec<_> = sum.iter().filter(|(_, value)| *value != 0).collect();
        assert_eq!(values, [("polls", 6), ("count_publications", 10)]);
    }
}
