//! Every interleaving (up to a number of preemptions) of small uses of the channels, and of what tells tasks something;
//! of locks in `locks`.
//!
//! `RUSTFLAGS="--cfg quadrille_loom" cargo test -p quadrille --lib loom --release`; a lost wake-up shows as a deadlock.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use loom::thread::spawn;

use super::block::block_on;
use super::lock::Word;
use super::{CancellationToken, Notify, mpmc};
use crate::primitives::{AtomicBool, Ordering, UnsafeCell};
use crate::task::{TaskTracker, TaskTrackerToken};

mod broadcast;
mod locks;
mod oneshot;

/// Runs `f` in all interleavings with at most `preemptions_max` switches away from a thread that could go on.
fn check(preemptions_max: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(f);
}

/// What somebody has done before he says so: loom fails the test if who learns of it does not see it.
struct Deed(UnsafeCell<bool>);

impl Deed {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(false)))
    }

    fn is_done(&self) {
        // SAFETY: nobody else uses it before he is told.
        self.0.with_mut(|done| unsafe { *done = true });
    }

    fn is_seen(&self) {
        // SAFETY: who did it has said so, which is what these tests are about.
        assert!(self.0.with(|done| unsafe { *done }));
    }
}

/// Polls `future` once and drops it.
fn poll_and_drop<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    block_on(poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    }))
}

#[test]
fn lock_sections_exclude_each_other() {
    check(4, || {
        let shared = Arc::new((Word::new(), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        // loom's cell fails the test if two threads are inside, or if one doesn't see what the other did.
        let add = |shared: &(Word, UnsafeCell<i32>)| {
            shared.0.run(|| {
                // SAFETY: no two sections overlap, which is what this test is about.
                shared.1.with_mut(|n| unsafe { *n += 1 });
            });
        };
        let thread = spawn(move || add(&other));
        add(&shared);
        thread.join().unwrap();
        // SAFETY: the other thread has ended.
        assert_eq!(shared.1.with(|n| unsafe { *n }), 2);
    });
}

#[test]
fn channel_no_lost_wakeup_with_two_senders_and_one_place() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        let other = sender.clone();
        let threads = [
            spawn(move || block_on(sender.send(1)).unwrap()),
            spawn(move || block_on(other.send(2)).unwrap()),
        ];
        let mut got = [block_on(receiver.recv()).unwrap(), block_on(receiver.recv()).unwrap()];
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        assert!(block_on(receiver.recv()).is_err());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// With room for a third message: the second does not make the channel full, which would write the first one's token
/// off.
#[test]
fn channel_one_token_reaches_every_receiver() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(3);
        let other = receiver.clone();
        let threads = [
            spawn(move || block_on(receiver.recv()).unwrap()),
            spawn(move || block_on(other.recv()).unwrap()),
        ];
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 3);
    });
}

#[test]
fn channel_dropped_waiter_passes_its_token_on() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        let (again, other) = (sender.clone(), receiver.clone());
        let impatient = spawn(move || {
            if let Some(Ok(message)) = poll_and_drop(other.recv()) {
                again.try_send(message).unwrap();
            }
        });
        let patient = spawn(move || block_on(receiver.recv()).unwrap());
        sender.try_send(7).unwrap();
        assert_eq!(patient.join().unwrap(), 7);
        impatient.join().unwrap();
    });
}

#[test]
fn channel_dropped_sender_passes_its_token_on() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        sender.try_send(0).unwrap();
        let other = sender.clone();
        let impatient = spawn(move || poll_and_drop(other.send(1)).is_some());
        let patient = spawn(move || block_on(sender.send(2)).unwrap());
        let mut got = vec![block_on(receiver.recv()).unwrap()];
        while let Ok(message) = block_on(receiver.recv()) {
            got.push(message);
        }
        patient.join().unwrap();
        assert_eq!(got.contains(&1), impatient.join().unwrap());
        assert!(got.contains(&2));
    });
}

#[test]
fn channel_close_wakes_all() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded::<()>(1);
        let other = receiver.clone();
        let threads = [
            spawn(move || block_on(receiver.recv())),
            spawn(move || block_on(other.recv())),
        ];
        assert!(sender.close());
        threads
            .into_iter()
            .for_each(|thread| assert!(thread.join().unwrap().is_err()));
    });
}

#[test]
fn channel_dropped_permit_makes_room() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        let other = sender.clone();
        let permit = sender.try_reserve().unwrap();
        let thread = spawn(move || block_on(other.send(1)).unwrap());
        drop(permit);
        thread.join().unwrap();
        assert_eq!(receiver.try_recv(), Ok(1));
    });
}

/// Who gives a place back races with who gives up waiting for one: the third gets it.
#[test]
fn channel_dropped_reservation_passes_its_token_on() {
    check(3, || {
        let (sender, receiver) = mpmc::bounded(1);
        let permit = sender.clone().try_reserve_owned().unwrap();
        let (hasty, patient) = (sender.clone(), sender);
        let hasty = spawn(move || drop(poll_and_drop(hasty.reserve())));
        let patient = spawn(move || block_on(patient.reserve()).unwrap().send(1));
        drop(permit.release());
        hasty.join().unwrap();
        patient.join().unwrap();
        assert_eq!(receiver.try_recv(), Ok(1));
    });
}

/// Until the last permit has ended receivers wait, and then they all are told.
#[test]
fn channel_last_permit_of_a_closed_channel_tells_all() {
    check(3, || {
        let (sender, receiver) = mpmc::bounded::<i32>(1);
        let other = receiver.clone();
        let permit = sender.try_reserve().unwrap();
        let threads = [
            spawn(move || block_on(receiver.recv())),
            spawn(move || block_on(other.recv())),
        ];
        assert!(sender.close());
        permit.send(1);
        let received = threads.map(|thread| thread.join().unwrap());
        assert_eq!(received.iter().flatten().sum::<i32>(), 1);
        assert!(received.iter().any(Result::is_err));
    });
}

/// Two receivers go, and one of them closes the channel: who waits for that alone is told, or sees it.
#[test]
fn channel_who_waits_for_the_end_is_told() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded::<()>(1);
        let other = receiver.clone();
        let waits = spawn(move || block_on(sender.closed()));
        let thread = spawn(move || drop(other));
        drop(receiver);
        thread.join().unwrap();
        waits.join().unwrap();
    });
}

#[test]
fn channel_who_is_revived_is_open() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        let weak = sender.downgrade();
        let thread = spawn(move || drop(sender));
        if let Some(sender) = weak.upgrade() {
            sender.try_send(1).unwrap();
            drop(sender);
            assert_eq!(block_on(receiver.recv()), Ok(1));
        }
        assert!(block_on(receiver.recv()).is_err());
        thread.join().unwrap();
    });
}

/// A receiver that finds the channel closed sees what each sender did before it went.
#[test]
fn channel_the_end_comes_after_what_all_did() {
    check(3, || {
        let (sender, receiver) = mpmc::bounded::<()>(1);
        let deeds = [sender.clone(), sender].map(|sender| {
            let deed = Deed::new();
            let mine = Arc::clone(&deed);
            let thread = spawn(move || {
                mine.is_done();
                drop(sender);
            });
            (deed, thread)
        });
        assert!(block_on(receiver.recv()).is_err());
        for (deed, thread) in deeds {
            deed.is_seen();
            thread.join().unwrap();
        }
    });
}

#[test]
fn channel_last_receiver_frees_the_senders() {
    check(4, || {
        let (sender, receiver) = mpmc::bounded(1);
        sender.try_send(Arc::new(())).unwrap();
        let inside = Arc::new(());
        let (message, other) = (Arc::clone(&inside), receiver.clone());
        let thread = spawn(move || block_on(sender.send(message)));
        let second = spawn(move || drop(other));
        drop(receiver);
        second.join().unwrap();
        assert!(thread.join().unwrap().is_err());
        assert_eq!(Arc::strong_count(&inside), 1);
    });
}

#[test]
fn q_cancelling_wakes_who_waits_below() {
    check(3, || {
        let token = CancellationToken::new();
        let child = token.child_token();
        let waiting = spawn(move || block_on(child.cancelled()));
        token.cancel();
        waiting.join().unwrap();
    });
}

#[test]
fn q_a_child_that_is_made_meanwhile_is_cancelled() {
    check(3, || {
        let token = CancellationToken::new();
        let other = token.clone();
        let making = spawn(move || {
            let child = other.child_token();
            let grandchild = child.child_token();
            drop(child);
            block_on(grandchild.cancelled_owned());
        });
        token.cancel();
        assert!(token.child_token().is_cancelled());
        making.join().unwrap();
    });
}

#[test]
fn q_who_finds_it_closed_finds_it_cancelled() {
    check(3, || {
        let token = CancellationToken::new();
        let other = token.clone();
        let thread = spawn(move || {
            other.cancel();
            assert!(other.is_cancelled());
        });
        token.cancel();
        assert!(token.is_cancelled());
        thread.join().unwrap();
    });
}

/// Who finds a token, or its child, cancelled sees what was done before.
#[test]
fn q_who_finds_it_cancelled_sees_what_came_before() {
    check(3, || {
        let token = CancellationToken::new();
        let (child, deed) = (token.child_token(), Deed::new());
        let (cancels, mine) = (token.clone(), Arc::clone(&deed));
        let thread = spawn(move || {
            mine.is_done();
            cancels.cancel();
        });
        if child.is_cancelled() || token.is_cancelled() {
            deed.is_seen();
        }
        thread.join().unwrap();
    });
}

#[test]
fn q_a_child_that_goes_meanwhile_is_left_out() {
    check(3, || {
        let token = CancellationToken::new();
        let (child, stays) = (token.child_token(), token.child_token());
        let thread = spawn(move || drop(child));
        token.cancel();
        assert!(stays.is_cancelled());
        thread.join().unwrap();
    });
}

#[test]
fn q_the_last_token_ends_the_wait() {
    check(3, || {
        let tracker = TaskTracker::new();
        let tokens = [tracker.token(), tracker.token()];
        let threads = tokens.map(|token| spawn(move || drop(token)));
        tracker.close();
        block_on(tracker.wait());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Who waits for the end sees what each task did, whichever was the last, and whoever closes the tracker.
#[test]
fn q_the_end_comes_after_what_all_did() {
    for tasks in [1, 2] {
        check(3, move || {
            let tracker = TaskTracker::new();
            let deeds: Vec<_> = (0..tasks).map(|_| Deed::new()).collect();
            let mut threads: Vec<_> = deeds
                .iter()
                .map(|deed| {
                    let (token, mine) = (tracker.token(), Arc::clone(deed));
                    spawn(move || {
                        mine.is_done();
                        drop(token);
                    })
                })
                .collect();
            let other = tracker.clone();
            let close = move || {
                other.close();
            };
            if tasks == 1 {
                threads.push(spawn(close));
            } else {
                close();
            }
            block_on(tracker.wait());
            deeds.iter().for_each(|deed| deed.is_seen());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// Who asks a tracker, and learns that it is empty, closed, or open again, sees what was done before.
#[test]
fn q_who_asks_the_tracker_sees_what_was_done() {
    type Act = fn(&TaskTracker, TaskTrackerToken);
    type Ask = fn(&TaskTracker) -> bool;
    let ends: Act = |_, token| drop(token);
    let closes: Act = |tracker, _token| _ = tracker.close();
    let opens: Act = |tracker, _token| _ = tracker.reopen();
    let cases: [(bool, Act, Ask); 5] = [
        (false, ends, TaskTracker::is_empty),
        (true, ends, TaskTracker::is_empty),
        (false, closes, TaskTracker::is_closed),
        (false, closes, TaskTracker::reopen),
        (true, opens, TaskTracker::close),
    ];
    for (is_closed, act, ask) in cases {
        check(3, move || {
            let (tracker, deed) = (TaskTracker::new(), Deed::new());
            if is_closed {
                tracker.close();
            }
            let (token, other, theirs) = (tracker.token(), tracker.clone(), Arc::clone(&deed));
            let thread = spawn(move || {
                if ask(&other) {
                    theirs.is_seen();
                }
            });
            deed.is_done();
            act(&tracker, token);
            thread.join().unwrap();
        });
    }
}

#[test]
fn q_a_short_moment_is_not_missed() {
    check(3, || {
        let tracker = TaskTracker::new();
        tracker.close();
        let token = tracker.token();
        let wait = tracker.wait();
        let other = tracker.clone();
        let thread = spawn(move || {
            drop(token);
            other.reopen();
        });
        block_on(wait);
        thread.join().unwrap();
    });
}

/// The step that ended the first wait is late for what comes after it: who waits again, with a token that lives, is not
/// told of that end.
#[test]
fn q_an_end_is_not_told_to_the_next_wait() {
    for by_closing in [false, true] {
        check(3, move || {
            let tracker = TaskTracker::new();
            let token = (!by_closing).then(|| tracker.token());
            if !by_closing {
                tracker.close();
            }
            let other = tracker.clone();
            let thread = spawn(move || {
                drop(token);
                if by_closing {
                    other.close();
                }
            });
            block_on(tracker.wait());
            tracker.reopen();
            let token = tracker.token();
            tracker.close();
            let again = tracker.wait();
            thread.join().unwrap();
            assert!(poll_and_drop(again).is_none(), "a token lives");
            drop(token);
        });
    }
}

#[test]
fn g_a_notification_ends_the_wait_or_is_kept() {
    check(4, || {
        let notify = Arc::new(Notify::new());
        let other = notify.clone();
        let thread = spawn(move || other.notify_one());
        block_on(notify.notified());
        thread.join().unwrap();
        assert!(poll_and_drop(notify.notified()).is_none(), "it ends one wait");
    });
}

/// One of two that wait gives up. It got the one notification, and says so, or the other gets it.
#[test]
fn g_a_dropped_future_hands_its_notification_on() {
    check(3, || {
        let notify = Arc::new(Notify::new());
        let (impatient, patient) = (notify.clone(), notify.clone());
        let impatient = spawn(move || {
            if poll_and_drop(impatient.notified()).is_some() {
                impatient.notify_one();
            }
        });
        let patient = spawn(move || block_on(patient.notified()));
        notify.notify_one();
        impatient.join().unwrap();
        patient.join().unwrap();
    });
}

#[test]
fn g_all_are_told_who_were_made_before() {
    check(3, || {
        let notify = Arc::new(Notify::new());
        let threads = [notify.clone(), notify.clone()].map(|notify| {
            let notified = notify.notified_owned();
            spawn(move || block_on(notified))
        });
        notify.notify_waiters();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(poll_and_drop(notify.notified()).is_none(), "nothing is kept");
    });
}

/// Whoever makes a future and then looks is told of what comes after the look, or sees it.
#[test]
fn g_who_is_made_too_late_sees_why() {
    check(4, || {
        let shared = Arc::new((Notify::new(), AtomicBool::new(false)));
        let other = shared.clone();
        let thread = spawn(move || {
            // Ordering: Relaxed; it is `notify_waiters` that hands it over.
            other.1.store(true, Ordering::Relaxed);
            other.0.notify_waiters();
        });
        let notified = shared.0.notified();
        // Ordering: Relaxed, as above.
        if !shared.1.load(Ordering::Relaxed) {
            block_on(notified);
        }
        thread.join().unwrap();
    });
}

/// One waits, and one gives up, both told by a call that is still at work: the notification that comes after it is
/// kept.
#[test]
fn g_a_notification_is_not_given_to_who_is_released() {
    check(3, || {
        let notify = Arc::new(Notify::new());
        let mut first = Box::pin(notify.clone().notified_owned());
        let mut second = Box::pin(notify.clone().notified_owned());
        assert!(!first.as_mut().enable() && !second.as_mut().enable());
        let other = notify.clone();
        let thread = spawn(move || other.notify_waiters());
        block_on(second.as_mut());
        notify.notify_one();
        block_on(Pin::new(&mut first));
        block_on(notify.notified());
        thread.join().unwrap();
    });
}

/// Both calls at once, and those whom they told are dropped: of `notify_one` there is one notification left, of the
/// other none.
#[test]
fn g_what_both_have_told_is_told_apart() {
    check(3, || {
        let notify = Arc::new(Notify::new());
        let mut futures = [(); 2].map(|()| Box::pin(notify.clone().notified_owned()));
        assert!(futures.iter_mut().all(|future| !future.as_mut().enable()));
        let other = notify.clone();
        let thread = spawn(move || other.notify_one());
        notify.notify_waiters();
        drop(futures);
        thread.join().unwrap();
        assert!(poll_and_drop(notify.notified()).is_some());
        assert!(poll_and_drop(notify.notified()).is_none());
    });
}
