//! Every sequence of a few operations on a small channel, with futures that are polled by hand.
//!
//! After each operation Theorem C must hold as seen from outside: if a receiver waits that was not woken although there
//! is a message, another receiver was woken and has not been polled since; senders and places alike.

use std::task::Poll;

use super::super::{Receiver, Sender, bounded};
use super::{Hand, Recv, Send};

/// Waiters a side, and operations in a sequence.
const WAITERS: usize = 2;
const LEN_MAX: usize = 7;

#[derive(Debug, Clone, Copy)]
enum Op {
    TrySend,
    TryRecv,
    PollSend(usize),
    PollRecv(usize),
    DropSend(usize),
    DropRecv(usize),
}

const OPS: [Op; 10] = [
    Op::TrySend,
    Op::TryRecv,
    Op::PollSend(0),
    Op::PollSend(1),
    Op::PollRecv(0),
    Op::PollRecv(1),
    Op::DropSend(0),
    Op::DropSend(1),
    Op::DropRecv(0),
    Op::DropRecv(1),
];

/// A future that is pending, and how often it had been woken when it was polled last.
struct Pending<F> {
    hand: Hand<F>,
    wakes_seen: usize,
}

impl<F: Future> Pending<F> {
    fn is_woken(&self) -> bool {
        self.hand.wakes() > self.wakes_seen
    }
}

struct Bench<'a> {
    sender: &'a Sender<u32>,
    receiver: &'a Receiver<u32>,
    sends: [Option<Pending<Send<'a, u32>>>; WAITERS],
    recvs: [Option<Pending<Recv<'a, u32>>>; WAITERS],
    next: u32,
    entered: usize,
    left: usize,
}

/// Polls the future in `slot`, or a new one.
fn poll<F: Future>(slot: &mut Option<Pending<F>>, new: impl FnOnce() -> F) -> Option<F::Output> {
    let mut pending = slot.take().unwrap_or_else(|| Pending {
        hand: Hand::new(new()),
        wakes_seen: 0,
    });
    pending.wakes_seen = pending.hand.wakes();
    match pending.hand.poll() {
        Poll::Ready(output) => Some(output),
        Poll::Pending => {
            *slot = Some(pending);
            None
        }
    }
}

impl Bench<'_> {
    /// False if there is nothing that `op` could do.
    fn apply(&mut self, op: Op) -> bool {
        self.next += 1;
        let (sender, receiver, next) = (self.sender, self.receiver, self.next);
        match op {
            Op::TrySend => self.entered += usize::from(sender.try_send(next).is_ok()),
            Op::TryRecv => self.left += usize::from(receiver.try_recv().is_ok()),
            Op::PollSend(i) => {
                let sent = poll(&mut self.sends[i], || sender.send(next));
                self.entered += usize::from(sent.is_some());
            }
            Op::PollRecv(i) => {
                let received = poll(&mut self.recvs[i], || receiver.recv());
                self.left += usize::from(received.is_some());
            }
            Op::DropSend(i) => return self.sends[i].take().is_some(),
            Op::DropRecv(i) => return self.recvs[i].take().is_some(),
        }
        true
    }

    fn holds(&self, capacity: usize) -> bool {
        let len = self.receiver.len();
        let told = |mut woken: Box<dyn Iterator<Item = bool> + '_>, there: bool| {
            let all: Vec<bool> = woken.by_ref().collect();
            !there || all.is_empty() || all.contains(&true)
        };
        let c1 = told(Box::new(self.recvs.iter().flatten().map(Pending::is_woken)), len > 0);
        let c2 = told(
            Box::new(self.sends.iter().flatten().map(Pending::is_woken)),
            len < capacity,
        );
        c1 && c2 && len == self.entered - self.left && len <= capacity
    }
}

/// Runs one sequence; false if its last operation did nothing, so that a shorter sequence covers it.
fn run(capacity: usize, sequence: &[Op]) -> bool {
    let (sender, receiver) = bounded(capacity);
    let mut bench = Bench {
        sender: &sender,
        receiver: &receiver,
        sends: Default::default(),
        recvs: Default::default(),
        next: 0,
        entered: 0,
        left: 0,
    };
    for op in sequence {
        if !bench.apply(*op) {
            return false;
        }
        assert!(
            bench.holds(capacity),
            "capacity {capacity}, after {op:?} in {sequence:?}"
        );
    }
    true
}

/// Runs every continuation of `sequence`; returns how many sequences of full length there are.
fn run_all(capacity: usize, sequence: &mut Vec<Op>) -> usize {
    if sequence.len() == LEN_MAX {
        return 1;
    }
    let mut count = 0;
    for op in OPS {
        sequence.push(op);
        if run(capacity, sequence) {
            count += run_all(capacity, sequence);
        }
        sequence.pop();
    }
    count
}

#[test]
fn c_holds_after_every_sequence_with_one_place() {
    assert!(run_all(1, &mut Vec::new()) > 400_000);
}

#[test]
fn c_holds_after_every_sequence_with_two_places() {
    assert!(run_all(2, &mut Vec::new()) > 400_000);
}
