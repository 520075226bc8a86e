//! Futures that were told and are left alone: by how much they delay others.

use super::*;

#[test]
fn forgotten_future_delays_by_a_full_channel_at_most() {
    for capacity in [1, 4, 64, 1000] {
        let (sender, receiver) = bounded(capacity);
        let forgotten = Hand::new(receiver.recv()).pending();
        let mut other = Hand::new(receiver.recv()).pending();
        let mut sent = 0;
        while other.wakes() == 0 {
            sender.try_send(sent).unwrap();
            assert!(receiver.len() <= 64);
            if capacity == 1 && sent == 0 {
                // With one place the first message fills the channel: make room as somebody else would.
                assert_eq!(receiver.try_recv(), Ok(0));
            }
            sent += 1;
        }
        assert_eq!(forgotten.wakes(), 1);
        assert!(other.poll().is_ready());
        drop(forgotten);
    }
}

/// Others keep the channel at a few messages, so that it is neither full nor empty, and its length tells nothing.
#[test]
fn a_forgotten_receive_delays_by_64_messages_that_pass() {
    let by_permit = |sender: &Sender<usize>, n| sender.try_reserve().unwrap().send(n);
    let by_message = |sender: &Sender<usize>, n| sender.try_send(n).unwrap();
    for put in [by_permit as fn(&Sender<usize>, usize), by_message] {
        for inside in [0, 1, 9] {
            let (sender, receiver) = bounded(1000);
            let forgotten = Hand::new(receiver.recv()).pending();
            let mut stream = receiver.clone();
            let next = stream.next();
            let mut next = Hand::new(next).pending();
            let mut other = Hand::new(receiver.recv()).pending();
            let mut sent = 0;
            while other.wakes() == 0 {
                assert!(sent < 64, "{inside} inside");
                put(&sender, sent);
                sent += 1;
                if other.wakes() == 0 && sent > inside {
                    assert_eq!(receiver.try_recv(), Ok(sent - inside - 1));
                }
            }
            assert_eq!((forgotten.wakes(), next.wakes(), sent), (1, 1, 64), "{inside} inside");
            assert!(other.poll().is_ready());
            assert_eq!(next.poll().is_ready(), inside > 0);
        }
    }
}

/// The same from the other end: what passes are places.
#[test]
fn a_forgotten_send_delays_by_64_places_that_pass() {
    let by_message = |sender: &Sender<usize>, receiver: &Receiver<usize>| {
        assert!(receiver.try_recv().is_ok());
        sender.try_send(0).unwrap();
    };
    let by_batch = |sender: &Sender<usize>, receiver: &Receiver<usize>| {
        assert_eq!(block_on(receiver.recv_many(&mut Vec::new(), 1)), Ok(1));
        sender.try_send(0).unwrap();
    };
    let by_permit = |sender: &Sender<usize>, _: &Receiver<usize>| drop(sender.try_reserve().unwrap());
    for pass in [by_message as fn(&Sender<usize>, &Receiver<usize>), by_batch, by_permit] {
        let (sender, receiver) = bounded(10);
        (0..10).for_each(|n| sender.try_send(n).unwrap());
        let forgotten = Hand::new(sender.send(10)).pending();
        let mut other = Hand::new(sender.send(11)).pending();
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(0), Ok(1)));
        for _ in 2..64 {
            assert_eq!((forgotten.wakes(), other.wakes()), (1, 0));
            pass(&sender, &receiver);
        }
        assert_eq!((forgotten.wakes(), other.wakes()), (1, 1));
        assert!(other.poll().is_ready());
    }
}

/// A batch of 64 counts as 64, though one section takes it out.
#[test]
fn a_forgotten_send_delays_by_one_large_batch() {
    let (sender, receiver) = bounded(1000);
    (0..1000).for_each(|n| sender.try_send(n).unwrap());
    let forgotten = Hand::new(sender.send(1000)).pending();
    let other = Hand::new(sender.send(1001)).pending();
    assert_eq!(receiver.try_recv(), Ok(0));
    assert_eq!((forgotten.wakes(), other.wakes()), (1, 0));
    assert_eq!(block_on(receiver.recv_many(&mut Vec::new(), 64)), Ok(64));
    assert_eq!((forgotten.wakes(), other.wakes()), (1, 1));
}

/// Whoever comes to take what it was told of starts the count again: a token that is kept is not taken for a forgotten
/// one.
#[test]
fn a_receive_that_is_punctual_is_counted_on() {
    let (sender, receiver) = bounded(1000);
    let mut receives: Vec<_> = (0..4).map(|_| Hand::new(receiver.recv()).pending()).collect();
    for i in 0..receives.len() {
        for n in 0..60 {
            sender.try_send(n).unwrap();
            if n < 59 {
                assert_eq!(receiver.try_recv(), Ok(n));
            }
        }
        let told: usize = receives.iter().map(Hand::wakes).sum();
        assert_eq!(told, i + 1, "nobody but who comes next");
        assert_eq!(receives[i].poll(), Poll::Ready(Ok(59)));
    }
}
