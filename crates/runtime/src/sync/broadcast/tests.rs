use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::sync::wake_all::tests::Wakes;

/// Every script of seven steps on two receivers that come and go, against a list of all that was sent: with as many
/// slots as messages are kept, with more, and with fewer at first.
#[test]
fn every_short_script() {
    for (capacity, slots) in [(2, 2), (1, 2), (3, 4), (2, 1), (3, 1), (3, 2)] {
        (0..5_usize.pow(7)).for_each(|script| short_script(script, capacity, slots));
    }
}

fn short_script(script: usize, capacity: usize, slots: usize) {
    let case = format_args!("script {script}, {capacity} kept, {slots} slots");
    let (sender, first) = with_slots(capacity, slots);
    let probe = Arc::new(());
    // Each with the position that it is at in the model.
    let mut receivers = [Some((first, 0)), None];
    let mut sent = 0_usize;
    for at in 0..7 {
        match script / 5_usize.pow(at) % 5 {
            0 => {
                let there = receivers.iter().flatten().count();
                let result = sender.send((sent, probe.clone()));
                assert_eq!(result.ok(), (there > 0).then_some(there), "{case}");
                sent += usize::from(there > 0);
            }
            step @ (1 | 2) => {
                let Some((receiver, position)) = &mut receivers[step - 1] else {
                    continue;
                };
                let oldest = sent.saturating_sub(capacity);
                let got = receiver.try_recv().map(|(n, _)| n);
                if *position < oldest {
                    assert_eq!(got, Err(TryRecvError::Lagged((oldest - *position) as u64)), "{case}");
                    *position = oldest;
                } else if *position < sent {
                    assert_eq!(got, Ok(*position), "{case}");
                    *position += 1;
                } else {
                    assert_eq!(got, Err(TryRecvError::Empty), "{case}");
                }
                assert_eq!(receiver.len(), sent - *position, "{case}");
            }
            step => match receivers[step - 3].take() {
                Some(gone) => drop(gone),
                None => receivers[step - 3] = Some((sender.subscribe(), sent)),
            },
        }
        let kept = receivers.iter().flatten().map(|(_, position)| *position).min();
        let kept = kept.map_or(0, |position| sent - position.max(sent.saturating_sub(capacity)));
        assert_eq!(sender.len(), kept, "{case}: what all have taken is gone");
        assert_eq!(Arc::strong_count(&probe), kept + 1, "{case}");
    }
}

/// Each at its place, also who has not looked since.
#[test]
fn messages_move_when_there_are_too_few_slots() {
    let (sender, mut at_start) = with_slots(100, 2);
    let mut at_five = sender.subscribe();
    let take = |receiver: &mut Receiver<u32>, from: u32, to: u32| {
        (from..to).for_each(|n| assert_eq!(receiver.try_recv(), Ok(n)));
    };
    (0..5).for_each(|n| assert_eq!(sender.send(n), Ok(2)));
    take(&mut at_five, 0, 5);
    let mut late = sender.subscribe();
    (5..100).for_each(|n| assert_eq!(sender.send(n), Ok(3)));
    assert_eq!(sender.len(), 100);
    take(&mut at_start, 0, 50);
    take(&mut late, 5, 100);
    assert_eq!((late.try_recv(), sender.len()), (Err(TryRecvError::Empty), 95));
    (100..120).for_each(|n| assert_eq!(sender.send(n), Ok(3)));
    assert_eq!(at_five.try_recv(), Err(TryRecvError::Lagged(15)));
    take(&mut at_five, 20, 120);
    take(&mut at_start, 50, 120);
    take(&mut late, 100, 120);
    assert!(sender.is_empty());
}

/// A section moves so many messages at most, unless far more are kept.
#[test]
fn many_slots_are_made_at_once() {
    let slots_next = |capacity, slots: usize| {
        let (sender, mut receiver) = with_slots(capacity, slots);
        (0..=slots).for_each(|n| assert_eq!(sender.send(n), Ok(1)));
        (0..=slots).for_each(|n| assert_eq!(receiver.try_recv(), Ok(n)));
        sender.shared.end.change(|end| (false, end.slots()))
    };
    assert_eq!(slots_next(100_000, 1 << 13), 1 << 14);
    assert_eq!(slots_next(100_000, 1 << 14), 1 << 17);
    assert_eq!(slots_next(usize::MAX, 1 << 14), 1 << 15);
}

#[test]
fn waiting_ends_with_a_message_or_the_last_sender() {
    let (sender, mut receiver) = channel(4);
    let mut other = receiver.resubscribe();
    assert!(block_on(poll_once(receiver.recv())).is_none());
    assert!(receiver.same_channel(&other) && sender.same_channel(&sender.clone()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(block_on(receiver.recv()), Ok(1));
            assert_eq!(receiver.blocking_recv(), Ok(2));
            assert_eq!(receiver.blocking_recv(), Err(RecvError::Closed));
        });
        scope.spawn(|| {
            assert_eq!(block_on(other.recv()), Ok(1));
            drop(other);
        });
        assert_eq!(sender.send(1), Ok(2));
        assert!(sender.send(2).is_ok());
        drop(sender);
    });
    assert!(receiver.is_closed() && receiver.is_empty());
}

#[test]
fn a_message_that_panics_when_it_is_dropped_keeps_no_receiver() {
    #[derive(Clone, Debug)]
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as asked");
        }
    }
    let (sender, receiver) = channel(4);
    assert_eq!(sender.send(Panics).ok(), Some(1));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!((sender.receiver_count(), sender.len()), (0, 0));
    assert!(block_on(poll_once(sender.closed())).is_some());
}

#[test]
fn a_message_that_panics_when_it_is_cloned_is_passed_by() {
    #[derive(Debug)]
    struct Panics(u32, Arc<()>);
    impl Clone for Panics {
        fn clone(&self) -> Self {
            assert!(self.0 > 0, "as asked");
            Self(self.0, self.1.clone())
        }
    }
    let (sender, mut first) = channel(4);
    let mut last = sender.subscribe();
    let probe = Arc::new(());
    (0..2).for_each(|n| assert!(sender.send(Panics(n, probe.clone())).is_ok()));
    assert!(catch_unwind(AssertUnwindSafe(|| first.try_recv())).is_err());
    assert_eq!(
        (first.try_recv().map(|message| message.0).ok(), first.len()),
        (Some(1), 0)
    );
    assert_eq!(
        last.try_recv().map(|message| message.0).ok(),
        Some(0),
        "it has the message itself"
    );
    assert_eq!((sender.len(), Arc::strong_count(&probe)), (1, 2));
}

/// Whoever clones it drops the other receiver first, and so has the last share of it.
#[test]
fn a_clone_goes_with_a_message_that_panics_when_it_is_dropped() {
    struct Panics {
        other: Arc<Mutex<Option<Receiver<Self>>>>,
        is_clone: bool,
        probe: Arc<()>,
    }
    impl Clone for Panics {
        fn clone(&self) -> Self {
            drop(self.other.lock().unwrap().take());
            Self {
                other: self.other.clone(),
                is_clone: true,
                probe: self.probe.clone(),
            }
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(self.is_clone, "as asked");
        }
    }
    let probe = Arc::new(());
    let (sender, mut receiver) = channel(4);
    let message = Panics {
        other: Arc::new(Mutex::new(Some(sender.subscribe()))),
        is_clone: false,
        probe: probe.clone(),
    };
    assert!(sender.send(message).is_ok());
    assert!(catch_unwind(AssertUnwindSafe(|| receiver.try_recv().is_ok())).is_err());
    assert_eq!(Arc::strong_count(&probe), 1, "the clone is gone, too");
}

#[test]
fn messages_that_panic_when_they_are_dropped_keep_no_other() {
    #[derive(Debug)]
    struct Panics {
        panics: bool,
        _probe: Arc<()>,
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(!self.panics, "as asked");
        }
    }
    let probe = Arc::new(());
    let (sender, receiver) = channel(100);
    for n in 0..100 {
        let message = Panics {
            panics: [0, 1, 50].contains(&n),
            _probe: probe.clone(),
        };
        assert!(sender.send(message).is_ok());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!((sender.receiver_count(), sender.len()), (0, 0));
    assert_eq!(Arc::strong_count(&probe), 1);
}

#[test]
fn a_waker_that_panics_keeps_no_message() {
    let probe = Arc::new(());
    let (sender, receiver) = channel(4);
    let waker = waker_that_panics();
    (0..3).for_each(|_| drop(sender.send(probe.clone())));
    let mut closed = Box::pin(sender.closed());
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!((sender.receiver_count(), sender.len()), (0, 0));
    assert_eq!(Arc::strong_count(&probe), 1);
}

/// Whoever looks meanwhile, as the destructor of a message can, does not find what nobody waits for any more.
#[test]
fn who_goes_leaves_all_messages_at_once() {
    #[derive(Clone)]
    struct Looks(Sender<Self>, Arc<Mutex<Vec<usize>>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0.len());
        }
    }
    for taken_by_other in [None, Some(0), Some(60), Some(100)] {
        let (sender, slow) = channel(100);
        let mut other = taken_by_other.map(|_| sender.subscribe());
        let seen = Arc::new(Mutex::new(Vec::new()));
        (0..100).for_each(|_| assert!(sender.send(Looks(sender.clone(), seen.clone())).is_ok()));
        let taken = taken_by_other.unwrap_or(100);
        for _ in 0..taken_by_other.unwrap_or(0) {
            mem::forget(other.as_mut().expect("it takes some").try_recv());
        }
        drop(slow);
        assert_eq!(*seen.lock().unwrap(), vec![100 - taken; taken]);
        drop(other);
        assert_eq!((seen.lock().unwrap().len(), sender.len()), (100, 0));
    }
}

#[test]
fn many_messages_are_left_by_who_goes() {
    let (sender, receiver) = channel(100);
    let probe = Arc::new(());
    (0..150).for_each(|_| drop(sender.send(probe.clone())));
    drop(receiver);
    assert_eq!((Arc::strong_count(&probe), sender.len()), (1, 0));
}

#[test]
fn the_sender_learns_that_nobody_listens() {
    let (sender, receiver) = channel(1);
    assert!(block_on(poll_once(sender.closed())).is_none());
    drop(receiver);
    block_on(sender.closed());
    assert_eq!(sender.send(5), Err(SendError(5)));
    let mut again = sender.subscribe();
    assert_eq!(sender.send(6), Ok(1));
    assert_eq!(again.try_recv(), Ok(6));
    assert_eq!(Sender::new(1).send(7), Err(SendError(7)));
}

#[test]
fn a_weak_sender_keeps_nothing_open() {
    let (sender, mut receiver) = channel(2);
    let weak = sender.downgrade();
    let other = weak.clone().upgrade().expect("there is a sender");
    assert_eq!((weak.sender_count(), other.same_channel(&sender)), (2, true));
    drop(sender);
    assert_eq!(other.send(1), Ok(1));
    assert!(!receiver.is_closed());
    let waker = Arc::new(Wakes::default());
    let mut late = receiver.resubscribe();
    let mut waits = Box::pin(late.recv());
    let mut cx = Context::from_waker(Waker::noop());
    let told = Waker::from(waker.clone());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&told)).is_pending());
    drop(other);
    assert_eq!(waker.count(), 1, "the last one closes it");
    assert!(weak.upgrade().is_none());
    assert_eq!((weak.sender_count(), receiver.is_closed()), (0, true));
    assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(Err(RecvError::Closed)));
    assert_eq!(
        (receiver.try_recv(), receiver.try_recv()),
        (Ok(1), Err(TryRecvError::Closed))
    );
}

#[test]
fn receivers_come_and_go_while_others_send() {
    for capacity in [1, 3, 100] {
        let (sender, kept) = channel(capacity);
        let probe = Arc::new(());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..5_000).for_each(|_| assert!(sender.send(probe.clone()).is_ok())));
            }
            for takes in [0, 1, 50] {
                let sender = &sender;
                scope.spawn(move || {
                    for _ in 0..500 {
                        let mut receiver = sender.subscribe();
                        (0..takes).for_each(|_| drop(receiver.try_recv()));
                        let other = receiver.resubscribe();
                        drop(receiver);
                        assert!(other.len() <= 10_000 && sender.len() <= capacity);
                    }
                });
            }
        });
        assert_eq!(
            (kept.len(), sender.len(), sender.receiver_count()),
            (10_000, capacity, 1)
        );
        assert_eq!(Arc::strong_count(&probe), capacity + 1);
        drop(kept);
        assert_eq!((Arc::strong_count(&probe), sender.len()), (1, 0));
    }
}

/// The oldest message makes room for a new one, and its destructor panics, as the waker of who waits does: the message
/// was sent all the same.
#[test]
fn a_lost_message_and_a_waker_may_both_panic() {
    #[derive(Clone)]
    struct Message(bool);
    impl Drop for Message {
        fn drop(&mut self) {
            assert!(!self.0, "for the test, from a message");
        }
    }
    let (sender, _slow) = channel(1);
    let mut receiver = sender.subscribe();
    assert!(sender.send(Message(true)).is_ok());
    mem::forget(receiver.try_recv());
    let mut receive = Box::pin(receiver.recv());
    let bomb = waker_that_panics();
    assert!(receive.as_mut().poll(&mut Context::from_waker(&bomb)).is_pending());
    let sends = || _ = sender.send(Message(false));
    assert!(catch_unwind(AssertUnwindSafe(sends)).is_err());
    assert!(block_on(receive).is_ok());
}

/// Of one that goes, and is not gone yet, what was sent since is not kept; `len` may count it all the same, and never
/// more than is kept.
#[test]
fn who_leaves_counts_as_if_it_were_there_or_not_at_all() {
    for sent_since in [0, 50, 150] {
        let (mut end, mut leaves) = End::new(200, 256);
        let mut stays = end.enter();
        let mut before = None;
        let push = |end: &mut End<u32>| assert!(matches!(end.push(Alone::new(0), &mut None), Pushed::Sent(..)));
        (0..100).for_each(|_| push(&mut end));
        let until = end.leave();
        assert_eq!(leaves.pass(&end, until, &mut before).len(), 32);
        (0..sent_since).for_each(|_| push(&mut end));
        while stays.take_at(&end, &mut before).is_some() {}
        let len = end.wanted();
        assert!(
            [0, (68 + sent_since).min(200)].contains(&len),
            "{len} with {sent_since}"
        );
        while leaves.pass(&end, until, &mut before).is_full() {}
        assert!(end.left() == (end.receivers == 0) && end.wanted() == 0);
    }
}
