//! `watch`: what its handles say of one another, step by step, beside a model of the channel.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::future::{block_on, poll_once};
use quadrille::sync::watch::{Receiver, RecvError, Sender, channel};

use crate::count::Count;

/// Handles of each side, at most.
const HANDLES: usize = 2;
/// What a step does with one of them.
const OF_SENDER: usize = 6;
const OF_RECEIVER: usize = 7;
const STEPS: usize = HANDLES * (OF_SENDER + OF_RECEIVER);

type Wait<T> = Pin<Box<dyn Future<Output = T>>>;

/// A handle, or one that waits, with the wakes since it was polled last.
enum Handle<H, T> {
    Idle(H),
    Waits(Wait<T>, Count),
}

/// What a wait for a change gives back.
type Changed = (Receiver<u64>, Result<(), RecvError>);

/// The channel, and what is known of it. A value is the number of values before it.
struct Model {
    senders: [Option<Handle<Sender<u64>, Sender<u64>>>; HANDLES],
    receivers: [Option<Handle<Receiver<u64>, Changed>>; HANDLES],
    value: u64,
    /// The last value that each receiver has seen; `None`: the one of now does not count as seen.
    seen: [Option<u64>; HANDLES],
    /// Who waits and has to have been woken.
    owed: [[bool; HANDLES]; 2],
}

/// Polls with a waker of its own: the wait goes on with that.
fn poll<T>(mut wait: Wait<T>) -> Result<T, (Wait<T>, Count)> {
    let wakes = Count::default();
    match wait.as_mut().poll(&mut Context::from_waker(&wakes.waker())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err((wait, wakes)),
    }
}

impl Model {
    fn new() -> Self {
        let (sender, receiver) = channel(0);
        Self {
            senders: [Some(Handle::Idle(sender)), None],
            receivers: [Some(Handle::Idle(receiver)), None],
            value: 0,
            seen: [Some(0); HANDLES],
            owed: [[false; HANDLES]; 2],
        }
    }

    fn receiver_count(&self) -> usize {
        self.receivers.iter().flatten().count()
    }

    fn has_news(&self, at: usize) -> bool {
        self.seen[at] != Some(self.value)
    }

    /// There is another value, which has been sent.
    fn was_sent(&mut self) {
        self.value += 1;
        self.owed[1] = [true; HANDLES];
    }

    fn sender(&mut self, at: usize, deed: usize) {
        let Some(handle) = self.senders[at].take() else { return };
        let (next, receivers) = (self.value + 1, self.receiver_count());
        let sender = match handle {
            gone if deed == 5 => {
                drop(gone);
                if self.senders.iter().all(Option::is_none) {
                    self.owed[1] = [true; HANDLES];
                }
                return;
            }
            Handle::Waits(wait, _) => return self.closed(at, wait),
            Handle::Idle(sender) => sender,
        };
        assert_eq!(sender.receiver_count(), receivers);
        match deed {
            0 => {
                assert_eq!(sender.send(next).is_ok(), receivers > 0);
                if receivers > 0 {
                    self.was_sent();
                }
            }
            1 => {
                assert!(!sender.send_if_modified(|value| *value == next));
                assert_eq!(sender.send_replace(next), self.value);
                self.was_sent();
            }
            2 => {
                if let Some(free) = self.receivers.iter().position(Option::is_none) {
                    self.receivers[free] = Some(Handle::Idle(sender.subscribe()));
                    self.seen[free] = Some(self.value);
                }
            }
            3 => {
                self.senders[1 - at].get_or_insert_with(|| Handle::Idle(sender.clone()));
            }
            _ => {
                return self.closed(
                    at,
                    Box::pin(async move {
                        sender.closed().await;
                        sender
                    }),
                );
            }
        }
        self.senders[at] = Some(Handle::Idle(sender));
    }

    /// Waits for the end of the receivers. There may be one again by then.
    fn closed(&mut self, at: usize, wait: Wait<Sender<u64>>) {
        self.owed[0][at] = false;
        let polled = poll(wait);
        assert_eq!(polled.is_ok(), self.receiver_count() == 0);
        self.senders[at] = Some(match polled {
            Ok(sender) => Handle::Idle(sender),
            Err((wait, wakes)) => Handle::Waits(wait, wakes),
        });
    }

    fn receiver(&mut self, at: usize, deed: usize) {
        let Some(handle) = self.receivers[at].take() else {
            return;
        };
        let is_open = self.senders.iter().any(Option::is_some);
        let (news, value) = (self.has_news(at), self.value);
        let mut receiver = match handle {
            gone if deed == 6 => {
                drop(gone);
                if self.receiver_count() == 0 {
                    self.owed[0] = [true; HANDLES];
                }
                return;
            }
            Handle::Waits(wait, _) => return self.changed(at, wait),
            Handle::Idle(receiver) => receiver,
        };
        assert_eq!(receiver.has_changed().ok(), is_open.then_some(news));
        assert_eq!((receiver.borrow().has_changed(), *receiver.borrow()), (news, value));
        match deed {
            0 => {
                return self.changed(
                    at,
                    Box::pin(async move {
                        let changed = receiver.changed().await;
                        (receiver, changed)
                    }),
                );
            }
            1 => {
                let lent = receiver.borrow_and_update();
                assert_eq!((lent.has_changed(), *lent), (news, value));
                drop(lent);
                self.seen[at] = Some(value);
            }
            2 => {
                receiver.mark_changed();
                self.seen[at] = None;
            }
            3 => {
                receiver.mark_unchanged();
                self.seen[at] = Some(value);
            }
            4 => {
                let seen = self.seen[at];
                if self.receivers[1 - at].is_none() {
                    self.receivers[1 - at] = Some(Handle::Idle(receiver.clone()));
                    self.seen[1 - at] = seen;
                }
            }
            _ => {
                let even = block_on(poll_once(receiver.wait_for(|value| value % 2 == 0)));
                let even = even.map(|lent| lent.map(|lent| (lent.has_changed(), *lent)).ok());
                let expected = if value % 2 == 0 {
                    Some(Some((news, value)))
                } else {
                    (!is_open).then_some(None)
                };
                assert_eq!(even, expected);
                self.seen[at] = Some(value);
            }
        }
        self.receivers[at] = Some(Handle::Idle(receiver));
    }

    /// Waits for a value that was not seen.
    fn changed(&mut self, at: usize, wait: Wait<Changed>) {
        self.owed[1][at] = false;
        let is_open = self.senders.iter().any(Option::is_some);
        let expected = match self.has_news(at) {
            true => Some(Ok(())),
            false => (!is_open).then_some(Err(RecvError)),
        };
        self.receivers[at] = Some(match poll(wait) {
            Ok((receiver, changed)) => {
                assert_eq!(Some(changed), expected);
                if changed.is_ok() {
                    self.seen[at] = Some(self.value);
                }
                Handle::Idle(receiver)
            }
            Err((wait, wakes)) => {
                assert_eq!(expected, None);
                Handle::Waits(wait, wakes)
            }
        });
    }

    fn step(&mut self, step: usize) {
        let (at, deed) = (step % HANDLES, step / HANDLES);
        match deed.checked_sub(OF_SENDER) {
            None => self.sender(at, deed),
            Some(deed) => self.receiver(at, deed),
        }
        for at in 0..HANDLES {
            let [ends, changes] = [self.owed[0][at], self.owed[1][at]];
            if let Some(Handle::Waits(_, wakes)) = &self.senders[at] {
                assert_eq!(wakes.get(), usize::from(ends));
            }
            if let Some(Handle::Waits(_, wakes)) = &self.receivers[at] {
                assert_eq!(wakes.get(), usize::from(changes));
            }
        }
    }
}

/// Runs a script, which is told if it fails.
fn check(steps: impl Iterator<Item = usize>) {
    let mut done = Vec::new();
    let mut model = Model::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        for step in steps {
            done.push(step);
            model.step(step);
        }
    }));
    assert!(run.is_ok(), "the last of these steps: {done:?}");
}

#[test]
fn every_short_script_of_its_handles() {
    const LENGTH: u32 = 4;
    for script in 0..STEPS.pow(LENGTH) {
        check((0..LENGTH).map(|at| script / STEPS.pow(at) % STEPS));
    }
}

#[test]
fn long_scripts_of_its_handles() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..5_000 {
        check((0..40).map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).unwrap() % STEPS
        }));
    }
}
