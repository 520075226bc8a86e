//! An operation as a future.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::coop;
use crate::reactor::ring::{Ring, Rings, outcome};
use crate::reactor::stopped;
use crate::sched::rings::begin;
use crate::sys::ring::{CANCELLED, FAULT, INTERRUPTED, Request};
use crate::time::presence::AtWork;

/// Most times that an operation is begun again which the kernel has given up.
///
/// Each time the thread must have ended that has handed it over, and threads that are no workers hand over nothing of
/// others: so it takes a future that is passed on from thread to thread, each of which ends. What is done by the
/// kernel's threads (writing and syncing files) is given up as well if it gets none, after some 50 ms of attempts: then
/// this is 0.4 s.
const REPEATS_MAX: u8 = 8;

/// Whether an operation with this result has done nothing, and is to be begun again; `repeats` counts for how often.
fn begins_again(result: i32, repeats: &mut u8) -> bool {
    match result {
        INTERRUPTED => true,
        // The thread that has handed it over has ended, and the kernel gives up what it had of that: what waited for a
        // peer as cancelled, a read that waited for the disk as out of reach. But either may also be so for good.
        CANCELLED | FAULT if *repeats < REPEATS_MAX => {
            *repeats += 1;
            true
        }
        _ => false,
    }
}

/// An operation. Begins when first polled, in the ring of the worker that polls it.
///
/// Dropped in flight it leaves what the kernel uses to the ring, and asks for its end.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Operation<'a, R: Request> {
    rings: &'a Arc<Rings>,
    /// `None` once it is over.
    request: Option<R>,
    /// Ring and slot, from the first poll to the result.
    place: Option<(usize, u32)>,
    /// See [`REPEATS_MAX`].
    repeats: u8,
}

// Nothing in it is pinned: what the kernel has the address of is on the heap.
impl<R: Request> Unpin for Operation<'_, R> {}

impl<'a, R: Request> Operation<'a, R> {
    pub(crate) fn new(rings: &'a Arc<Rings>, request: R) -> Self {
        Self {
            rings,
            request: Some(request),
            place: None,
            repeats: 0,
        }
    }

    fn ends(&mut self, result: io::Result<u32>) -> Poll<R::Output> {
        self.place = None;
        let request = self.request.take().expect("it is not polled after its end");
        Poll::Ready(request.finish(result))
    }

    fn ring(&self, index: usize) -> &'a Ring {
        self.rings.of(index)
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<R::Output> {
        loop {
            let Some((index, slot)) = self.place else {
                let request = self.request.as_mut().expect("it is not polled after its end");
                let at_work = if R::ENDS_BY_ITSELF { AtWork::in_current() } else { None };
                match begin(self.rings, request.entry(), cx.waker().clone(), at_work) {
                    Ok(place) => self.place = Some(place),
                    Err(_closed) => return self.ends(Err(stopped())),
                }
                return Poll::Pending;
            };
            let ring = self.ring(index);
            let Poll::Ready(result) = ring.poll(slot, cx.waker()) else {
                return Poll::Pending;
            };
            if result == CANCELLED && ring.is_closed() {
                return self.ends(Err(stopped()));
            }
            if !begins_again(result, &mut self.repeats) {
                return self.ends(outcome(result));
            }
            self.place = None;
        }
    }
}

impl<R: Request> Future for Operation<'_, R> {
    type Output = R::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R::Output> {
        let this = self.get_mut();
        coop::poll_progress(cx, |cx| this.advance(cx))
    }
}

impl<R: Request> Drop for Operation<'_, R> {
    fn drop(&mut self) {
        if let (Some((index, slot)), Some(request)) = (self.place, self.request.take()) {
            self.ring(index).leave(slot, request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_begun_again_but_not_for_ever() {
        let bad = -libc::EBADF;
        for (results, begins) in [
            (&[CANCELLED; 20][..], 8),
            (&[FAULT; 20], 8),
            (&[FAULT, CANCELLED].repeat(10), 8),
            (&[INTERRUPTED; 20], 20),
            (&[INTERRUPTED, FAULT, 0], 2),
            (&[CANCELLED, 5], 1),
            (&[bad], 0),
        ] {
            let mut repeats = 0;
            let again = results.iter().take_while(|result| begins_again(**result, &mut repeats));
            assert_eq!(again.count(), begins, "{results:?}");
        }
    }
}
