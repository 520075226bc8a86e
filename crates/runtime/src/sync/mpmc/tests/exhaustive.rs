//! Every sequence of a few operations on a small channel, with futures that are polled by hand.
//!
//! After each operation Theorem Channel must hold as seen from outside: if a receiver waits that was not woken although
//! there is a message, another receiver was woken and has not been polled since; senders and places alike. And of a
//! channel at its end everybody who waits was told.

use std::task::Poll;

use super::super::{Permit, Receiver, Reserve, Sender, bounded};
use super::{Hand, Recv, Send};

/// Waiters a side and kind.
const WAITERS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Op {
    TrySend,
    TryRecv,
    PollSend(usize),
    PollRecv(usize),
    DropSend(usize),
    DropRecv(usize),
    TryReserve,
    PollReserve(usize),
    DropReserve(usize),
    SendPermit,
    DropPermit,
    Close,
}

/// The operations that sequences consist of, and how many are in one.
struct Family {
    ops: [Op; 10],
    len: usize,
}

const PLAIN: [Op; 10] = [
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

const PERMITS: [Op; 10] = [
    Op::TryRecv,
    Op::TryReserve,
    Op::SendPermit,
    Op::DropPermit,
    Op::PollSend(0),
    Op::PollReserve(0),
    Op::DropReserve(0),
    Op::PollRecv(0),
    Op::PollRecv(1),
    Op::Close,
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
    reserves: [Option<Pending<Reserve<'a, u32>>>; WAITERS],
    permits: Vec<Permit<'a, u32>>,
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

impl<'a> Bench<'a> {
    fn new(sender: &'a Sender<u32>, receiver: &'a Receiver<u32>) -> Self {
        Self {
            sender,
            receiver,
            sends: Default::default(),
            recvs: Default::default(),
            reserves: Default::default(),
            permits: Vec::new(),
            next: 0,
            entered: 0,
            left: 0,
        }
    }

    /// False if there is nothing that `op` could do.
    fn apply(&mut self, op: Op) -> bool {
        self.next += 1;
        let (sender, receiver, next) = (self.sender, self.receiver, self.next);
        match op {
            Op::TrySend => self.entered += usize::from(sender.try_send(next).is_ok()),
            Op::TryRecv => self.left += usize::from(receiver.try_recv().is_ok()),
            Op::PollSend(i) => {
                let sent = poll(&mut self.sends[i], || sender.send(next));
                self.entered += usize::from(sent.is_some_and(|sent| sent.is_ok()));
            }
            Op::PollRecv(i) => {
                let received = poll(&mut self.recvs[i], || receiver.recv());
                self.left += usize::from(received.is_some_and(|received| received.is_ok()));
            }
            Op::DropSend(i) => return self.sends[i].take().is_some(),
            Op::DropRecv(i) => return self.recvs[i].take().is_some(),
            Op::TryReserve => self.permits.extend(sender.try_reserve()),
            Op::PollReserve(i) => {
                let reserved = poll(&mut self.reserves[i], || sender.reserve());
                self.permits.extend(reserved.and_then(Result::ok));
            }
            Op::DropReserve(i) => return self.reserves[i].take().is_some(),
            Op::SendPermit => {
                let Some(permit) = self.permits.pop() else { return false };
                permit.send(next);
                self.entered += 1;
            }
            Op::DropPermit => return self.permits.pop().is_some(),
            Op::Close => return receiver.close(),
        }
        true
    }

    fn holds(&self, capacity: usize) -> bool {
        let (len, permits) = (self.receiver.len(), self.permits.len());
        let recvs: Vec<bool> = self.recvs.iter().flatten().map(Pending::is_woken).collect();
        let sends = self.sends.iter().flatten().map(Pending::is_woken);
        let reserves = self.reserves.iter().flatten().map(Pending::is_woken);
        let sends: Vec<bool> = sends.chain(reserves).collect();
        let is_told = |woken: &[bool], there: bool| !there || woken.is_empty() || woken.contains(&true);
        let all = |woken: &[bool]| woken.iter().all(|woken| *woken);
        let holds = if self.receiver.is_closed() {
            all(&sends) && is_told(&recvs, len > 0) && (permits > 0 || all(&recvs))
        } else {
            is_told(&recvs, len > 0) && is_told(&sends, len + permits < capacity)
        };
        holds && len == self.entered - self.left && len + permits <= capacity
    }
}

/// Runs one sequence; false if its last operation did nothing, so that a shorter sequence covers it.
fn run(capacity: usize, sequence: &[Op]) -> bool {
    let (sender, receiver) = bounded(capacity);
    let mut bench = Bench::new(&sender, &receiver);
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

impl Family {
    /// Runs every continuation of `sequence`; returns how many sequences of full length there are.
    fn run_all(&self, capacity: usize, sequence: &mut Vec<Op>) -> usize {
        if sequence.len() == self.len {
            return 1;
        }
        let mut count = 0;
        for op in self.ops {
            sequence.push(op);
            if run(capacity, sequence) {
                count += self.run_all(capacity, sequence);
            }
            sequence.pop();
        }
        count
    }
}

#[test]
fn channel_holds_after_every_sequence_with_one_place() {
    let plain = Family { ops: PLAIN, len: 7 };
    assert!(plain.run_all(1, &mut Vec::new()) > 400_000);
}

#[test]
fn channel_holds_after_every_sequence_with_two_places() {
    let plain = Family { ops: PLAIN, len: 7 };
    assert!(plain.run_all(2, &mut Vec::new()) > 400_000);
}

#[test]
fn channel_holds_after_every_sequence_with_permits() {
    let permits = Family { ops: PERMITS, len: 6 };
    for capacity in [1, 2] {
        assert!(permits.run_all(capacity, &mut Vec::new()) > 50_000);
    }
}
