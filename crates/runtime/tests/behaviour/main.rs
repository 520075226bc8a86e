//! What users may rely on, through the public API alone, on every shape of machine.
//!
//! A scenario runs once a shape (see [`shape`]), each time under a watchdog: a lost wake-up fails the test and names
//! the shape, it does not hang the run. Nothing here waits by sleeping for a while: threads and tasks meet at gates,
//! and what can only be observed is looked at again until it holds or a generous limit has passed.

mod abort_handle;
mod alone;
mod block_on;
mod blocking;
mod broadcast;
mod budget;
mod cells;
#[path = "../../src/child.rs"]
#[expect(dead_code, reason = "shared with the unit tests, who need more of it")]
mod child;
mod closed;
mod count;
mod delay_queue;
mod depth_first;
mod destructors;
mod environment;
mod errors;
mod exports;
mod fairness;
mod gate;
mod greedy;
mod in_place;
mod join_map;
mod late_timers;
mod life_cycle;
mod metrics;
mod mpsc;
mod mpsc_threads;
mod mutex;
mod notify;
mod origins;
mod overtaking;
mod paused_clock;
mod paused_turns;
mod permits;
mod pinned_tasks;
mod policies;
mod probe;
mod readiness;
mod rng;
mod runtimes;
mod rwlock;
mod scale;
mod scope_trees;
mod scopes;
mod seeds;
mod semaphore;
mod send_sync;
mod sets;
mod shape;
mod shutdown;
mod shutdown_anywhere;
mod shutdown_inside;
mod shutdown_storm;
#[path = "../../src/skipped.rs"]
mod skipped;
mod smoke;
mod stage;
mod starvation;
mod streaks;
mod streams;
mod task_locals;
mod task_scope;
mod theft;
mod thieves;
mod thread_faults;
mod thread_gdb;
mod thread_hooks;
mod thread_hygiene;
mod thread_life;
mod thread_list;
mod thread_local;
mod thread_locks;
mod thread_meetings;
mod thread_nested;
mod thread_park;
mod thread_places;
mod thread_rendezvous;
mod thread_scope;
mod thread_shutdown;
mod thread_turns;
mod thread_valgrind;
mod thread_wakes;
mod timers;
mod told;
mod unwinding;
mod wait;
mod waker_calls;
mod waker_ends;
mod wakers;
mod watch;
