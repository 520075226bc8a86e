//! The export queues of a real runtime, filled by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use quadrille_policy::{Config, LlcId, Nanos, SetId, WorkerId};

use crate::Runtime;
use crate::sched::Shared;
use crate::sched::still::Still;
use crate::sched::worker::Worker;
use crate::stress;
use crate::task::Runnable;
use crate::task::meta::LastWorker;
use crate::task::spawn::{Options, allocate};

/// Two nodes of two caches of two workers, so that some thief is on the same node and some is not.
fn runtime(config: &str) -> Runtime {
    let config: Config = config.parse().unwrap();
    let builder = Runtime::builder().worker_threads(8);
    let builder = builder.topology("node:2 llc:2 core:2".parse().unwrap());
    builder.config(config).build().unwrap()
}

/// Tasks that are put up at once, as configured by default.
fn batch() -> usize {
    stress::batch(Config::default().aggregation.export_batch)
}

/// Adds one when it is dropped.
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Detached tasks that nobody has queued yet; each counts its end in `ran` and in `dropped`.
fn tasks(shared: &Shared, count: usize, ran: &Arc<AtomicUsize>, dropped: &Arc<AtomicUsize>) -> Vec<Runnable> {
    let task = |_| {
        let (ran, token) = (ran.clone(), Token(dropped.clone()));
        let policy = shared.new_policy(None, SetId::declared(1));
        let (runnable, _detached) = allocate(shared, None, policy, Options::default(), async move {
            let _token = token;
            ran.fetch_add(1, Ordering::SeqCst);
        });
        runnable
    };
    (0..count).map(task).collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not after 20 s: {what}");
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

#[test]
fn what_is_exported_wakes_somebody_and_is_run() {
    for config in [
        "groups=on",
        "groups=on,numa=off",
        "groups=on,skip-count=255",
        "adversary=random",
    ] {
        let runtime = runtime(config);
        let shared = &runtime.handle().shared;
        let (ran, dropped) = (Arc::default(), Arc::default());
        let mut queued = 0;
        for round in 0..200_u16 {
            let (from, to) = (LlcId(round % 4), LlcId(round / 4 % 4));
            let count = 1 + usize::from(round) % 5;
            shared.publish_exports(tasks(shared, count, &ran, &dropped), from, to, None);
            queued += count;
            if round % 3 == 0 {
                // Now with everybody asleep, or nearly so.
                eventually(config, || ran.load(Ordering::SeqCst) == queued);
            }
        }
        eventually(config, || ran.load(Ordering::SeqCst) == queued);
        eventually(config, || dropped.load(Ordering::SeqCst) == queued);
        let total = runtime.metrics().total();
        assert!(total.export_pops + total.exports_taken_back > 0);
    }
}

#[test]
fn what_is_exported_is_dropped_when_the_runtime_stops() {
    let runtime = runtime("groups=on");
    let shared = runtime.handle().shared.clone();
    let (ran, dropped) = (Arc::default(), Arc::default());
    // Everybody is in a task, so that nobody takes anything before the end.
    let (begun, end) = (Arc::new(Barrier::new(9)), Arc::new(Barrier::new(9)));
    for _ in 0..8 {
        let (begun, end) = (begun.clone(), end.clone());
        drop(runtime.spawn(async move {
            begun.wait();
            end.wait();
        }));
    }
    begun.wait();
    for llc in 0..4 {
        shared.publish_exports(tasks(&shared, 10, &ran, &dropped), LlcId(llc), LlcId(0), None);
    }
    runtime.shutdown_background();
    end.wait();
    eventually("every task is dropped", || dropped.load(Ordering::SeqCst) == 40);
    assert!(shared.exports.iter().all(|queue| queue.is_empty()));
}

/// Three caches of two workers; policy 3 tells a worker that has just run dry to leave what is not exported.
const THREE: &str = "llc:3 core:2";

/// What a worker does as last searcher, with a task in the injectors of these caches and these workers idle: whether it
/// stays awake, and who of them is not idle any more.
fn last_look(machine: &str, config: &str, worker: u16, injected: &[u16], idle: &[u16]) -> (bool, Vec<u16>) {
    let mut still = Still::new(
        machine,
        &format!("{config},groups=on,sets-steal-after=1s,skip-count=255"),
    );
    let mut worker = still.worker(worker);
    injected.iter().for_each(|llc| still.inject(*llc));
    idle.iter().for_each(|worker| still.announce(*worker));
    worker.sight.dry_since = worker.far_now();
    let stays = worker.sight.final_look(&worker.context, true);
    let claimed = idle.iter().filter(|worker| !still.is_idle(**worker));
    (stays, claimed.copied().collect())
}

#[test]
fn whoever_may_have_what_is_left_is_woken_behind_each_cache() {
    assert_eq!(last_look(THREE, "default", 0, &[1], &[3, 5]), (false, vec![3]));
    assert_eq!(last_look(THREE, "default", 0, &[1, 2], &[3, 5]), (false, vec![3, 5]));
    // Everybody behind cache 1 is awake: there it waits with the task itself.
    assert_eq!(last_look(THREE, "default", 0, &[1, 2], &[5]), (true, vec![5]));
    assert_eq!(last_look(THREE, "default", 0, &[1, 2], &[]), (true, vec![]));
    // What is its own it goes for, and is a witness for the rest.
    assert_eq!(last_look(THREE, "default", 0, &[0, 1], &[3, 5]), (true, vec![]));
    // With no policy to forbid it, it takes all of it.
    assert_eq!(
        last_look(THREE, "aggregation=off,numa=off", 0, &[1, 2], &[3, 5]),
        (true, vec![])
    );
}

#[test]
fn whoever_may_have_what_is_left_is_woken_where_groups_are_scattered() {
    // Two workers a cache, and both groups count for the first one.
    let check = |worker, injected, idle: &[u16], expected| {
        let config = "default,group-map=0+2/1+3";
        assert_eq!(last_look("llc:2 core:2", config, worker, &[injected], idle), expected);
    };
    check(0, 1, &[3], (false, vec![3]));
    check(0, 1, &[2, 3], (false, vec![3]));
    check(0, 1, &[2], (false, vec![2]));
    // A mate of its group sits behind its own cache, and may have no more than it.
    check(3, 0, &[2], (true, vec![]));
    check(2, 0, &[3, 1], (false, vec![1]));
}

#[test]
fn load_is_that_of_a_caches_own_workers() {
    let still = Still::new("llc:2 core:2", "groups=on,group-map=0+2/1+3");
    let utils = |expected| assert_eq!([0, 1].map(|llc| still.shared.utilisation(llc)), expected);
    utils([1024, 1024]);
    still.announce(2);
    utils([1024, 512]);
    still.announce(0);
    still.announce(3);
    utils([512, 0]);
}

/// A worker of the first of two caches that puts up whatever it has, and so much of it.
fn generous(queued: usize) -> (Still, Worker) {
    let mut still = Still::new("llc:2 core:2", "adversary=farthest,numa=off");
    let worker = still.worker(0);
    (0..queued).for_each(|_| worker.context.local.push(still.task(0, SetId::NONE)));
    (still, worker)
}

/// A second after the clock's beginning, by the worker's clock too: nothing depends on how fast the test is.
fn second(worker: &Worker) -> Nanos {
    let now = Nanos::from_millis(1_000);
    worker.context.now.set(now);
    now
}

#[test]
fn what_nobody_came_for_is_run_next() {
    let (still, mut worker) = generous(3 * batch());
    let exported = || still.shared.exports[0].len();
    let now = second(&worker);
    assert!(worker.spill(now).is_none(), "nobody is idle");
    assert_eq!(exported(), 0);
    still.announce(2);
    assert!(worker.spill(now).is_none());
    assert_eq!(exported(), batch());
    assert!(worker.take_back(now).is_none(), "somebody may come");
    for left in (0..batch()).rev() {
        assert!(worker.take_back(Nanos(now.0 + 50_001)).is_some());
        let queued = (exported(), worker.context.local.len());
        assert_eq!(queued, (left, 2 * batch()), "none goes behind newer ones");
    }
}

/// What runs between two looks up is averaged over the tasks that the worker counts down, from one reading of the clock
/// to the next: a find next to itself is one of them, and no reading.
#[test]
fn a_find_next_to_itself_is_no_look_up() {
    let mut still = Still::new("llc:2 core:2", "groups=on");
    let mut worker = still.worker(0);
    let last_look = worker.context.now.get();
    still.inject(0);
    assert!(worker.dry().is_some());
    assert_eq!(worker.context.now.get(), last_look);
}

#[test]
fn what_was_put_up_stays_until_it_has_run() {
    let (still, mut worker) = generous(2);
    let exported = || still.shared.exports[0].len();
    let now = second(&worker);
    still.announce(2);
    assert!(worker.spill(now).is_none());
    assert_eq!(exported(), 1);
    // A mate that looks after others has it now.
    let runnable = worker.take_exported(LlcId(0), 1).unwrap();
    worker.context.local.pop().unwrap();
    worker.context.local.push(runnable);
    worker.context.local.push(still.task(0, SetId::NONE));
    still.announce(2);
    let stays = worker.spill(now).unwrap();
    assert_eq!(exported(), 0);
    stays.last_worker().set(LastWorker::ran_on(WorkerId(0)));
    worker.context.local.push(stays);
    worker.context.local.pop().unwrap();
    worker.context.local.push(still.task(0, SetId::NONE));
    assert!(worker.spill(now).is_none());
    assert_eq!(exported(), 1);
}

#[test]
fn sleep_ends_a_row_of_skips_and_counts_as_time_without_work() {
    let mut still = Still::new("node:2 llc:1 core:2", "groups=on");
    let mut worker = still.worker(0);
    let since = worker.far_now();
    let shared = still.shared.clone();
    let asleep = |worker: &mut Worker, wake: &(dyn Fn() + Sync)| {
        worker.sight.skips = 5;
        worker.sight.dry_since = since;
        shared.sleepers.start_search(0);
        std::thread::scope(|scope| {
            scope.spawn(wake);
            let awake = worker.sleep();
            if awake.claimed {
                shared.sleepers.stop_search(0);
            }
            awake.slept
        })
    };
    let wake = || {
        eventually("it is idle", || shared.sleepers.idle.bits() == 1);
        assert!(shared.wake_any(LlcId(0), None));
    };
    assert!(asleep(&mut worker, &wake));
    assert_eq!((worker.sight.skips, worker.sight.dry_since), (0, since));
    // It stays awake for something: it goes on where it was.
    still.inject(0);
    assert!(!asleep(&mut worker, &|| ()));
    assert_eq!((worker.sight.skips, worker.sight.dry_since), (5, since));
}

#[test]
fn what_would_be_given_back_is_not_put_up() {
    // Every task but those of a small set may leave for another node; for another cache of the node those may, too.
    for (machine, stays, left) in [
        ("node:2 llc:1 core:2", true, 1),
        ("node:1 llc:2 core:2", false, batch().min(4)),
    ] {
        let mut still = Still::new(machine, "adversary=farthest");
        let mut worker = still.worker(0);
        let (loose, packed) = (SetId::declared(1), SetId::declared(2).packed());
        for set in [loose, packed, loose, packed, loose, packed, loose, packed] {
            worker.context.local.push(still.task(0, set));
        }
        still.announce(2);
        let kept = worker.spill(second(&worker));
        assert_eq!(kept.is_some(), stays, "{machine}");
        assert_eq!(still.shared.exports[0].len(), left, "{machine}");
        if let Some(kept) = kept {
            assert!(kept.policy().get().set.is_packed(), "and it runs now");
        }
    }
}
