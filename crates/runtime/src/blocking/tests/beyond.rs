//! Jobs beyond the bound.

use super::*;

/// Those in the queue wait for the job that comes last, and those that run, too.
#[test]
fn a_job_beyond_the_bound_goes_first_and_takes_no_place() {
    for keep_alive in [LONG, Duration::ZERO] {
        let pool = pool(2, keep_alive);
        let releases: Vec<_> = (0..2).map(|_| pool.occupy(|| ())).collect();
        let (sender, receiver) = mpsc::channel();
        for number in 0..2 {
            let sender = sender.clone();
            pool.submit(Box::new(move || sender.send(number).unwrap())).unwrap();
        }
        for round in 1..=3 {
            let (sender, name) = mpsc::channel();
            let job = move || sender.send(thread::current().name().map(str::to_owned)).unwrap();
            pool.submit_beyond(Box::new(job)).unwrap();
            assert_eq!(name.recv().unwrap(), Some(format!("test-{}", round + 1)));
            pool.wait_until(|state| state.threads == 2);
            assert_eq!(
                pool.census(),
                (2, 0, 2),
                "it has left, and has taken none of the others"
            );
        }
        assert!(receiver.try_recv().is_err());
        releases.iter().for_each(|release| release.send(()).unwrap());
        drop(sender);
        assert_eq!(receiver.iter().sum::<i32>(), 1);
        assert_eq!(pool.shutdown(None), 0);
        assert_eq!((pool.load().threads_started, pool.load().jobs), (5, 7));
    }
}

/// Where there is room for it the thread stays.
#[test]
fn a_job_beyond_the_bound_uses_an_idle_thread() {
    let pool = pool(1, LONG);
    for _ in 0..100 {
        let (sender, receiver) = mpsc::channel();
        pool.submit_beyond(Box::new(move || sender.send(()).unwrap())).unwrap();
        receiver.recv().unwrap();
        pool.wait_until(|state| state.idle == 1);
        pool.run(|| ());
        pool.wait_until(|state| state.idle == 1);
    }
    assert_eq!((pool.census(), pool.load().threads_started), ((1, 1, 0), 1));
}

/// Jobs of both kinds, threads that come and go: of those within the bound no more than that run at a time, and all
/// run.
#[test]
fn stress_jobs_beyond_the_bound_leave_the_others_their_places() {
    const JOBS: usize = if cfg!(miri) { 20 } else { 2_000 };
    for keep_alive in [Duration::ZERO, Duration::from_micros(50), LONG] {
        for has_hook in [false, true] {
            let threads = Threads {
                on_stop: has_hook.then(|| Arc::new(thread::yield_now) as Arc<dyn Fn() + Send + Sync>),
                ..Threads::default()
            };
            let limits = Limits {
                threads_max: 2,
                keep_alive,
            };
            let pool = Pool::new(limits, "test", Spawner::without_mask(threads), always());
            pool.watch_for(watch_in(usize::from(has_hook)));
            let (running, most) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
            let (sender, receiver) = mpsc::channel();
            for job in 0..JOBS {
                let (running, most, sender) = (Arc::clone(&running), Arc::clone(&most), sender.clone());
                if job % 3 == 0 {
                    pool.submit_beyond(Box::new(move || sender.send(job).unwrap())).unwrap();
                    continue;
                }
                let job = move || {
                    let now = {
                        let mut running = running.lock().unwrap();
                        *running += 1;
                        *running
                    };
                    let mut most = most.lock().unwrap();
                    *most = now.max(*most);
                    drop(most);
                    thread::yield_now();
                    *running.lock().unwrap() -= 1;
                    sender.send(job).unwrap();
                };
                pool.submit(Box::new(job)).unwrap();
                if pool.load().queued > 10 {
                    thread::yield_now();
                }
            }
            drop(sender);
            // Ends when the last job has dropped its sender; a lost job would hang here.
            let mut seen: Vec<usize> = receiver.iter().collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..JOBS).collect::<Vec<_>>());
            assert!(*most.lock().unwrap() <= 2);
            pool.wait_until(|state| state.beyond == 0 && state.threads <= 2);
            assert_eq!(pool.shutdown(None), 0);
            assert_eq!(pool.census(), (0, 0, 0));
        }
    }
}

/// What stays of a job beyond the bound that is dropped is a thread too many, which leaves writes to those that have a
/// place.
#[test]
fn a_job_beyond_the_bound_that_is_dropped_leaves_no_place() {
    let rounds = if cfg!(miri) { 2 } else { 200 };
    for _ in 0..rounds {
        let pool = pool(1, LONG);
        let release = pool.occupy(|| ());
        let (running, ran) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(0)));
        for _ in 0..10 {
            let (running, ran) = (Arc::clone(&running), Arc::clone(&ran));
            let job = move || {
                let _alone = running.try_lock().expect("one at a time");
                thread::yield_now();
                *ran.lock().unwrap() += 1;
            };
            pool.submit_with(Box::new(job), AtStop::Run).unwrap();
        }
        pool.submit_beyond(Box::new(|| ())).unwrap();
        release.send(()).unwrap();
        assert_eq!(pool.shutdown(None), 0);
        assert_eq!(*ran.lock().unwrap(), 10);
        assert_eq!(pool.shared.lock().beyond, 0);
    }
}
