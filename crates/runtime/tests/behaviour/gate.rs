//! Gates: closed until somebody opens them, for threads and tasks alike.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};

/// A gate that is opened once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    /// Opens the gate and wakes everybody, from the calling thread.
    pub(crate) fn open(&self) {
        let waiting = {
            let mut state = self.0.state.lock().unwrap();
            state.open = true;
            std::mem::take(&mut state.waiting)
        };
        self.0.opened.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether the gate is open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.state.lock().unwrap().open
    }

    /// How many tasks wait at the gate; each counts once a poll.
    pub(crate) fn waiting(&self) -> usize {
        self.0.state.lock().unwrap().waiting.len()
    }

    /// Blocks the calling thread, be it a worker, until the gate is open.
    pub(crate) fn block(&self) {
        let state = self.0.state.lock().unwrap();
        drop(self.0.opened.wait_while(state, |state| !state.open).unwrap());
    }

    /// Waits without blocking.
    pub(crate) fn pass(&self) -> impl Future<Output = ()> + Send + 'static {
        let gate = self.clone();
        std::future::poll_fn(move |cx| {
            let mut state = gate.0.state.lock().unwrap();
            if state.open {
                return Poll::Ready(());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
    }
}
