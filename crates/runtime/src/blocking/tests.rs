//! Tests of the pool: no job lost, bounds kept, shutdown in every state.

mod beyond;
mod watch;

use std::sync::Barrier;
use std::sync::mpsc;

use super::*;
use crate::panics::tests::Bomb;

impl Pool {
    /// Threads, those without a job among them, and jobs that wait.
    fn census(&self) -> (usize, usize, usize) {
        let load = self.load();
        (load.threads, load.idle_threads, load.queued)
    }

    /// Queues a job that is dropped if the pool stops before.
    fn submit(&self, job: Job) -> Result<(), Rejected> {
        self.submit_with(job, AtStop::Drop)
    }

    /// The result of a job.
    fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        self.submit(Box::new(move || sender.send(job()).unwrap())).unwrap();
        receiver.recv().unwrap()
    }

    /// Lets a job run, which does `last` when it is released.
    fn occupy(&self, last: impl FnOnce() + Send + 'static) -> mpsc::Sender<()> {
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let job = move || {
            begun.send(()).unwrap();
            released.recv().unwrap();
            last();
        };
        self.submit(Box::new(job)).unwrap();
        begins.recv().unwrap();
        release
    }

    /// Waits until `done` holds; the pool tells whenever a thread leaves.
    fn wait_until(&self, done: impl Fn(&State) -> bool) {
        let mut state = self.shared.lock();
        while !done(&state) {
            state = self
                .shared
                .left
                .wait_timeout(state, Duration::from_millis(1))
                .unwrap()
                .0;
        }
    }
}

/// A pool with these bounds, whose threads watch each time once they watch at all.
fn pool(threads_max: usize, keep_alive: Duration) -> Pool {
    let limits = Limits {
        threads_max,
        keep_alive,
    };
    Pool::new(limits, "test", Spawner::default(), always())
}

/// What does not pay is done all the same.
fn always() -> Config {
    "spin-probe=1".parse().unwrap()
}

/// In every second round.
fn watch_in(round: usize) -> Nanos {
    Nanos::from_micros(round as u64 % 2 * 20)
}

/// A pool of one thread that stops when it has no job: then `stops` hears of it, and it waits for a word from what is
/// returned.
fn pool_that_stops_slowly(stops: mpsc::Sender<()>) -> (Pool, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let on_stop = move || {
        // Nobody listens any more to the stops after the first.
        let _ = stops.send(());
        // Nor sends; that the sender has gone releases as well.
        let _ = released.lock().unwrap().recv();
    };
    let threads = Threads {
        on_stop: Some(Arc::new(on_stop)),
        ..Threads::default()
    };
    let limits = Limits {
        threads_max: 1,
        keep_alive: Duration::ZERO,
    };
    let pool = Pool::new(limits, "test", Spawner::without_mask(threads), Config::default());
    (pool, release)
}

/// A pool each of whose threads waits in its start hook for a word from what is returned, or until that has gone.
fn pool_that_starts_slowly() -> (Pool, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let on_start = move || {
        let _ = released.lock().unwrap().recv();
    };
    let threads = Threads {
        on_start: Some(Arc::new(on_start)),
        ..Threads::default()
    };
    let limits = Limits {
        threads_max: 100,
        keep_alive: LONG,
    };
    let pool = Pool::new(limits, "test", Spawner::without_mask(threads), always());
    (pool, release)
}

/// Long enough never to pass within a test.
const LONG: Duration = Duration::from_secs(1000);

/// Adds 1 when dropped.
struct CountDrop(Arc<Mutex<usize>>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn a_job_runs_on_a_named_thread_of_the_pool() {
    let pool = pool(4, LONG);
    assert_eq!(
        pool.load(),
        BlockingMetrics::default(),
        "no thread before the first job"
    );
    let name = pool.run(|| thread::current().name().map(str::to_owned));
    assert_eq!(name.as_deref(), Some("test-0"));
    assert_eq!(pool.shutdown(None), 0);
    assert_eq!(pool.census(), (0, 0, 0));
    assert_eq!((pool.load().threads_started, pool.load().jobs), (1, 1));
}

#[test]
fn an_idle_thread_is_used_again() {
    let pool = pool(4, LONG);
    for _ in 0..100 {
        pool.run(|| ());
        pool.wait_until(|state| state.idle == state.threads);
    }
    assert_eq!(pool.census(), (1, 1, 0));
}

/// Two were promised jobs that others have taken since. They are for the next jobs, and call for more: nobody else is
/// called by who queues those.
#[test]
fn while_two_are_on_their_way_nobody_else_is_called() {
    let pool = pool(5, LONG);
    let busy: Vec<_> = (0..4).map(|_| pool.occupy(|| ())).collect();
    busy.iter().for_each(|release| release.send(()).unwrap());
    pool.wait_until(|state| state.idle == 4);
    {
        let mut state = pool.shared.lock();
        (state.idle, state.permits) = (2, 2);
    }
    let all = Arc::new(Barrier::new(4));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..4 {
        let (sender, all) = (sender.clone(), Arc::clone(&all));
        let job = move || {
            all.wait();
            sender.send(()).unwrap();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    drop(sender);
    let books = |state: &State| (state.idle, state.permits, state.queue.len(), state.threads);
    assert_eq!(books(&pool.shared.lock()), (2, 2, 4, 4));
    // The wake-ups that belonged to the promises come at last.
    (0..2).for_each(|_| pool.shared.work.notify_one());
    assert_eq!(receiver.iter().count(), 4);
    pool.wait_until(|state| books(state) == (4, 0, 0, 4));
}

/// A thread whose start hook takes its time is busy with that: what is queued meanwhile is for those who are idle.
#[test]
fn nobody_waits_for_a_start_hook_while_another_is_idle() {
    let (pool, hook) = pool_that_starts_slowly();
    hook.send(()).unwrap();
    let first = pool.occupy(|| ());
    // For this one a thread is started, which stays in its hook; the first one takes it.
    let (sender, receiver) = mpsc::channel();
    let job = sender.clone();
    pool.submit(Box::new(move || job.send(1).unwrap())).unwrap();
    pool.wait_until(|state| (state.threads, state.starting) == (2, 0));
    first.send(()).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    pool.wait_until(|state| state.idle == 1);
    pool.submit(Box::new(move || sender.send(2).unwrap())).unwrap();
    assert_eq!(receiver.recv(), Ok(2));
    drop(hook);
    assert_eq!(pool.shutdown(None), 0);
}

/// Those that have come call others for jobs that are not theirs, and each job is one thread's.
#[test]
fn threads_in_their_start_hooks_are_as_many_as_jobs() {
    const JOBS: usize = 8;
    let (pool, hook) = pool_that_starts_slowly();
    let all = Arc::new(Barrier::new(JOBS));
    for _ in 0..JOBS {
        let all = Arc::clone(&all);
        let job = move || {
            all.wait();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    pool.wait_until(|state| state.hooking == JOBS);
    assert_eq!(books_of_starts(&pool.shared.lock()), (JOBS, 0, JOBS));
    drop(hook);
    pool.wait_until(|state| state.idle == JOBS);
    assert_eq!(books_of_starts(&pool.shared.lock()), (JOBS, 0, 0));
    assert_eq!(pool.shutdown(None), 0);
}

/// Threads, and those among them that have not begun, or are in their hook.
fn books_of_starts(state: &State) -> (usize, usize, usize) {
    (state.threads, state.starting, state.hooking)
}

#[test]
fn as_many_jobs_run_at_a_time_as_threads_are_allowed() {
    const THREADS: usize = 5;
    let pool = pool(THREADS, LONG);
    // Each job waits for all of them: they all finish only if they all run at the same time.
    let barrier = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let barrier = Arc::clone(&barrier);
        let job = move || {
            barrier.wait();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    barrier.wait();
    assert_eq!(pool.shutdown(None), 0);
}

#[test]
fn by_default_512_threads_are_allowed_and_stay_for_10_s() {
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let limits = runtime.handle().shared.pool.shared.limits;
    assert_eq!((limits.threads_max, limits.keep_alive), (512, Duration::from_secs(10)));
}

#[test]
fn jobs_beyond_the_bound_wait_their_turn() {
    let pool = pool(2, LONG);
    let running = Arc::new(Mutex::new((0_usize, 0_usize)));
    let (sender, receiver) = mpsc::channel();
    for number in 0..200 {
        let (running, sender) = (Arc::clone(&running), sender.clone());
        let job = move || {
            let mut counts = running.lock().unwrap();
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
            drop(counts);
            thread::yield_now();
            running.lock().unwrap().0 -= 1;
            sender.send(number).unwrap();
        };
        pool.submit(Box::new(job)).unwrap();
        assert!(pool.load().threads <= 2);
    }
    let mut seen: Vec<usize> = receiver.iter().take(200).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    assert!(running.lock().unwrap().1 <= 2);
}

#[test]
fn an_idle_thread_leaves_after_keep_alive_and_another_comes() {
    let pool = pool(3, Duration::from_millis(1));
    for round in 1..=3 {
        pool.run(|| ());
        pool.wait_until(|state| state.threads == 0);
        assert_eq!(pool.shared.lock().next, round, "one thread a round");
    }
    assert!(pool.shared.lock().handles.is_empty());
}

#[test]
fn a_panic_does_not_end_the_thread() {
    let pool = pool(1, LONG);
    pool.submit(Box::new(|| panic!("for the test"))).unwrap();
    pool.submit(Box::new(|| std::panic::panic_any(Bomb))).unwrap();
    let name = pool.run(|| thread::current().name().map(str::to_owned));
    assert_eq!(name.as_deref(), Some("test-0"));
    assert_eq!(pool.shutdown(None), 0);
}

#[test]
fn shutdown_drops_what_has_not_begun_and_waits_for_what_has() {
    let pool = pool(1, LONG);
    let (dropped, ran) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&ran);
    let release = pool.occupy(move || *count.lock().unwrap() += 1);
    for _ in 0..10 {
        let guard = CountDrop(Arc::clone(&dropped));
        let count = Arc::clone(&ran);
        let job = move || {
            let _guard = guard;
            *count.lock().unwrap() += 100;
        };
        pool.submit(Box::new(job)).unwrap();
    }
    assert_eq!(pool.census(), (1, 0, 10));
    assert_eq!(pool.shutdown(Some(Duration::ZERO)), 1, "the running job is abandoned");
    assert_eq!(*dropped.lock().unwrap(), 10, "each queued job is dropped once");
    release.send(()).unwrap();
    assert_eq!(pool.shutdown(None), 0, "and waited for by a second call");
    assert_eq!(*ran.lock().unwrap(), 1, "no queued job has run");
}

/// One job runs, and behind it in the queue are jobs of both kinds, in turn.
#[test]
fn jobs_that_are_to_run_all_the_same_run_after_shutdown_in_their_order() {
    for (limit, abandoned) in [(Some(Duration::ZERO), 1), (None, 0)] {
        let pool = pool(1, LONG);
        let release = pool.occupy(|| ());
        let log = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            let at_stop = if number % 2 == 0 { AtStop::Run } else { AtStop::Drop };
            let log = Arc::clone(&log);
            let job = move || log.lock().unwrap().push(number);
            pool.submit_with(Box::new(job), at_stop).unwrap();
        }
        if limit.is_none() {
            release.send(()).unwrap();
        }
        assert_eq!(pool.shutdown(limit), abandoned);
        if limit.is_some() {
            assert_eq!(pool.census(), (1, 0, 5));
            release.send(()).unwrap();
        }
        assert_eq!(pool.shutdown(None), 0);
        let ran = log.lock().unwrap();
        let even = ran.iter().copied().filter(|number| number % 2 == 0);
        assert!(even.eq([0, 2, 4, 6, 8]), "{ran:?}");
    }
}

/// The jobs come while the only thread is in its hook; with or without a shutdown, which is over before the hook is.
#[test]
fn a_job_that_comes_while_the_last_thread_stops_is_run() {
    for shuts_down in [false, true] {
        let (stops, stopping) = mpsc::channel();
        let (pool, release) = pool_that_stops_slowly(stops);
        pool.run(|| ());
        stopping.recv().unwrap();
        assert_eq!(pool.census(), (1, 0, 0), "it counts, and isn't idle");
        let (sender, receiver) = mpsc::channel();
        for (number, at_stop) in [AtStop::Run, AtStop::Drop, AtStop::Run].into_iter().enumerate() {
            let sender = sender.clone();
            let job = move || sender.send(number).unwrap();
            pool.submit_with(Box::new(job), at_stop).unwrap();
        }
        drop(sender);
        assert_eq!(pool.census(), (1, 0, 3), "no second thread");
        if shuts_down {
            assert_eq!(
                pool.shutdown(Some(Duration::ZERO)),
                1,
                "who is in its hook is abandoned"
            );
        }
        drop(release);
        let expected: &[usize] = if shuts_down { &[0, 2] } else { &[0, 1, 2] };
        assert!(receiver.iter().eq(expected.iter().copied()));
        assert_eq!(pool.shutdown(None), 0);
        assert_eq!(pool.load().threads_started, 1);
    }
}

#[test]
fn shutdown_waits_for_a_thread_that_stops() {
    let (stops, stopping) = mpsc::channel();
    let (pool, release) = pool_that_stops_slowly(stops);
    pool.run(|| ());
    stopping.recv().unwrap();
    assert_eq!(pool.shutdown(Some(Duration::ZERO)), 1);
    drop(release);
    assert_eq!(pool.shutdown(None), 0);
    assert_eq!(pool.census(), (0, 0, 0));
}

/// Looked at as often as can be while threads that sleep go: none of them has anything to run on its way out.
#[test]
fn stress_threads_at_rest_are_never_counted_as_abandoned() {
    const THREADS: usize = 4;
    let rounds = if cfg!(miri) { 2 } else { 1_000 };
    for round in 0..rounds {
        let pool = pool(THREADS, LONG);
        pool.watch_for(watch_in(round));
        let releases: Vec<_> = (0..THREADS).map(|_| pool.occupy(|| ())).collect();
        releases.iter().for_each(|release| release.send(()).unwrap());
        pool.wait_until(|state| state.idle == THREADS);
        assert_eq!(pool.shutdown(Some(Duration::ZERO)), 0);
        loop {
            // A lock that waits would be given away late: the moments between two locks of a thread are short.
            if let Ok(state) = pool.shared.state.try_lock() {
                assert_eq!(state.threads, state.idle + state.permits, "who isn't asleep has left");
                if state.threads == 0 {
                    break;
                }
            }
            thread::yield_now();
        }
    }
}

#[test]
fn stress_what_was_accepted_to_run_all_the_same_runs() {
    const JOBS: usize = 50;
    let rounds = if cfg!(miri) { 2 } else { 200 };
    for round in 0..rounds {
        let pool = Arc::new(pool(2, Duration::from_micros(20)));
        pool.watch_for(watch_in(round));
        let ran = Arc::new(Mutex::new(0));
        let submitter = {
            let (pool, ran) = (Arc::clone(&pool), Arc::clone(&ran));
            thread::spawn(move || {
                let job = || {
                    let ran = Arc::clone(&ran);
                    Box::new(move || *ran.lock().unwrap() += 1)
                };
                (0..JOBS)
                    .filter(|_| pool.submit_with(job(), AtStop::Run).is_ok())
                    .count()
            })
        };
        for _ in 0..round % 20 {
            thread::yield_now();
        }
        assert_eq!(pool.shutdown(None), 0);
        assert_eq!(submitter.join().unwrap(), *ran.lock().unwrap());
    }
}

#[test]
fn shutdown_outlives_jobs_that_panic_when_dropped() {
    let pool = pool(1, LONG);
    let release = pool.occupy(|| ());
    for _ in 0..3 {
        let bomb = Bomb;
        pool.submit(Box::new(move || drop(bomb))).unwrap();
    }
    release.send(()).unwrap();
    assert_eq!(pool.shutdown(None), 0);
}

#[test]
fn a_job_is_given_back_after_shutdown() {
    let pool = pool(1, LONG);
    assert_eq!(pool.shutdown(None), 0);
    let dropped = Arc::new(Mutex::new(0));
    let guard = CountDrop(Arc::clone(&dropped));
    let rejected = pool.submit(Box::new(move || drop(guard))).unwrap_err();
    assert!(matches!(rejected.reason, Reason::Stopping));
    assert_eq!(*dropped.lock().unwrap(), 0);
    drop(rejected.job);
    assert_eq!(*dropped.lock().unwrap(), 1);
}

#[test]
fn shutdown_from_a_job_of_the_pool_does_not_wait_for_itself() {
    let pool = Arc::new(pool(2, LONG));
    let inner = Arc::clone(&pool);
    let abandoned = pool.run(move || (inner.shutdown(None), inner.shutdown(None)));
    assert_eq!(abandoned, (1, 1));
    assert_eq!(pool.shutdown(None), 0);
}

#[test]
fn dropping_a_pool_ends_its_idle_threads() {
    let pool = pool(2, LONG);
    pool.run(|| ());
    let shared = Arc::clone(&pool.shared);
    drop(pool);
    let mut state = shared.lock();
    while state.threads > 0 {
        state = shared.left.wait(state).unwrap();
    }
    assert_eq!(state.idle + state.permits, 0);
}

/// Many submitters, threads that leave all the time: every job runs once, the books balance at the end.
#[test]
fn stress_no_job_is_lost() {
    const SUBMITTERS: usize = 4;
    const JOBS: usize = if cfg!(miri) { 20 } else { 2_000 };
    let lives = [Duration::ZERO, Duration::from_micros(50), LONG];
    for (round, keep_alive) in lives.into_iter().flat_map(|life| [life; 2]).enumerate() {
        let pool = Arc::new(pool(3, keep_alive));
        pool.watch_for(watch_in(round));
        let (sender, receiver) = mpsc::channel();
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|submitter| {
                let (pool, sender) = (Arc::clone(&pool), sender.clone());
                thread::spawn(move || {
                    for job in 0..JOBS {
                        let sender = sender.clone();
                        let number = submitter * JOBS + job;
                        pool.submit(Box::new(move || sender.send(number).unwrap())).unwrap();
                        if job % 7 == 0 {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        // Ends when the last job has dropped its sender; a lost job would hang here.
        let mut seen: Vec<usize> = receiver.iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..SUBMITTERS * JOBS).collect::<Vec<_>>());
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        assert_eq!(pool.shutdown(None), 0);
        let state = pool.shared.lock();
        assert_eq!(
            (state.threads, state.idle, state.permits, state.queue.len()),
            (0, 0, 0, 0)
        );
    }
}

/// Shutdown at any moment: each job either ran or was dropped, exactly once, and nothing hangs.
#[test]
fn stress_shutdown_accounts_for_every_job() {
    const JOBS: usize = 50;
    let rounds = if cfg!(miri) { 2 } else { 200 };
    for round in 0..rounds {
        let pool = Arc::new(pool(2, Duration::from_micros(20)));
        pool.watch_for(watch_in(round));
        let dropped = Arc::new(Mutex::new(0));
        let submitter = {
            let (pool, dropped) = (Arc::clone(&pool), Arc::clone(&dropped));
            thread::spawn(move || {
                for _ in 0..JOBS {
                    let guard = CountDrop(Arc::clone(&dropped));
                    drop(pool.submit(Box::new(move || drop(guard))));
                }
            })
        };
        for _ in 0..round % 20 {
            thread::yield_now();
        }
        assert_eq!(pool.shutdown(None), 0);
        submitter.join().unwrap();
        assert_eq!(*dropped.lock().unwrap(), JOBS);
    }
}
