//! The standard input of the process, read by a thread of the process.
//!
//! A read of a terminal or a pipe may last for ever, and can't be called back: on a thread of a runtime's pool it would
//! hold up that runtime's shutdown. To poll the descriptor instead would take non-blocking mode, which is the open
//! file's: whoever else has that, a shell above all, would meet it. So one thread for all runtimes reads, by std's
//! handle, once for each time that somebody wants something and there is nothing; it ends with the process.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_io::AsyncRead;

use crate::blocking::Reason;
use crate::coop;
use crate::fs::attempt::patiently;
use crate::io::impl_as_fd;
use crate::panics::quietly;
use crate::reactor::Side;
use crate::runtime::with_current;
use crate::sync::wake_all::wake_all;

/// How much the thread reads at a time at most, bytes.
const CHUNK: usize = 8 * 1024;

static INPUT: Input = Input::new();

/// What handles and the thread share.
struct Input {
    state: Mutex<State>,
    /// `wanted` was set.
    asked: Condvar,
}

struct State {
    /// Whether there is the thread.
    runs: bool,
    /// It reads, or shall.
    wanted: bool,
    /// What was read last, of which so many bytes are taken.
    bytes: Vec<u8>,
    taken: usize,
    /// An end or an error, for the next who looks.
    outcome: Option<io::Result<()>>,
    /// Who waits, by handle.
    waiting: BTreeMap<u64, Waker>,
    /// Handles that were ever made.
    handles: u64,
}

impl Input {
    const fn new() -> Self {
        Input {
            state: Mutex::new(State {
                runs: false,
                wanted: false,
                bytes: Vec::new(),
                taken: 0,
                outcome: None,
                waiting: BTreeMap::new(),
                handles: 0,
            }),
            asked: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so nothing is half done in a poisoned one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is there; else has the thread read, and `waker` called when it has.
    fn poll(&'static self, handle: u64, waker: &Waker, to: &mut [u8]) -> Poll<io::Result<usize>> {
        // Asked for each time, so that it is no matter of who came first whether it panics.
        let spawner = with_current(|shared| shared.pool.spawner().without_hooks());
        // Cloned and dropped without the lock.
        let waker = waker.clone();
        let mut state = self.lock();
        let rest = &state.bytes[state.taken..];
        if to.is_empty() || !rest.is_empty() {
            let length = rest.len().min(to.len());
            to[..length].copy_from_slice(&rest[..length]);
            state.taken += length;
            return Poll::Ready(Ok(length));
        }
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome.map(|()| 0));
        }
        if !state.runs {
            let thread = spawner.spawn("quadrille-stdin".to_owned(), || INPUT.serve());
            drop(thread.map_err(Reason::NoThread)?);
            state.runs = true;
        }
        let before = state.waiting.insert(handle, waker);
        state.wanted = true;
        drop(state);
        self.asked.notify_one();
        drop(before);
        Poll::Pending
    }

    /// The thread.
    fn serve(&self) {
        let mut chunk = vec![0; CHUNK];
        loop {
            let mut state = self.lock();
            while !state.wanted {
                state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            let read = read(&mut io::stdin().lock(), &mut chunk);
            self.deliver(read.map(|length| &chunk[..length]));
        }
    }

    /// Leaves what was read for whoever looks first, and wakes all who wait now; each looks for itself.
    fn deliver(&self, read: io::Result<&[u8]>) {
        let mut state = self.lock();
        state.taken = 0;
        state.bytes.clear();
        match read {
            Ok([]) => state.outcome = Some(Ok(())),
            Ok(bytes) => state.bytes.extend_from_slice(bytes),
            Err(error) => state.outcome = Some(Err(error)),
        }
        state.wanted = false;
        // All at once: who waits again while it is woken waits for the next read.
        let mut woken = std::mem::take(&mut state.waiting).into_values();
        drop(state);
        let wakes = || wake_all(|batch| batch.fill_from(|| woken.next()));
        // What their wakers do to this thread ends here.
        quietly(wakes);
    }

    /// The handle waits no more.
    fn forget(&self, handle: u64) {
        // Without the lock.
        let waker = self.lock().waiting.remove(&handle);
        drop(waker);
    }
}

/// Reads until there is something, also where whoever gave us the open file has made it non-blocking.
fn read(from: &mut (impl Read + AsFd), to: &mut [u8]) -> io::Result<usize> {
    patiently(from, Side::Read, |from| from.read(to))
}

/// The standard input of the process; from [`stdin`].
///
/// All handles read from one input: what one has read the others don't see.
#[derive(Debug)]
pub struct Stdin {
    id: u64,
    /// Whose descriptor is lent.
    std: io::Stdin,
}

/// A handle of the process's standard input.
///
/// A read goes by the buffer of [`std::io::stdin`] on a thread of its own (`quadrille-stdin`), which the process has
/// from the first read on to its end, whichever runtime asks; the CPUs that it may run on are those of the runtime that
/// asked first, also when that one is gone. It reads only when somebody asks, at most 8 KiB at a time, so that what
/// nobody has asked for is left for std's handle; while it waits for input it holds std's lock, and other threads that
/// read by std wait for it. An input that somebody has made non-blocking is waited for as any other.
///
/// # Shutdown
/// A runtime that shuts down while a read is pending does not wait for it, and the read goes on: what it gets is the
/// next reader's, of whichever runtime. It can't be called back, and neither holds up the end of the process.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::io::stdin;
///
/// async fn shout() -> std::io::Result<()> {
///     let (mut input, mut buffer) = (stdin(), [0; 1024]);
///     loop {
///         match input.read(&mut buffer).await? {
///             0 => return Ok(()),
///             length => print!("{}", String::from_utf8_lossy(&buffer[..length]).to_uppercase()),
///         }
///     }
/// }
/// # drop(shout());
/// # });
/// ```
#[must_use]
pub fn stdin() -> Stdin {
    let mut state = INPUT.lock();
    state.handles += 1;
    Stdin {
        id: state.handles,
        std: io::stdin(),
    }
}

impl_as_fd!(std: Stdin);

impl Stdin {
    /// Reads what is there, at least one byte, into `buffer`; returns how many bytes. Zero means that the input has
    /// ended (a terminal's may go on), or that `buffer` is empty.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`; the system has no thread to give, at the first read.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: what is read for a future that was dropped is the next read's, of any handle.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Of one future at a time: `&mut self`.
        let waits = Waits(self.id);
        poll_fn(|cx| poll(waits.0, cx, buffer)).await
    }

    /// [`read`](Self::read) for implementations of `Future`: of those who poll one handle only the last is woken.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        poll(self.id, cx, buffer)
    }
}

fn poll(handle: u64, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    coop::poll_progress(cx, |cx| INPUT.poll(handle, cx.waker(), buffer))
}

impl AsyncRead for Stdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Stdin::poll_read(&mut self, cx, buffer)
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        INPUT.forget(self.id);
    }
}

/// A read of a handle, as long as this lives.
struct Waits(u64);

impl Drop for Waits {
    fn drop(&mut self) {
        INPUT.forget(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::Runtime;

    /// Reads in `wake` until it has to wait again.
    struct Inline {
        input: &'static Input,
        wakes: AtomicUsize,
        bytes: AtomicUsize,
    }

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            // Not for ever, where it is woken without end.
            if self.wakes.fetch_add(1, Ordering::Relaxed) < 100 {
                self.clone().read();
            }
        }
    }

    impl Inline {
        fn read(self: Arc<Self>) {
            let waker = Waker::from(self.clone());
            while let Poll::Ready(read) = self.input.poll(1, &waker, &mut [0; 8]) {
                self.bytes.fetch_add(read.unwrap(), Ordering::Relaxed);
            }
        }
    }

    /// An input whose thread is the test.
    fn input() -> &'static Input {
        let input = Box::leak(Box::new(Input::new()));
        input.lock().runs = true;
        input
    }

    #[test]
    fn who_waits_again_while_it_is_woken_is_woken_once_a_read() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let reader = Arc::new(Inline {
            input: input(),
            wakes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        });
        reader.clone().read();
        for round in 1..=3 {
            reader.input.deliver(Ok(b"ab"));
            assert_eq!(reader.wakes.load(Ordering::Relaxed), round);
            assert_eq!(reader.bytes.load(Ordering::Relaxed), 2 * round);
            assert!(reader.input.lock().wanted, "it waits for the next");
        }
    }

    #[test]
    #[should_panic(expected = "no quadrille runtime here")]
    fn outside_of_a_runtime_it_panics_also_when_the_thread_is_there() {
        let _ = input().poll(1, Waker::noop(), &mut [0]);
    }
}
