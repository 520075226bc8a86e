//! The one loop by which everything here reads, writes, accepts and connects: try, and wait only if that can't be done
//! now.
//!
//! # An attempt that saves the next one
//!
//! In edge mode somebody who has found a side exhausted waits for the next event. The plain way to find out is an
//! attempt that answers `WouldBlock`: one more system call for each message. But a stream that gave less than was asked
//! for had no more, and one that took less has no room (epoll(7), "Do I need to continuously read/write a file
//! descriptor until EAGAIN"). So an operation says with its result whether it [exhausted](Progress::exhausted) its
//! side, and the readiness that it was told is cleared:
//!
//! ```text
//! task                                  reactor
//! ────                                  ───────
//! ready, tick 7
//! read: 64 of 4096 bytes
//!                                       more arrives, event: ready, tick 8
//! clear(7): tick is 8, nothing is cleared
//! ```
//!
//! What arrives after the read makes an event of its own, and the tick keeps it. What was there before the read is in
//! what it got. One thing comes with the data, in the same event, and isn't taken with it: the end. A side that is
//! closed stays ready; that is why this clears by `clear_exhausted`, which knows of the end, and not by
//! `clear_readiness`. The same goes for urgent data of TCP, before which a read stops though more is there. An answer
//! of zero bytes exhausts nothing: the end is there for everybody who reads.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::async_fd::hide_poll_error_if_doomed;
use super::{AsyncFd, Interest};
use crate::coop;
use crate::reactor::{self, Side, Tick};
use crate::sys::fd::{Polled, may_be_terminal, poll_now};

/// What one call of the system moves at least, if there is as much and as much room: its limit, `i32::MAX` down to the
/// end of a page (read(2), write(2)), of which the largest have 64 KiB. Who got that from it was cut short by the
/// limit, and nothing tells him of what is left.
const CUT_SHORT_FROM: usize = 0x7fff_0000;

/// What an operation has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress<R> {
    pub(crate) result: R,
    /// The next attempt would answer `WouldBlock`, unless something happens until then.
    pub(crate) exhausted: bool,
}

impl<R> Progress<R> {
    /// Done, and nothing is known of the next attempt.
    pub(crate) fn only(result: R) -> Self {
        Progress {
            result,
            exhausted: false,
        }
    }
}

impl Progress<usize> {
    /// `count` of `wanted` bytes of a stream.
    pub(crate) fn of(count: usize, wanted: usize) -> Self {
        Progress {
            result: count,
            exhausted: 0 < count && count < wanted.min(CUT_SHORT_FROM),
        }
    }

    /// The same where less than was wanted says nothing.
    pub(crate) fn unknown(self) -> Self {
        Progress::only(self.result)
    }
}

impl<T: AsFd> AsyncFd<T> {
    /// Calls `operation` until it answers something other than `WouldBlock` or `Interrupted`, and waits in between.
    pub(crate) fn transfer<R>(
        &self,
        side: Side,
        mut operation: impl FnMut(&T) -> io::Result<Progress<R>>,
    ) -> impl Future<Output = io::Result<R>> {
        let mut wait = None;
        poll_fn(move |cx| self.poll_with(&mut wait, side, cx, &mut operation))
    }

    /// One turn of [`transfer`](Self::transfer) for a future that is no `async fn`: with those each layer copies its
    /// arguments once more, the two halves of a slice at a time right after they were written one by one, for which the
    /// processor waits.
    #[inline]
    pub(crate) fn poll_with<'a, R>(
        &'a self,
        wait: &mut Option<reactor::Ready<'a>>,
        side: Side,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<Progress<R>>,
    ) -> Poll<io::Result<R>> {
        loop {
            let at_once = if wait.is_none() {
                self.registration().ready_at_once(side)
            } else {
                None
            };
            let tick = match at_once {
                Some(tick) => tick,
                None => {
                    let waiting = wait.get_or_insert_with(|| self.registration().ready(self.as_fd(), side, true));
                    let tick = ready!(hide_poll_error_if_doomed(Pin::new(waiting).poll(cx), cx))?;
                    *wait = None;
                    tick
                }
            };
            if let Some(outcome) = self.attempt(side, tick, &mut operation) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// The same for implementations of `poll_read` and the like: of those who poll one side, only the last is woken.
    pub(crate) fn poll_transfer<R>(
        &self,
        side: Side,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<Progress<R>>,
    ) -> Poll<io::Result<R>> {
        loop {
            let tick = match self.registration().ready_at_once(side) {
                Some(tick) => tick,
                None => ready!(self.poll_side(side, true, cx))?,
            };
            if let Some(outcome) = self.attempt(side, tick, &mut operation) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Calls `operation` once, without a wait.
    pub(crate) fn try_transfer<R>(
        &self,
        side: Side,
        operation: impl FnOnce(&T) -> io::Result<Progress<R>>,
    ) -> io::Result<R> {
        // Before the attempt: an event during it must not be cleared.
        let tick = self.registration().tick(side);
        self.settle(side, tick, operation(self.get_ref()))
    }

    /// Whether nothing more will come, as far as events have told and the system says. Without such an event the system
    /// isn't asked.
    pub(crate) fn has_read_ended(&self) -> bool {
        self.registration().has_ended(Side::Read) && poll_now(self.as_fd()).is_ok_and(|now| now.read_ended)
    }

    /// Nothing more will be written: whoever waits for room tries once more, and hears of it. The system tells nobody
    /// where there is no room: Linux of a full socket of the Unix domain.
    pub(crate) fn tell_write_ended(&self) {
        self.registration().tell_write_ended();
    }

    /// Calls `operation` once, which writes to somebody else than this descriptor leads to. Of such an answer of
    /// `WouldBlock` the second is whether this side has room all the same: then it stays ready, and no event tells when
    /// to try again.
    pub(crate) fn try_write_elsewhere<R>(&self, operation: impl FnOnce(&T) -> io::Result<R>) -> (io::Result<R>, bool) {
        // Before the attempt: an event during it must not be cleared.
        let tick = self.registration().tick(Side::Write);
        let outcome = operation(self.get_ref());
        let has_room = match &outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let now = poll_now(self.as_fd()).unwrap_or_default();
                if !now.writable {
                    self.registration().clear_readiness(Side::Write, tick);
                }
                now.writable
            }
            _ => true,
        };
        (outcome, has_room)
    }

    /// Calls `operation` until it answers something other than `WouldBlock` or `Interrupted`, and waits in between for
    /// those of several sides that are not ready.
    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        // Paid for whatever comes: who never has to wait gives way all the same.
        coop::consume_budget().await;
        loop {
            // Before the attempt: an event during it must not be cleared.
            let ticks = self.ticks();
            match operation() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let missing = self.clear_unready(interest, ticks);
                    if missing.is_none() {
                        // The operation waits for something else. Or they have become ready since: that is an event,
                        // told or yet to come.
                        self.forget_ready(interest, ticks);
                    }
                    self.ready(missing.unwrap_or(interest)).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// Calls `operation` once, which needs the sides that `interest` names.
    pub(crate) fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        // Before the attempt: an event during it must not be cleared.
        let ticks = self.ticks();
        let outcome = operation();
        if matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            let _ = self.clear_unready(interest, ticks);
            // Who waits for both next would not wait.
            self.forget_ready(interest, ticks);
        }
        outcome
    }

    /// The current ticks of the reading and the writing side.
    fn ticks(&self) -> [Tick; 2] {
        [Side::Read, Side::Write].map(|side| self.registration().tick(side))
    }

    /// An operation that needs the sides of `interest` has answered `WouldBlock` after `ticks`: clears those that are
    /// not ready, and returns them.
    ///
    /// Of one side the answer says all, but for a terminal's. Of two it doesn't say which: a side that is ready and was
    /// cleared would stay so, since there is no event until it has been otherwise. So the system is asked.
    fn clear_unready(&self, interest: Interest, ticks: [Tick; 2]) -> Option<Interest> {
        let [read, write] = ticks;
        let now = if interest.is_readable() && (interest.is_writable() || self.is_terminal) {
            // It has no memory for the question: as if nothing were ready.
            poll_now(self.as_fd()).unwrap_or_default()
        } else {
            Polled::default()
        };
        let mut missing = None;
        if interest.is_readable() && !now.readable {
            self.registration().clear_readiness(Side::Read, read);
            missing = Some(Interest::READABLE);
        }
        if interest.is_writable() && !now.writable {
            self.registration().clear_readiness(Side::Write, write);
            missing = Some(missing.map_or(Interest::WRITABLE, |side| side | Interest::WRITABLE));
        }
        missing
    }

    /// Makes of those sides of `interest` that are ready ones of which nothing is known.
    fn forget_ready(&self, interest: Interest, [read, write]: [Tick; 2]) {
        if interest.is_readable() {
            self.registration().forget_readiness(Side::Read, read);
        }
        if interest.is_writable() {
            self.registration().forget_readiness(Side::Write, write);
        }
    }

    /// [`reader`](Self::reader) for what may be a terminal, and is read by operations of this crate alone.
    #[track_caller]
    pub(crate) fn byte_reader(io: T) -> io::Result<Self> {
        let is_terminal = may_be_terminal(io.as_fd())?;
        let mut fd = Self::reader(io)?;
        fd.is_terminal = is_terminal;
        Ok(fd)
    }

    /// Whether this is the reading side, and the system says that there is something to be read.
    #[cold]
    #[inline(never)]
    fn has_input(&self, side: Side) -> bool {
        side == Side::Read && poll_now(self.as_fd()).is_ok_and(|now| now.readable)
    }

    /// Calls `operation` once; `None` if it has to be called again.
    #[inline]
    fn attempt<R>(
        &self,
        side: Side,
        tick: Tick,
        operation: impl FnOnce(&T) -> io::Result<Progress<R>>,
    ) -> Option<io::Result<R>> {
        match self.settle(side, tick, operation(self.get_ref())) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
            outcome => Some(outcome),
        }
    }

    /// Notes what an attempt after `tick` has found.
    #[inline(always)]
    fn settle<R>(&self, side: Side, tick: Tick, outcome: io::Result<Progress<R>>) -> io::Result<R> {
        match outcome {
            Ok(Progress {
                result,
                exhausted: false,
            }) => Ok(result),
            Ok(Progress { result, .. }) => {
                self.registration().clear_exhausted(side, tick);
                Ok(result)
            }
            Err(error) => {
                // Who is in another reader's way tries again, and pays for it as for any attempt.
                if error.kind() == io::ErrorKind::WouldBlock && !(self.is_terminal && self.has_input(side)) {
                    self.registration().clear_readiness(side, tick);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::task::Waker;

    use futures_lite::future::{block_on, poll_fn, poll_once};

    use super::*;
    use crate::runtime::tests::with_runtime;

    #[test]
    fn only_less_than_wanted_exhausts() {
        for (count, wanted, exhausted) in [(0, 0, false), (0, 8, false), (1, 8, true), (7, 8, true), (8, 8, false)] {
            assert_eq!(
                Progress::of(count, wanted),
                Progress {
                    result: count,
                    exhausted
                }
            );
        }
    }

    /// A socket that has room for more takes no more than this of 3 GiB, and no event says that it has.
    #[test]
    fn what_the_system_cuts_short_exhausts_nothing() {
        const WANTED: usize = 0xc000_0000;
        let counts = [0x7ffe_ffff, 0x7fff_0000, 0x7fff_f000, 0x7fff_ffff];
        let exhausted = counts.map(|count| Progress::of(count, WANTED).exhausted);
        assert_eq!(exhausted, [true, false, false, false]);
    }

    /// The end comes in the same event as the last bytes, and must be found after a short read.
    #[test]
    fn the_end_is_found_after_a_short_read() {
        with_runtime(|| {
            for _ in 0..50 {
                let (reader, mut writer) = io::pipe().unwrap();
                let reader = AsyncFd::reader(reader).unwrap();
                let mut buffer = [0; 16];
                let mut read = || {
                    block_on(reader.transfer(Side::Read, |mut pipe| {
                        pipe.read(&mut buffer).map(|count| Progress::of(count, 16))
                    }))
                };
                writer.write_all(b"last").unwrap();
                drop(writer);
                assert_eq!(read().unwrap(), 4);
                assert_eq!(read().unwrap(), 0);
                assert_eq!(read().unwrap(), 0);
            }
        });
    }

    #[test]
    fn what_comes_after_a_short_read_is_found() {
        with_runtime(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            let reader = AsyncFd::reader(reader).unwrap();
            let mut buffer = [0; 16];
            for round in 0..200 {
                writer.write_all(b"abc").unwrap();
                let read = |mut pipe: &io::PipeReader| pipe.read(&mut buffer).map(|count| Progress::of(count, 16));
                let count = if round % 2 == 0 {
                    block_on(reader.transfer(Side::Read, read)).unwrap()
                } else {
                    let mut read = read;
                    block_on(poll_fn(|cx| reader.poll_transfer(Side::Read, cx, &mut read))).unwrap()
                };
                assert_eq!(count, 3);
            }
        });
    }

    #[test]
    fn a_try_never_waits() {
        with_runtime(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            let reader = AsyncFd::reader(reader).unwrap();
            let attempt = || reader.try_transfer(Side::Read, |mut pipe| pipe.read(&mut [0]).map(Progress::only));
            assert_eq!(attempt().unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert!(block_on(poll_once(reader.readable())).is_none());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(
                reader
                    .poll_transfer(Side::Read, &mut cx, |_| Ok(Progress::only(())))
                    .is_pending(),
                "without readiness there is no attempt"
            );
            writer.write_all(b"a").unwrap();
            block_on(reader.readable()).unwrap();
            assert_eq!(attempt().unwrap(), 1);
        });
    }
}
