//! Permits, and handles that don't count.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::panics::tests::waker_that_panics;

#[test]
fn a_permit_takes_a_place_until_it_ends() {
    for capacity in [1, 2, 64, 65] {
        let (sender, receiver) = bounded(capacity);
        let mut permits: Vec<_> = (0..capacity).map(|_| sender.try_reserve().unwrap()).collect();
        assert!(sender.is_full() && receiver.is_full());
        assert_eq!((sender.len(), sender.capacity()), (0, Some(capacity)));
        assert_eq!(sender.try_send(0), Err(TrySendError::Full(0)));
        assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Full(()));
        permits.pop().unwrap().send(1);
        assert_eq!(sender.try_send(0), Err(TrySendError::Full(0)), "its message is there");
        assert_eq!(receiver.try_recv(), Ok(1));
        sender.try_send(2).unwrap();
        drop(permits);
        assert_eq!(sender.is_full(), capacity == 1);
        assert_eq!(receiver.try_recv(), Ok(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    }
}

#[test]
fn an_unbounded_channel_has_permits_without_end() {
    let (sender, receiver) = unbounded();
    let permits: Vec<_> = (0..1000).map(|_| sender.try_reserve().unwrap()).collect();
    assert_eq!((sender.capacity(), sender.is_full()), (None, false));
    for (n, permit) in permits.into_iter().enumerate() {
        permit.send(n);
    }
    assert!((0..1000).all(|n| receiver.try_recv() == Ok(n)));
    assert!(receiver.is_empty());
}

#[test]
fn a_place_that_is_given_back_goes_to_who_waits_longest() {
    let (sender, receiver) = bounded(1);
    let permit = sender.try_reserve().unwrap();
    let mut send = Hand::new(sender.send(1)).pending();
    let mut reserve = Hand::new(sender.reserve()).pending();
    drop(permit);
    assert_eq!((send.wakes(), reserve.wakes()), (1, 0));
    assert!(send.poll().is_ready());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(reserve.wakes(), 1);
    let Poll::Ready(Ok(permit)) = reserve.poll() else {
        panic!("a place is free")
    };
    permit.send(2);
    assert_eq!(receiver.try_recv(), Ok(2));
}

#[test]
fn a_reservation_that_is_dropped_hands_its_turn_on() {
    let (sender, receiver) = bounded::<()>(1);
    let permit = sender.try_reserve().unwrap();
    let first = Hand::new(sender.reserve()).pending();
    let mut owned = Hand::new(sender.clone().reserve_owned()).pending();
    drop(permit);
    assert_eq!((first.wakes(), owned.wakes()), (1, 0));
    drop(first);
    assert_eq!(owned.wakes(), 1);
    let Poll::Ready(Ok(permit)) = owned.poll() else {
        panic!("a place is free")
    };
    assert!(permit.same_channel_as_sender(&sender));
    assert_eq!(sender.sender_count(), 2);
    let second = Hand::new(sender.clone().reserve_owned()).pending();
    drop(second);
    drop(permit);
    assert_eq!((sender.sender_count(), sender.is_full()), (1, false));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

/// Of those who got a permit and do nothing none stands in the way of the rest for longer than it takes the others to
/// end theirs.
#[test]
fn a_forgotten_reservation_delays_until_the_channel_is_empty_at_most() {
    let (sender, _receiver) = bounded::<()>(2);
    let permits = [(); 2].map(|()| sender.try_reserve().unwrap());
    let forgotten = Hand::new(sender.reserve()).pending();
    let mut other = Hand::new(sender.reserve()).pending();
    drop(permits);
    assert_eq!((forgotten.wakes(), other.wakes()), (1, 1));
    assert!(matches!(other.poll(), Poll::Ready(Ok(_))));
}

/// The place that a permit takes last fills the channel as a message would.
#[test]
fn a_permit_that_fills_the_channel_ends_the_reliance_on_who_was_told() {
    let (sender, receiver) = bounded(2);
    let forgotten = Hand::new(receiver.recv()).pending();
    let mut other = Hand::new(receiver.recv()).pending();
    sender.try_send(1).unwrap();
    assert_eq!((forgotten.wakes(), other.wakes()), (1, 0));
    let permit = sender.try_reserve().unwrap();
    assert!(sender.is_full());
    assert_eq!((forgotten.wakes(), other.wakes()), (1, 1));
    assert_eq!(other.poll(), Poll::Ready(Ok(1)));
    drop(permit);
}

#[test]
fn a_burst_by_permits_wakes_few() {
    let (sender, receiver) = bounded(32);
    let mut receives: Vec<_> = (0..32).map(|_| Hand::new(receiver.recv()).pending()).collect();
    let permits: Vec<_> = (0..32).map(|_| sender.try_reserve().unwrap()).collect();
    for (n, permit) in permits.into_iter().enumerate() {
        permit.send(n);
    }
    assert_eq!(receives.iter().map(Hand::wakes).sum::<usize>(), 2);
    for (n, receive) in receives.iter_mut().enumerate() {
        assert_eq!((receive.wakes(), receive.poll()), (1, Poll::Ready(Ok(n))));
    }
}

/// All places are taken by permits, of which one stays out: nothing else will tell the second receiver.
#[test]
fn a_forgotten_receive_delays_by_one_message_of_a_channel_full_of_permits() {
    for capacity in [1, 2, 3, 100] {
        let (sender, receiver) = bounded(capacity);
        let forgotten = Hand::new(receiver.recv()).pending();
        let mut other = Hand::new(receiver.recv()).pending();
        sender.try_send(0).unwrap();
        assert_eq!(receiver.try_recv(), Ok(0), "somebody else was faster");
        let mut permits: Vec<_> = (0..capacity).map(|_| sender.try_reserve().unwrap()).collect();
        permits.pop().unwrap().send(1);
        assert_eq!((forgotten.wakes(), other.wakes()), (1, 1));
        assert_eq!(other.poll(), Poll::Ready(Ok(1)));

        let Some(permit) = permits.pop() else { continue };
        let mut third = Hand::new(receiver.recv()).pending();
        let mut fourth = Hand::new(receiver.recv()).pending();
        permits.push(sender.try_reserve().unwrap());
        permit.send(2);
        permits.pop().unwrap().send(3);
        assert_eq!((third.wakes(), fourth.wakes()), (1, 1));
        assert!(third.poll().is_ready() && fourth.poll().is_ready());
    }
}

#[test]
fn permits_of_a_closed_channel_are_waited_for() {
    let (sender, receiver) = bounded(3);
    let [first, second, third] = [(); 3].map(|()| sender.try_reserve().unwrap());
    let mut receives: Vec<_> = (0..3).map(|_| Hand::new(receiver.recv()).pending()).collect();
    let mut send = Hand::new(sender.send(0)).pending();
    assert!(receiver.close() && !sender.close());
    assert_eq!(send.poll(), Poll::Ready(Err(SendError(0))));
    assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Closed(()));
    assert!(matches!(block_on(sender.reserve()), Err(SendError(()))));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "not at its end");
    first.send(1);
    assert_eq!(receives.remove(0).poll(), Poll::Ready(Ok(1)));
    drop(second);
    assert!(receives.iter_mut().all(|receive| receive.poll().is_pending()));
    third.send(3);
    assert_eq!(receives[0].wakes(), 1, "the last permit tells everybody");
    assert_eq!(receives[0].poll(), Poll::Ready(Ok(3)));
    assert_eq!(
        (receives[1].wakes(), receives[1].poll()),
        (1, Poll::Ready(Err(RecvError)))
    );
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn what_a_permit_sends_to_nobody_is_dropped() {
    for closes_first in [false, true] {
        let probe = Arc::new(());
        let (sender, receiver) = bounded(2);
        let (permit, owned) = (
            sender.try_reserve().unwrap(),
            sender.clone().try_reserve_owned().unwrap(),
        );
        assert_eq!(closes_first, closes_first && receiver.close());
        drop(receiver);
        permit.send(Arc::clone(&probe));
        assert_eq!(Arc::strong_count(&probe), 1);
        let other = owned.send(Arc::clone(&probe));
        assert_eq!((Arc::strong_count(&probe), sender.len()), (1, 0));
        assert!(other.is_closed());
    }
}

#[test]
fn an_owned_permit_keeps_the_channel_open_and_gives_its_sender_back() {
    let (sender, receiver) = bounded(1);
    let permit = sender.try_reserve_owned().unwrap();
    assert_eq!((receiver.is_closed(), receiver.sender_count()), (false, 1));
    let sender = permit.send(1);
    let sender = match sender.try_reserve_owned() {
        Err(TrySendError::Full(sender)) => sender,
        other => panic!("{other:?}"),
    };
    assert_eq!(receiver.try_recv(), Ok(1));
    let sender = sender.try_reserve_owned().unwrap().release();
    assert!(!sender.is_full());
    let permit = block_on(sender.reserve_owned()).unwrap();
    drop(permit);
    assert!(receiver.is_closed());
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

    let (sender, receiver) = bounded::<()>(1);
    receiver.close();
    assert!(matches!(
        sender.clone().try_reserve_owned(),
        Err(TrySendError::Closed(_))
    ));
    assert!(matches!(block_on(sender.reserve_owned()), Err(SendError(()))));
    assert_eq!(receiver.sender_count(), 0);
}

/// A message is inside, so that two places come free and one waiter is told: its poll takes one, and tells the other
/// waiter.
#[test]
fn a_waker_that_panics_loses_no_place() {
    let (sender, _receiver) = bounded(3);
    sender.try_send(0).unwrap();
    let permits = [(); 2].map(|()| sender.try_reserve().unwrap());
    let mut first = Hand::new(sender.reserve()).pending();
    let mut second = pin!(sender.reserve());
    let bomb = waker_that_panics();
    assert!(second.as_mut().poll(&mut Context::from_waker(&bomb)).is_pending());
    drop(permits);
    assert_eq!(first.wakes(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(first.poll()))).is_err());
    let again = [(); 2].map(|()| sender.try_reserve().unwrap());
    assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Full(()));
    drop(again);
}

#[test]
#[should_panic(expected = "after it had ended")]
fn an_ended_reservation_of_a_sender_is_not_polled_again() {
    let (sender, _receiver) = bounded::<()>(1);
    let mut reserve = Hand::new(sender.reserve_owned());
    assert!(reserve.poll().is_ready());
    let _ = reserve.poll();
}

#[test]
fn weak_senders_do_not_keep_the_channel_open() {
    let (sender, receiver) = bounded(2);
    let weak = sender.downgrade();
    let second = weak.clone().upgrade().unwrap();
    assert_eq!((weak.sender_count(), receiver.sender_count()), (2, 2));
    assert!(second.same_channel(&sender));
    second.try_send(1).unwrap();
    drop(sender);
    assert!(!receiver.is_closed());
    drop(second);
    assert!(receiver.is_closed() && weak.upgrade().is_none());
    assert_eq!(weak.sender_count(), 0);
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

    let (sender, receiver) = bounded::<()>(1);
    let weak = sender.downgrade();
    drop(receiver);
    assert!(weak.upgrade().unwrap().is_closed(), "closed, and yet there is a sender");
}

#[test]
fn permits_and_weak_handles_move_between_threads() {
    fn movable<T: std::marker::Send + Sync>(_: &T) {}
    let (sender, _receiver) = bounded::<u8>(3);
    let (permit, owned) = (
        sender.try_reserve().unwrap(),
        sender.clone().try_reserve_owned().unwrap(),
    );
    let (reserve, reserve_owned, weak) = (sender.reserve(), sender.clone().reserve_owned(), sender.downgrade());
    movable(&permit);
    movable(&owned);
    movable(&reserve);
    movable(&reserve_owned);
    movable(&weak);
    assert_eq!(
        format!("{permit:?} {owned:?} {reserve:?} {reserve_owned:?} {weak:?}"),
        "Permit { .. } OwnedPermit { .. } Reserve { .. } ReserveOwned { .. } WeakSender { .. }"
    );
}
