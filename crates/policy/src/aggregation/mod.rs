//! Policy 3: tasks that share data prefer one last-level cache.
//!
//! A *coupling set* is a number that tasks which share data carry ([`TaskPolicy::set`](crate::TaskPolicy)): those of a
//! handle that a user holds, else a spawn root and all that descends from it. From cache-aware scheduling (Chen Yu, Tim
//! Chen; Linux 7.2), with what that series learned: it began in the wake path and bounced tasks between caches, and it
//! piled up sets that were larger than a cache.
//!
//! 1. *Where a set runs* is summed a cache: by each worker for itself ([`Ledger`]), told to others once an epoch, and
//!    halved each epoch.
//! 2. *What it prefers* ([`SetPolicy`]): the cache with the largest sum, once that exceeds the old one's twice;
//!    nothing, if the set is too large for a cache, is a single task, has not run for 50 ms, or its data fit no cache.
//! 3. *What that changes.* Tasks that prefer the cache they are queued in are not put up for export
//!    ([`Policy::exports`]), and thieves of other caches look at what is exported first and at the rest only when they
//!    have found nothing for 20 us ([`Policy::takes_anything`]). Once an epoch a preferred cache that is hardly busy
//!    pulls a few tasks that live elsewhere ([`Policy::pull`]). A wake that has to leave home's group anyway goes to
//!    the preferred cache, if that has idle workers; it leaves home for no other reason.
//! 4. *Client and server*, which a set can't see when they come from different roots: a task that one other cache wakes
//!    four times in a row moves to its waker ([`Policy::couple`]), unless the waker wakes many, or has not yet made
//!    four wakes for each task that it has woken ([`Wakees`]). A task that is woken more often from another node than
//!    from home's moves there, whomever its wakers wake, if it runs for neither long nor short and no declared set of
//!    its may prefer a cache ([`Aggregation::drift`]).
//! 5. *Tasks with data of their own* are spread, one a cache: if their founder says so, or a set runs long and is
//!    seldom woken.
//!
//! Every limit here only delays: a thief that stays dry takes anything, and policy 6 has the last word between nodes.

mod edges;
mod export;
mod ledger;
mod set_id;

use quadrille_topology::LlcId;

use crate::{Nanos, config::Aggregation};

pub use edges::Wakees;
pub use export::{CouplingView, ExportView, LlcView, PullView};
pub use ledger::{Ledger, Share};
pub use set_id::SetId;

/// What is known about a set at the end of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct SetView<'a> {
    /// Run time of the set by last-level cache, ns, halved each epoch: at a steady pace twice that of an epoch.
    pub occupancy: &'a [u64],
    /// Runs of its tasks, each as [`SetView::POLL`], halved each epoch.
    pub polls: u64,
    /// Its tasks, as far as they are known: those that ran on average count by themselves.
    pub tasks: u32,
    /// Workers of the smallest last-level cache, one a core: two that share a core share its cache's bandwidth.
    pub llc_workers: u32,
    /// When the set ran last before this epoch's sums were told; `None`: not of late.
    pub last_run: Option<Nanos>,
    /// Now.
    pub now: Nanos,
}

impl SetView<'_> {
    /// What a run counts as in `polls`: a few that are halved are not rounded away.
    pub const POLL: u64 = 256;

    fn run_time(&self) -> u64 {
        self.occupancy.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// The policy state of one coupling set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetPolicy {
    /// The cache that the set prefers.
    pub preferred: Option<LlcId>,
    /// Whether its tasks seem to have data of their own, so that new ones are spread.
    pub spread: bool,
}

impl SetPolicy {
    /// Looks at the preference once an epoch; says whether anything changed, which is when others are told.
    ///
    /// There is none for a set that is too large for a cache, of a single task, idle for [`Aggregation::ttl`] before
    /// this epoch, or whose tasks run for long and are seldom woken. Right after such a pause they are not taken to be
    /// of the last kind, unless they have run for an epoch. A set that does not run has no epochs, and keeps what it
    /// had until it runs again.
    pub fn update(&mut self, config: &Aggregation, view: &SetView<'_>) -> bool {
        let old = *self;
        let idle = view.last_run.is_none_or(|last| view.now.since(last) >= config.ttl);
        let is_known = !idle || view.run_time() >= config.epoch.0;
        self.spread = is_known && is_private(config, view);
        self.preferred = if self.spread || idle {
            None
        } else {
            self.preference(config, view)
        };
        *self != old
    }

    fn preference(&self, config: &Aggregation, view: &SetView<'_>) -> Option<LlcId> {
        if view.tasks < 2 || (config.guards && is_too_large(config, view)) {
            return None;
        }
        let llcs = (0..).map(LlcId).zip(view.occupancy);
        // The foremost of the largest.
        let (largest, &most) = llcs.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        let Some(preferred) = self.preferred else {
            return (most > 0).then_some(largest);
        };
        let now = view.occupancy.get(preferred.index()).copied().unwrap_or(0);
        let exceeds = most > now.saturating_mul(u64::from(config.hysteresis));
        Some(if exceeds { largest } else { preferred })
    }
}

/// Tasks of a set that ran at the same time on average, in 1/1024.
fn running(config: &Aggregation, view: &SetView<'_>) -> u64 {
    let two_epochs = u128::from(config.epoch.0.max(1)) * 2;
    let share = u128::from(view.run_time()) * 1024 / two_epochs;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Whether the set would fill a cache's workers.
fn is_too_large(config: &Aggregation, view: &SetView<'_>) -> bool {
    let tasks = running(config, view).max(u64::from(view.tasks) * 1024);
    tasks >= u64::from(view.llc_workers) * u64::from(config.max_set)
}

/// Whether its tasks run for long and are seldom woken, as those do that go through data of their own.
fn is_private(config: &Aggregation, view: &SetView<'_>) -> bool {
    if view.polls == 0 {
        return false;
    }
    let per_run = u128::from(view.run_time()) * u128::from(SetView::POLL) / u128::from(view.polls);
    let long = per_run >= u128::from(config.spread_slice.0);
    let two_epochs = u128::from(config.epoch.0) * 2;
    // Fewer wakes in two epochs than so many a second for each task that runs, one at least; without a division, which
    // would round what is less than one away.
    let running = u128::from(running(config, view).max(1024));
    let allowed = (u128::from(config.spread_wakes) * two_epochs).saturating_mul(running * u128::from(SetView::POLL));
    long && u128::from(view.polls) * 1024 * 1_000_000_000 < allowed
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const MS: u64 = 1_000_000;

    const VIEW: SetView<'static> = SetView {
        occupancy: &[],
        polls: 1_000_000 * SetView::POLL,
        tasks: 4,
        llc_workers: 10,
        last_run: Some(Nanos(1_000 * MS)),
        now: Nanos(1_000 * MS),
    };

    fn check_view(config: &Aggregation, old: Option<u16>, view: &SetView<'_>, new: Option<u16>) {
        let mut set = SetPolicy {
            preferred: old.map(LlcId),
            spread: false,
        };
        let changed = set.update(config, view);
        assert_eq!(set.preferred, new.map(LlcId), "{old:?} {view:?}");
        assert_eq!(changed, old != new || set.spread, "{old:?} {view:?}");
    }

    fn check(old: Option<u16>, occupancy: &[u64], tasks: u32, idle_ms: u64, new: Option<u16>) {
        let view = SetView {
            occupancy,
            tasks,
            now: Nanos((1_000 + idle_ms) * MS),
            ..VIEW
        };
        check_view(&Aggregation::default(), old, &view, new);
    }

    #[test]
    fn the_largest_is_preferred_once_it_is_twice_the_old_one() {
        check(None, &[1, 5, 5], 4, 0, Some(1));
        check(None, &[0, 0], 4, 0, None);
        check(None, &[], 4, 0, None);
        check(Some(0), &[10, 20, 3], 4, 0, Some(0));
        check(Some(0), &[10, 21, 3], 4, 0, Some(1));
        check(Some(0), &[0, 0], 4, 0, Some(0));
        check(Some(9), &[1, 0], 4, 0, Some(0));
    }

    #[test]
    fn sets_that_are_alone_too_large_or_idle_prefer_nothing() {
        check(Some(0), &[10, 0], 1, 0, None);
        check(Some(0), &[10, 0], 7, 0, Some(0));
        check(Some(0), &[10, 0], 8, 0, None); // 80 % of 10 workers
        check(Some(0), &[10, 0], 4, 49, Some(0));
        check(Some(0), &[10, 0], 4, 50, None);
        // Also one that has not run before, however young the clock is.
        let new = SetView {
            occupancy: &[10, 0],
            last_run: None,
            now: Nanos(0),
            ..VIEW
        };
        check_view(&Aggregation::default(), None, &new, None);
    }

    #[test]
    fn a_set_is_as_large_as_what_runs_of_it() {
        // 80 % of ten workers: 7.998 tasks by the constant of 819/1024. Two epochs are 20 ms.
        let at = |tenths: u64| [0, tenths * 2 * MS];
        check(None, &at(79), 2, 0, Some(1));
        check(None, &at(80), 2, 0, None);
        let unguarded = Aggregation {
            guards: false,
            ..Aggregation::default()
        };
        let (occupancy, tasks) = (at(1000), 1000);
        let view = SetView {
            occupancy: &occupancy,
            tasks,
            ..VIEW
        };
        check_view(&unguarded, None, &view, Some(1));
        check_view(&Aggregation::default(), None, &view, None);
    }

    fn check_private(occupancy_ms: u64, polls: u64, spread: bool) {
        let mut set = SetPolicy::default();
        let view = SetView {
            occupancy: &[occupancy_ms * MS],
            polls: polls * SetView::POLL,
            ..VIEW
        };
        set.update(&Aggregation::default(), &view);
        assert_eq!(set.spread, spread, "{occupancy_ms} ms, {polls} polls");
        assert!(!spread || set.preferred.is_none());
    }

    #[test]
    fn long_runs_and_few_wakes_are_data_of_their_own() {
        // One task that runs all the time may be woken once in the 20 ms, four of them 7 times.
        for (ms, polls, spread) in [
            (20, 1, true),
            (20, 2, false),
            (80, 7, true),
            (80, 8, false),
            (2, 1, true),
            (0, 1, false), // short
            (20, 0, false),
            (0, 0, false),
        ] {
            check_private(ms, polls, spread);
        }
    }

    #[test]
    fn a_set_whose_wakes_are_not_seldom_enough_is_kept_together() {
        let epoch = |ms| Aggregation {
            epoch: Nanos::from_millis(ms),
            ..Aggregation::default()
        };
        let wakes = |spread_wakes| Aggregation {
            spread_wakes,
            ..Aggregation::default()
        };
        // One wake in two epochs of 10 ms is 50 a second, in two of 4 ms 125.
        for (config, spread) in [
            (wakes(0), false),
            (wakes(50), false),
            (wakes(51), true),
            (wakes(99), true),
            (wakes(u32::MAX), true),
            (epoch(4), false),
            (epoch(6), true),
        ] {
            let mut set = SetPolicy::default();
            let view = SetView {
                occupancy: &[2 * config.epoch.0],
                polls: SetView::POLL,
                ..VIEW
            };
            set.update(&config, &view);
            let preferred = (!spread).then_some(LlcId(0));
            assert_eq!((set.spread, set.preferred), (spread, preferred), "{config:?}");
        }
    }

    /// What is told `every` ms for long, of runs of so many us.
    #[test]
    fn at_a_steady_pace_the_average_run_is_that_of_one() {
        for (every_ms, run_us, spread) in [
            (12, 600, false),
            (12, 990, false),
            (12, 1_100, true),
            (20, 5_000, true),
            (10, 5_000, true),
            (5, 4_000, false), // 200 wakes a second
        ] {
            let (mut set, config) = (SetPolicy::default(), Aggregation::default());
            let (mut occupancy, mut polls, mut due, mut seen) = (0, 0, 0, vec![]);
            for turn in 1..100 {
                let now = turn * every_ms * MS;
                occupancy += run_us * 1_000;
                polls += SetView::POLL;
                if now < due {
                    continue;
                }
                let view = SetView {
                    occupancy: &[occupancy],
                    polls,
                    last_run: Some(Nanos(now - every_ms * MS)),
                    now: Nanos(now),
                    ..VIEW
                };
                set.update(&config, &view);
                seen.push(set.spread);
                occupancy /= 2;
                polls /= 2;
                due = now + config.epoch.0;
            }
            assert!(
                seen[20..].iter().all(|now| *now == spread),
                "{every_ms} ms, {run_us} us: {seen:?}"
            );
        }
    }

    /// A task of a set that is new, or was idle, tells of its first run: of 1.2 ms, say, in which it has got ready to
    /// spawn what shares its data.
    #[test]
    fn the_first_run_after_a_pause_says_nothing_unless_it_is_long() {
        let ms_ago = |ago| Some(Nanos(1_000 * MS - ago * MS));
        for (last_run, run, spread) in [
            (None, MS + MS / 5, false),
            (ms_ago(60), MS + MS / 5, false),
            (ms_ago(49), MS + MS / 5, true),
            (None, 10 * MS - 1, false),
            (None, 10 * MS, true),
            (ms_ago(100), 60 * MS, true),
        ] {
            let mut set = SetPolicy::default();
            let view = SetView {
                occupancy: &[run, 0],
                polls: SetView::POLL,
                last_run,
                ..VIEW
            };
            set.update(&Aggregation::default(), &view);
            assert_eq!(set.spread, spread, "{last_run:?}, {run} ns");
        }
    }
}
