//! Which worker starts a thread, and who is woken for it, with workers that stand still.

use quadrille_policy::{Bind, LlcId, SetId};

use super::*;
use crate::runtime::Handle;
use crate::sched::bound::tests::run_all;
use crate::sched::still::Still;
use crate::thread;

/// Does something as a worker.
fn as_one<R>(worker: &mut Worker, f: impl FnOnce(&mut Worker) -> R) -> R {
    let context: *const Context = &raw const worker.context;
    // SAFETY: as in `Worker::run`: `worker` stays where it is until the guard is dropped.
    let entered = unsafe { &*context }.enter();
    let result = f(worker);
    drop(entered);
    result
}

/// Threads that park at once.
fn spawn_parked(handle: &Handle, count: usize) -> Vec<thread::JoinHandle<()>> {
    (0..count).map(|_| handle.spawn_thread(thread::park)).collect()
}

/// What a worker finds that waits in its group's queue and its mailbox.
fn run_shared(worker: &mut Worker) {
    while let Some(runnable) = worker.take_shared(64) {
        worker.execute(runnable);
        run_all(worker);
    }
    run_all(worker);
}

/// A thief that has 40 threads, and a spawner in the middle of a task that has spawned 24: four of them have been
/// stolen, so it is known what they are. Neither may be moved afterwards: started threads know where their worker is.
fn fill(handle: &Handle, thief: &mut Worker, spawner: &mut Worker) -> Vec<thread::JoinHandle<()>> {
    fill_with(handle, (thief, 40), (spawner, 24))
}

/// The same with so many threads each.
fn fill_with(
    handle: &Handle,
    (thief, own): (&mut Worker, usize),
    (spawner, spawned): (&mut Worker, usize),
) -> Vec<thread::JoinHandle<()>> {
    let mut threads = as_one(thief, |thief| {
        let threads = spawn_parked(handle, own);
        run_all(thief);
        threads
    });
    threads.extend(as_one(spawner, |_| spawn_parked(handle, spawned)));
    as_one(thief, |thief| {
        let first = thief.steal_in(LlcId(0), Scope::Normal, 4).unwrap();
        thief.execute(first);
        run_all(thief);
    });
    threads
}

/// Tells all threads to end, and lets each worker in turn run what is its own.
fn end_all(threads: &[thread::JoinHandle<()>], workers: &mut [&mut Worker]) {
    for worker in &mut *workers {
        as_one(worker, run_all);
    }
    threads.iter().for_each(|thread| thread.thread().unpark());
    for worker in &mut *workers {
        as_one(worker, run_all);
    }
    // What one unparked of another's.
    for worker in workers {
        as_one(worker, run_all);
    }
    assert!(threads.iter().all(thread::JoinHandle::is_finished));
}

/// Who has many threads leaves the next to one that has fewer and is idle, and no second one before that has come for
/// the first.
#[test]
fn a_thread_goes_to_a_worker_that_has_fewer() {
    let mut still = Still::new("core:2", "bind-slack=1");
    let (mut worker, mut other) = (still.worker(0), still.worker(1));
    let handle = still.handle();
    let threads = as_one(&mut worker, |worker| {
        let mut threads = spawn_parked(&handle, 40);
        run_all(worker);
        let living = worker.context.living.len.get();
        assert_eq!(living, 40, "the other is awake, and may be held up");
        threads.extend(spawn_parked(&handle, 40));
        still.announce(1);
        run_all(worker);
        let elsewhere = worker.context.me().counters.bound_elsewhere.get();
        assert_eq!(elsewhere, 1, "then it is claimed");
        assert!(!other.context.me().bound.is_empty());
        assert_eq!(worker.context.living.len.get(), threads.len() - 1);
        threads.iter().for_each(|thread| thread.thread().unpark());
        run_all(worker);
        threads
    });
    let ended = threads.iter().filter(|thread| thread.is_finished()).count();
    assert_eq!(ended, threads.len() - 1, "the one is the other worker's");
    as_one(&mut other, run_all);
    assert!(threads.iter().all(thread::JoinHandle::is_finished));
}

/// Who has more threads leaves those of a spawner that is in the middle of a task to it, but for a few when they are
/// stuck; and not for longer than it is told to.
#[test]
fn threads_are_left_to_a_busy_spawner_that_has_fewer() {
    for (patience, leaves) in [("1s", true), ("0ns", false)] {
        let mut still = Still::new(
            "core:2",
            &format!("bind-slack=1,bind-pause=1s,bind-patience={patience}"),
        );
        let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
        let threads = fill(&still.handle(), &mut thief, &mut spawner);
        as_one(&mut thief, |thief| {
            let asked = thief.steal_in(LlcId(0), Scope::Normal, 128);
            assert_eq!(asked.is_none(), leaves, "patience {patience}");
            asked.into_iter().for_each(|runnable| thief.execute(runnable));
            run_all(thief);
            let there = &thief.context.shared.workers[0];
            assert_eq!(there.is_spared(Nanos(clock::nanos())), leaves);
            if leaves {
                // Even when the time for which nobody asks is over, it does not stay awake for them.
                there.told.spared_until.store(0, Ordering::Relaxed);
                assert!(!thief.sight.final_look(&thief.context, false));
                let before = thief.context.me().counters.polls.get();
                let stuck = thief.steal_in(LlcId(0), Scope::Rescue, 128).unwrap();
                thief.execute(stuck);
                run_all(thief);
                assert_eq!(
                    thief.context.me().counters.polls.get() - before,
                    u64::from(Bind::default().rescue)
                );
            }
        });
        end_all(&threads, &mut [&mut thief, &mut spawner]);
    }
}

/// Whom a thief finds with threads at each of many looks, for longer than it has patience, it leaves nothing any more,
/// however many it has itself.
#[test]
fn a_worker_that_stays_behind_is_helped() {
    let mut still = Still::new("core:2", "bind-slack=1,bind-pause=0ns,bind-patience=1s");
    let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
    let threads = fill(&still.handle(), &mut thief, &mut spawner);
    as_one(&mut thief, |thief| {
        let look = |thief: &mut Worker| {
            thief.context.now.set(Nanos(clock::nanos()));
            thief.steal_in(LlcId(0), Scope::Normal, 128)
        };
        assert!(look(thief).is_none());
        assert!(thief.context.backlog.get().is_some());
        // As if a second had gone by in such looks.
        let (bind, now) = (thief.context.shared.policy.config.bind.clone(), Nanos(clock::nanos()));
        let looks = (0..=20).map(|i| Nanos(now.0 + i * bind.patience.0 / 20));
        let backlog = looks.fold(None, |log, at| Some(Backlog::seen(log, WorkerId(0), at, &bind)));
        thief.context.backlog.set(backlog);
        let found = look(thief).unwrap();
        assert_ne!(thief.context.backlog.get(), backlog, "it goes on");
        thief.execute(found);
        run_all(thief);
        assert!(thief.context.own_threads() > 44, "it took some");
    });
    as_one(&mut spawner, run_all);
    as_one(&mut thief, |thief| {
        assert!(thief.steal_in(LlcId(0), Scope::Normal, 128).is_none());
        assert_eq!(thief.context.backlog.get(), None, "there was nothing");
    });
    end_all(&threads, &mut [&mut thief, &mut spawner]);
}

/// A thief that already has threads takes so many that both have as many: threads of one spawner are parted once, and
/// evenly.
#[test]
fn a_thief_takes_threads_until_both_have_as_many() {
    let mut still = Still::new("core:2", "bind-patience=1s");
    let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
    // 14 and 60 after the four that `fill_with` moves.
    let threads = fill_with(&still.handle(), (&mut thief, 10), (&mut spawner, 64));
    as_one(&mut thief, |thief| {
        let found = thief.steal_in(LlcId(0), Scope::Normal, 128).unwrap();
        thief.execute(found);
        run_all(thief);
        assert_eq!(
            thief.context.living.len.get(),
            14 + 23,
            "half of what the spawner has more"
        );
        assert!(
            thief.steal_in(LlcId(0), Scope::Normal, 128).is_none(),
            "as many as there: they are not parted one by one"
        );
    });
    end_all(&threads, &mut [&mut thief, &mut spawner]);
}

/// A worker that had threads has tasks later: it is remembered for threads for `bind-patience`, and not for longer.
#[test]
fn tasks_are_not_withheld_as_if_they_were_threads() {
    for (patience, withheld) in [("1s", true), ("1us", false)] {
        let mut still = Still::new("core:3", &format!("bind-pause=0ns,bind-patience={patience}"));
        let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
        let handle = still.handle();
        let threads = fill_with(&handle, (&mut thief, 20), (&mut spawner, 20));
        as_one(&mut spawner, run_all);
        let mut tasks = Vec::new();
        let look = |thief: &mut Worker| as_one(thief, |thief| thief.steal_in(LlcId(0), Scope::Normal, 128));
        assert!(look(&mut thief).is_none(), "there is nothing");
        for _ in 0..2 {
            as_one(&mut spawner, |spawner| {
                tasks.extend((0..4).map(|_| handle.spawn(async {})));
                spawner.context.me().counters.polls.add(1);
            });
            let found = look(&mut thief);
            let is_last = tasks.len() == 8;
            assert!(found.is_none() || !withheld, "{patience}");
            assert!(found.is_some() || withheld || !is_last, "{patience}");
            if let Some(found) = found {
                as_one(&mut thief, |thief| {
                    thief.execute(found);
                    run_all(thief);
                });
            }
        }
        end_all(&threads, &mut [&mut thief, &mut spawner]);
    }
}

/// A thread is left once to a worker that is getting up: it waits in the queue of its group, and is nobody's until it
/// begins.
#[test]
fn a_thread_waits_for_a_worker_that_gets_up() {
    let mut still = Still::new("l2:2 core:1", "bind-slack=1,group=1");
    let (mut worker, mut other) = (still.worker(0), still.worker(1));
    let handle = still.handle();
    let seat = still.shared.sleepers.seat(1);
    let threads: Vec<_> = as_one(&mut worker, |worker| {
        let mut threads = spawn_parked(&handle, 40);
        run_all(worker);
        still.announce(1);
        assert!(still.shared.sleepers.idle.claim_seat(seat));
        _ = still.shared.sleepers.wake(1);
        threads.extend(spawn_parked(&handle, 40));
        run_all(worker);
        threads
    });
    let queued = still.shared.groups[seat.group].len();
    assert_eq!(
        (queued, worker.context.living.len.get()),
        (40, 40),
        "until both have as many"
    );
    as_one(&mut other, |other| {
        run_shared(other);
        assert_eq!(other.context.living.len.get(), 40);
    });
    end_all(&threads, &mut [&mut worker, &mut other]);
}

/// Whoever is asked and is awake does not keep all later threads from those that sleep.
#[test]
fn a_worker_that_is_awake_is_not_asked_for_ever() {
    for seed in 0..4 {
        let mut still = Still::new("core:8", &format!("bind-slack=1,seed={seed}"));
        let mut worker = still.worker(0);
        let handle = still.handle();
        let (threads, elsewhere) = as_one(&mut worker, |worker| {
            let mut threads = spawn_parked(&handle, 40);
            run_all(worker);
            still.announce(6);
            still.announce(7);
            threads.extend(spawn_parked(&handle, 200));
            run_all(worker);
            threads.iter().for_each(|thread| thread.thread().unpark());
            run_all(worker);
            (threads, worker.context.me().counters.bound_elsewhere.get())
        });
        for other in 1..8 {
            as_one(&mut still.worker(other), run_shared);
        }
        assert!(threads.iter().all(thread::JoinHandle::is_finished));
        assert!(elsewhere > 0, "seed {seed}: two sleep and get none of 200");
    }
}

/// A spawner that is left alone by a worker of its small cache is not hidden from the other caches.
#[test]
fn who_leaves_a_spawner_alone_does_not_hide_it_from_other_caches() {
    let mut still = Still::new("llc:2 core:2", "bind-slack=1,bind-patience=1s");
    let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
    let threads = fill(&still.handle(), &mut thief, &mut spawner);
    as_one(&mut thief, |thief| {
        assert!(thief.steal_in(LlcId(0), Scope::Normal, 128).is_none());
    });
    let mut far = still.worker(2);
    as_one(&mut far, |far| {
        far.context.now.set(Nanos(clock::nanos()));
        let found = far.steal_in(LlcId(0), Scope::Normal, 4);
        far.execute(found.expect("it has no threads at all"));
        run_all(far);
    });
    end_all(&threads, &mut [&mut thief, &mut spawner, &mut far]);
}

/// Who was claimed while it withdrew has a token and is awake: what is left to it must not be more than is soon
/// rescued.
#[test]
fn a_late_token_is_no_sign_of_getting_up() {
    let mut still = Still::new("l2:2 core:1", "bind-slack=1,groups=off,group=1");
    let (mut worker, mut other) = (still.worker(0), still.worker(1));
    let handle = still.handle();
    let seat = still.shared.sleepers.seat(1);
    let threads: Vec<_> = as_one(&mut worker, |worker| {
        let mut threads = spawn_parked(&handle, 40);
        run_all(worker);
        // As in `Sleepers::sleep`, when the final look finds something: withdraws, finds itself claimed, consumes
        // nothing ...
        let sleepers = &still.shared.sleepers;
        sleepers.idle.announce(seat);
        assert!(sleepers.idle.claim_seat(seat));
        assert_eq!(sleepers.idle.withdraw(seat), crate::sched::idle::Withdrawn::Claimed);
        // ... and runs what it has found for long, when the claimer's token comes.
        _ = sleepers.wake(1);
        threads.extend(spawn_parked(&handle, 400));
        run_all(worker);
        threads
    });
    let queued = still.shared.groups[seat.group].len();
    as_one(&mut other, run_shared);
    end_all(&threads, &mut [&mut worker, &mut other]);
    assert_eq!(
        queued,
        Bind::default().waiting as usize,
        "no more wait for a worker that is awake"
    );
}

/// Who leaves a spawner alone wakes the one that sleeps and has none.
#[test]
fn who_leaves_a_spawner_alone_wakes_one_that_has_fewer() {
    for seed in 0..12 {
        let mut still = Still::new("core:3", &format!("bind-slack=1,bind-patience=1s,seed={seed}"));
        let (mut spawner, mut thief) = (still.worker(0), still.worker(1));
        let threads = fill(&still.handle(), &mut thief, &mut spawner);
        still.announce(2);
        as_one(&mut thief, |thief| {
            assert!(thief.steal_in(LlcId(0), Scope::Normal, 128).is_none());
        });
        let woken = !still.is_idle(2);
        let mut third = still.worker(2);
        end_all(&threads, &mut [&mut thief, &mut spawner, &mut third]);
        assert!(woken, "seed {seed}");
    }
}

/// What was left once is nobody's to leave again, whatever a policy says.
#[test]
fn nobody_leaves_a_thread_twice() {
    let mut still = Still::new("l2:2 core:1", "adversary=random");
    let worker = still.worker(0);
    still.announce(1);
    let task = still.task(0, SetId::NONE);
    for _ in 0..100 {
        assert!(worker.context.starter(task.meta()).is_some());
    }
    task.meta().set(LEFT);
    for _ in 0..100 {
        assert!(worker.context.starter(task.meta()).is_none());
    }
}

/// Who is woken to start a thread is the last that went idle, unless another one that is idle has fewer.
#[test]
fn the_last_that_went_idle_starts_a_thread_unless_it_has_more() {
    for (recent, other, fewer) in [(8, 0, false), (9, 0, true), (100, 99, false), (100, 50, true)] {
        let still = Still::new("core:2", "bind-slack=7");
        still.announce(0);
        still.announce(1);
        let sleepers = &still.shared.sleepers;
        sleepers.went_idle(1);
        for (worker, living) in [(1, recent), (0, other)] {
            still.shared.workers[worker].living.store(living, Ordering::Relaxed);
        }
        let mut rng = Rng::new(1);
        let seat = still.shared.claim_one_with_fewer(&mut rng);
        assert_eq!(seat, fewer.then(|| sleepers.seat(0)), "{recent}, {other}");
        for worker in &*still.shared.workers {
            worker.living.store(0, Ordering::Relaxed);
        }
    }
}
