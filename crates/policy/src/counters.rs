//! The names of a scheduler's counters, said once for all who keep them.

/// Gives the names of a worker's counters, with what they mean, to the macro `make`: those of the runtime, which a
/// simulator has too.
///
/// `make` is called as `make! { counts: [NAME, ...] moves: [CAUSE LEVEL NAME, ...] }`, each line with its
/// documentation. The second part has a counter for each [`Cause`](crate::Cause) and [`Level`](crate::Level): tasks
/// that ran on another worker than before.
///
/// ```
/// macro_rules! names {
///     (
///         counts: [$($(#[$doc:meta])* $name:ident,)+]
///         moves: [$($(#[$move_doc:meta])* $cause:ident $level:ident $move:ident,)+]
///     ) => {
///         [$(stringify!($name),)+ $(stringify!($move),)+]
///     };
/// }
/// let names = quadrille_policy::counters!(names);
/// assert_eq!(names[0], "polls");
/// assert!(names.contains(&"moves_steal_llc"));
/// ```
#[macro_export]
macro_rules! counters {
    ($make:ident) => {
        $make! {
            counts: [
                /// Polls of tasks.
                polls,
                /// Tasks that were spawned on this worker, but not while it blocked in place.
                spawned,
                /// Tasks that ended on this worker, by whatever end, before it left.
                finished,
                /// Units of their budgets that tasks have spent on this worker, but for the poll in which each ended,
                /// where one worker may go on alone (`solo`), and elsewhere while some are found long (`overtake`);
                /// none with a budget of 255, which is no limit.
                units,
                /// Times that a task gave way by `task::yield_now` on this worker, whenever `units` are counted.
                yields,
                /// Times that this worker was to go on alone, to see whether that gets more done.
                solo_trials,
                /// Windows in which it did.
                solo_windows,
                /// Times that a long task went behind the others of this worker's deque, or of what is bound to it,
                /// because others had yet to have as much time (`overtake`).
                passed_over,
                /// Tasks that this worker took from its own LIFO slot, or bound threads from the place that is theirs.
                slot_pops,
                /// Tasks that this worker took from its own deque.
                local_pops,
                /// Those among them that it took from the back, having just been spawned, because a task waited for
                /// another.
                newest_pops,
                /// Started user-level threads, which are bound to this worker, that it took from their queue.
                bound_pops,
                /// User-level threads that this worker came to start and left to one with fewer.
                bound_elsewhere,
                /// Timers that were set here and have expired.
                timers,
                /// Timers of other workers, asleep, that this worker fired along with its own.
                timers_pulled,
                /// Timers of other workers that this worker fired, because those did not come to it.
                timers_overdue,
                /// Times that a task blocked this worker's thread in place.
                blocks_in_place,
                /// Tasks taken from its group's FIFO and mailbox.
                group_pops,
                /// Tasks taken from injectors.
                injector_pops,
                /// Tasks put up for the workers of other LLCs.
                exports,
                /// Visits to the queue of exports of another LLC that found a task.
                export_pops,
                /// Visits to the queue of exports of the own LLC, for which nobody had come, that found a task.
                exports_taken_back,
                /// Wake-ups and spawns that took a task to another LLC than its home's, on behalf of its coupling set
                /// or its waker.
                set_moves,
                /// Stolen tasks that were given back, because they belong to a few that stay on their node.
                steals_given_back,
                /// Successful steals inside its group.
                steals_group,
                /// Successful steals inside its LLC.
                steals_llc,
                /// Successful steals inside its node.
                steals_node,
                /// Successful steals from another node.
                steals_machine,
                /// Tasks that ran here and were last run by another worker of the same group. The four counters of
                /// migrations are the sums of those of moves, but for the spawns.
                migrations_group,
                /// Tasks that ran here and were last run by another group of the LLC.
                migrations_llc,
                /// Tasks that ran here and were last run by another LLC of the node.
                migrations_node,
                /// Tasks that ran here and were last run by another node.
                migrations_machine,
                /// Wake-ups by tasks of this worker that stayed with it (slot, deque, or the queue of its bound
                /// threads).
                wakes_self,
                /// Wake-ups pushed directly into a group's FIFO.
                wakes_direct,
                /// Wake-ups pushed into a group's mailbox.
                wakes_mailbox,
                /// Wake-ups pushed into an injector.
                wakes_injector,
                /// Wake-ups of user-level threads that are bound to another worker, pushed into that one's mailbox.
                wakes_bound,
                /// Wake-ups pushed into an injector because the home group's queue was too long (policy 1).
                wakes_overflow,
                /// Times a member of a group found the lock of its queue taken when it queued a wake-up (policy 1).
                lock_contended,
                /// Wake-ups whose home group was busy while another group of the cache had an idle worker, which was
                /// looked for.
                wakes_searched,
                /// Wake-ups that looked for an idle worker in another group of the cache and found one.
                wakes_found,
                /// Wake-ups that did not look into other groups because the cache is too busy (policy 2).
                wakes_cut,
                /// Wake-ups that did not look into other groups because the task was moved often enough (policy 4).
                wakes_capped,
                /// Wake-ups that did not look into other groups because the home group's queue is short (policy 4).
                wakes_fit,
                /// Random probes of two workers, whether one is idle (policy 2).
                probes,
                /// Random probes of two workers that met an idle one (policy 2).
                probes_idle,
                /// Times this worker parked and was kept for the task that it ran last (policy 2).
                reserved,
                /// Wake-ups that left a worker alone which is kept for another task (policy 2).
                reserved_passed,
                /// Times a count was added to a sum that workers share (policy 5).
                publications,
                /// Other workers that this worker claimed and woke.
                unparks,
                /// Other workers that this worker claimed and woke, and that slept in the kernel.
                unparks_futex,
                /// Other workers that this worker claimed, and woke out of a poll for readiness.
                unparks_polling,
                /// Times that an idle worker was left asleep because waking it would not pay, also while another one
                /// searched.
                unparks_suppressed,
                /// Times this worker was woken and found nothing.
                useless_unparks,
                /// Searches begun.
                searches,
                /// Searches that found nothing.
                searches_failed,
                /// Other workers' deques and other groups' queues at which searches have looked.
                search_steps,
                /// Times it went to sleep in the kernel or spun on its park word.
                parks,
                /// Looks at all queues as sentinel.
                sentinel_looks,
                /// Tasks found stuck by a look as sentinel.
                rescues,
                /// Polls for readiness, with and without a wait.
                io_polls,
                /// Polls for readiness that brought nothing and had not to wait, or were ended by a notification for
                /// another.
                io_polls_useless,
                /// Events of watched descriptors that polls for readiness brought.
                io_events,
                /// Shards of descriptors that nobody polled and this worker took over, as sentinel.
                io_takeovers,
                /// Whether it was bound and may run in more places now, because others wanted its CPUs (0 or 1): one
                /// that was pinned to its own anywhere in its LLC, one of fewer workers than CPUs anywhere.
                pin_fallbacks,
                /// Lost wake-ups: times that work was found beside which every worker slept. Must stay 0; it is looked
                /// for by builds with `--cfg quadrille_stress` only.
                rescued_by_timeout,
            ]
            moves: [
                /// Moves of tasks by wake-ups, inside the group.
                Wake Group moves_wake_group,
                /// Moves of tasks by wake-ups, from another group of the LLC.
                Wake Llc moves_wake_llc,
                /// Moves of tasks by wake-ups, from another LLC of the node.
                Wake Node moves_wake_node,
                /// Moves of tasks by wake-ups, from another node.
                Wake Machine moves_wake_machine,
                /// Moves of tasks by steals, inside the group.
                Steal Group moves_steal_group,
                /// Moves of tasks by steals, from another group of the LLC.
                Steal Llc moves_steal_llc,
                /// Moves of tasks by steals, from another LLC of the node.
                Steal Node moves_steal_node,
                /// Moves of tasks by steals, from another node.
                Steal Machine moves_steal_machine,
                /// Moves of tasks because their cache fetched them, inside the group.
                Pull Group moves_pull_group,
                /// Moves of tasks because their cache fetched them, from another group of the LLC.
                Pull Llc moves_pull_llc,
                /// Moves of tasks because their cache fetched them, from another LLC of the node.
                Pull Node moves_pull_node,
                /// Moves of tasks because their cache fetched them, from another node.
                Pull Machine moves_pull_machine,
                /// Moves of tasks that were stuck, inside the group.
                Rescue Group moves_rescue_group,
                /// Moves of tasks that were stuck, from another group of the LLC.
                Rescue Llc moves_rescue_llc,
                /// Moves of tasks that were stuck, from another LLC of the node.
                Rescue Node moves_rescue_node,
                /// Moves of tasks that were stuck, from another node.
                Rescue Machine moves_rescue_machine,
                /// First runs of tasks away from who spawned them, inside the group.
                Spawn Group moves_spawn_group,
                /// First runs of tasks away from who spawned them, from another group of the LLC.
                Spawn Llc moves_spawn_llc,
                /// First runs of tasks away from who spawned them, from another LLC of the node.
                Spawn Node moves_spawn_node,
                /// First runs of tasks away from who spawned them, from another node.
                Spawn Machine moves_spawn_machine,
            ]
        }
    };
}
