//! A future that does what a script says and counts what is done to it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::count::{Count, Token};
use crate::gate::Gate;

/// What a probe does in one poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Gives its output.
    Ready,
    /// Keeps the waker and is pending.
    Pending,
    /// Panics with the payload [`PAYLOAD`].
    Panic,
    /// Blocks its worker until [`Witness::resume`] is open, then gives its output.
    BlockThenReady,
    /// Blocks its worker until [`Witness::resume`] is open, then keeps the waker and is pending.
    BlockThenPending,
}

/// What a probe panics with.
pub(crate) const PAYLOAD: u64 = 0x0D15_EA5E;

/// What a probe shows to the outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    pub(crate) polls: Count,
    pub(crate) future_drops: Count,
    pub(crate) outputs_made: Count,
    pub(crate) output_drops: Count,
    /// Opened when the first poll begins.
    pub(crate) started: Gate,
    pub(crate) resume: Gate,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Witness {
    /// A probe that follows `script`, one step a poll.
    pub(crate) fn probe(&self, script: &'static [Step]) -> Probe {
        Probe {
            script,
            witness: self.clone(),
            _dropped: self.future_drops.token(),
        }
    }

    /// Takes the waker of the last pending poll, if it has got there.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.waker.lock().unwrap().take()
    }

    /// Whether a pending poll has left its waker, and nobody took it.
    pub(crate) fn has_waker(&self) -> bool {
        self.waker.lock().unwrap().is_some()
    }
}

/// The future.
#[derive(Debug)]
pub(crate) struct Probe {
    script: &'static [Step],
    witness: Witness,
    _dropped: Token,
}

impl Probe {
    fn ready(&self) -> Poll<Token> {
        self.witness.outputs_made.add();
        Poll::Ready(self.witness.output_drops.token())
    }

    fn pending(&self, cx: &Context<'_>) -> Poll<Token> {
        *self.witness.waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Future for Probe {
    type Output = Token;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Token> {
        let index = self.witness.polls.add();
        self.witness.started.open();
        match self
            .script
            .get(index)
            .expect("polled more often than the script has steps")
        {
            Step::Ready => self.ready(),
            Step::Pending => self.pending(cx),
            Step::Panic => std::panic::panic_any(PAYLOAD),
            Step::BlockThenReady => {
                self.witness.resume.block();
                self.ready()
            }
            Step::BlockThenPending => {
                self.witness.resume.block();
                self.pending(cx)
            }
        }
    }
}
