//! What the user-level threads of the soak do: wait for this and that, meet, and go deep.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use quadrille::sync::{mpmc, oneshot};
use quadrille::thread as user;
use quadrille::{Wait as _, spawn, task};

use crate::{Ledger, Rng};

/// Where threads meet: locks, a condition, and a channel.
#[derive(Clone)]
pub(crate) struct Meeting {
    lock: Arc<user::sync::Mutex<u64>>,
    changed: Arc<user::sync::Condvar>,
    shared: Arc<user::sync::RwLock<u64>>,
    sender: mpmc::Sender<u64>,
    receiver: mpmc::Receiver<u64>,
}

impl Meeting {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpmc::bounded(4);
        Self {
            lock: Arc::default(),
            changed: Arc::default(),
            shared: Arc::default(),
            sender,
            receiver,
        }
    }
}

impl Meeting {
    /// Waits for a change for a while, and makes one.
    fn changes(&self, rng: &mut Rng) {
        let limit = Duration::from_micros(50 + u64::try_from(rng.below(100)).unwrap());
        let count = self.lock.lock().unwrap_or_else(user::sync::PoisonError::into_inner);
        // Whoever is ended while it has the lock poisons it, here as well.
        drop(self.changed.wait_timeout(count, limit));
        self.changed.notify_one();
        if rng.below(3) == 0 {
            let mut value = self.shared.write().unwrap_or_else(user::sync::PoisonError::into_inner);
            *value += 1;
            user::yield_now();
        } else {
            let value = self.shared.read().unwrap_or_else(user::sync::PoisonError::into_inner);
            let before = *value;
            user::yield_now();
            assert_eq!(*value, before, "nobody writes meanwhile");
        }
    }
}

/// Goes down the stack so many frames of some 200 bytes, is suspended on the way down and on the way up now and then,
/// and finds what it left there: zero, else the frames where it does not.
fn dive(frames: usize, rng: &mut Rng) -> usize {
    let left = std::hint::black_box([frames; 16]);
    if rng.below(16) == 0 {
        user::yield_now();
    }
    let below = if frames == 0 { 0 } else { dive(frames - 1, rng) };
    if rng.below(16) == 0 {
        user::sleep(Duration::from_micros(1));
    }
    below + usize::from(std::hint::black_box(&left).iter().any(|word| *word != frames))
}

/// Goes down a stack: one's own, that of a thread with another size of it, or that of one that panics.
fn dive_somewhere(ledger: &Ledger, rng: &mut Rng) {
    let (token, mut own, frames) = (ledger.token(), rng.fork(), rng.below(40));
    match rng.below(3) {
        0 => assert_eq!(dive(frames, &mut own), 0),
        1 => {
            // Stacks of every class, some of them used down to their second half.
            let kib = 64 << rng.below(5);
            let child = user::Builder::new().stack_size(kib * 1024).spawn(move || {
                let _token = token;
                dive(kib, &mut own)
            });
            assert_eq!(child.unwrap().join().unwrap(), 0);
        }
        _ => {
            let child = user::spawn(move || {
                let _token = token;
                dive(frames, &mut own);
                // Without a word of the panic hook.
                std::panic::resume_unwind(Box::new(7_u8));
            });
            assert_eq!(child.join().unwrap_err().downcast_ref::<u8>(), Some(&7));
        }
    }
}

/// Waits for this and that, on one OS thread.
pub(crate) fn wander(ledger: &Ledger, meeting: &Meeting, rng: &mut Rng) {
    let (_token, place) = (ledger.token(), thread::current().id());
    for _ in 0..30 {
        match rng.below(12) {
            8..11 => dive_somewhere(ledger, rng),
            11 => meeting.changes(rng),
            6 => {
                // One that is ended while it waits in here poisons the lock.
                let mut count = meeting.lock.lock().unwrap_or_else(user::sync::PoisonError::into_inner);
                *count += 1;
                user::yield_now();
                *count -= 1;
            }
            7 => {
                // Who was ended between the two has left one too many: full for ever, or empty, is for nobody to wait
                // for.
                let limit = Duration::from_micros(200);
                let _given = meeting.sender.send(1).wait_timeout(limit);
                let _taken = meeting.receiver.recv().wait_timeout(limit);
            }
            0 => user::yield_now(),
            1 => user::park(),
            2 => user::sleep(Duration::from_micros(u64::try_from(rng.below(60)).unwrap())),
            3 => {
                let (sender, receiver) = oneshot::channel();
                spawn(async move {
                    task::yield_now().await;
                    let _received = sender.send(7);
                });
                assert_eq!(receiver.wait(), Ok(7));
            }
            4 => {
                let own = [1, 2, 3];
                let sum = user::scope(|s| {
                    let first = s.spawn(|| own[0]);
                    s.spawn(user::yield_now);
                    user::yield_now();
                    first.join().unwrap() + own[1]
                });
                assert_eq!(sum, 3);
            }
            _ => {
                let (token, joined) = (ledger.token(), rng.below(2) == 0);
                // With a result that makes its memory too large to be kept.
                let child = user::spawn(move || {
                    user::yield_now();
                    drop(token);
                    [0_u64; 200]
                });
                if joined {
                    child.join().unwrap();
                }
            }
        }
        assert_eq!(thread::current().id(), place);
    }
}
