//! What the listeners of one runtime to one kind of signal share.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::future::{Future, poll_fn};
use std::io::{self, PipeReader, Read};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use crate::io::AsyncFd;
use crate::sync::wake_all::wake_all;
use crate::sys::signal::{Arrivals, Listening, listen};

/// A counter of arrivals, and the pipe by which the reactor hears of them.
#[derive(Debug)]
pub(super) struct Hub {
    /// Dropped before the reader: a write to a pipe without one would raise `SIGPIPE`.
    _listening: Listening,
    arrivals: Arc<Arrivals>,
    pipe: AsyncFd<PipeReader>,
    waiting: Mutex<Waiting>,
}

/// Who waits, told by whoever empties the pipe: the reactor may not hear of a byte that is gone when it looks.
#[derive(Debug, Default)]
struct Waiting {
    /// By their names.
    wakers: BTreeMap<u64, Waker>,
    /// The name of the next who waits.
    next: u64,
}

impl Hub {
    /// A hub of the current runtime.
    fn new(signal: c_int) -> io::Result<Self> {
        let (arrivals, reader) = Arrivals::new()?;
        let pipe = AsyncFd::reader(reader)?;
        let listening = listen(signal, Arc::clone(&arrivals))?;
        Ok(Hub {
            _listening: listening,
            arrivals,
            pipe,
            waiting: Mutex::default(),
        })
    }

    /// How often the signal has arrived.
    pub(super) fn count(&self) -> u64 {
        self.arrivals.count()
    }

    /// Waits until the count is another than `seen`, and answers it. Dropping the future loses nothing: the caller
    /// keeps `seen`.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub(super) async fn changed(&self, seen: u64) -> io::Result<u64> {
        loop {
            let now = self.count();
            if now != seen {
                return Ok(now);
            }
            let waits = Waits {
                hub: self,
                id: self.new_name(),
            };
            let mut readable = pin!(self.pipe.readable());
            let readable = poll_fn(|cx| {
                // (c), (d) and (e).
                waits.tell(cx.waker());
                match readable.as_mut().poll(cx) {
                    Poll::Pending if self.count() != seen => Poll::Ready(Ok(false)),
                    poll => poll.map_ok(|()| true),
                }
            });
            if readable.await? {
                // It needs not be told what it does itself.
                drop(waits);
                self.empty_pipe();
                self.wake_all();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_name(&self) -> u64 {
        let mut waiting = self.waiting();
        waiting.next += 1;
        waiting.next
    }

    /// (b'), of those who wait now: who waits again while it is woken has looked since.
    fn wake_all(&self) {
        let mut woken = std::mem::take(&mut self.waiting().wakers).into_values();
        wake_all(|batch| batch.fill_from(|| woken.next()));
    }

    /// (a')
    fn empty_pipe(&self) {
        let read = |mut pipe: &PipeReader| pipe.read(&mut [0; 64]);
        loop {
            match self.pipe.try_read_with(read) {
                // The writer is ours, so there is no end; whatever happens, one round more is made by `changed`.
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Somebody who waits, as long as this lives.
struct Waits<'a> {
    hub: &'a Hub,
    id: u64,
}

impl Waits<'_> {
    /// Has `waker` called when somebody has emptied the pipe.
    fn tell(&self, waker: &Waker) {
        // Cloned and dropped without the lock.
        let waker = waker.clone();
        let replaced = self.hub.waiting().wakers.insert(self.id, waker);
        drop(replaced);
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        // Without the lock.
        let removed = self.hub.waiting().wakers.remove(&self.id);
        drop(removed);
    }
}

/// The hubs of a runtime, by signal; each lives as long as its listeners.
#[derive(Debug, Default)]
pub(crate) struct Hubs(Mutex<HashMap<c_int, Weak<Hub>>>);

impl Hubs {
    /// The hub for `signal`, made if there is none. `self` belongs to the current runtime.
    pub(super) fn get(&self, signal: c_int) -> io::Result<Arc<Hub>> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        let mut hubs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = hubs.get(&signal).and_then(Weak::upgrade) {
            return Ok(hub);
        }
        let hub = Arc::new(Hub::new(signal)?);
        hubs.insert(signal, Arc::downgrade(&hub));
        Ok(hub)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::Runtime;
    use crate::signal::unix::SignalKind;

    /// Waits again in `wake`, as a future that is polled there and finds nothing.
    struct Inline {
        hub: Hub,
        wakes: AtomicUsize,
    }

    impl Inline {
        fn wait(self: Arc<Self>) {
            let waits = Waits { hub: &self.hub, id: 0 };
            waits.tell(&Waker::from(self.clone()));
            std::mem::forget(waits);
        }
    }

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            // Not for ever, where it is woken without end.
            if self.wakes.fetch_add(1, Ordering::Relaxed) < 100 {
                self.wait();
            }
        }
    }

    #[test]
    fn who_waits_again_while_it_is_woken_is_woken_once() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let inline = Arc::new(Inline {
            hub: Hub::new(SignalKind::pipe().as_raw_value()).unwrap(),
            wakes: AtomicUsize::new(0),
        });
        inline.clone().wait();
        for round in 1..=3 {
            inline.hub.wake_all();
            assert_eq!(inline.wakes.load(Ordering::Relaxed), round);
        }
        // It holds itself by its waker.
        drop(std::mem::take(&mut inline.hub.waiting().wakers));
    }
}
