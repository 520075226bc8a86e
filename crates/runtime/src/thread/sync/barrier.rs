//! A place where a number of threads and tasks meet.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::refuse_in_tasks;
use crate::coop;
use crate::primitives::const_fn;
use crate::sync::lock::Lock as Guarded;
use crate::sync::waiters::{Wait, Waiter, Waiters};
use crate::sync::wake_all::wake_all;
use crate::thread::note::Reason;
use crate::thread::wait::wait_on;

/// Lets a number of threads and tasks wait until all of them have come, as [`std::sync::Barrier`]. It can be used again
/// at once.
///
/// ```
/// use quadrille::thread::{self, sync::Barrier};
///
/// let runtime = quadrille::Runtime::new()?;
/// let main = runtime.spawn_thread(|| {
///     let barrier = Barrier::new(10);
///     thread::scope(|scope| {
///         let threads: Vec<_> = (0..10).map(|_| scope.spawn(|| barrier.wait().is_leader())).collect();
///         threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
///     })
/// });
/// assert_eq!(main.join().unwrap(), 1, "one of them is told that it is the leader");
/// # Ok::<(), quadrille::BuildError>(())
/// ```
pub struct Barrier {
    meeting: Guarded<Meeting>,
    size: usize,
}

#[derive(Debug)]
struct Meeting {
    /// In order of arrival: those of earlier generations who are owed a notification, then those of this one.
    waiters: Waiters,
    /// Who has come in this generation and waits.
    arrived: usize,
    generation: usize,
    /// How many of earlier generations are in the list.
    owed: usize,
}

// Its list is changed in sections that no user code runs in, so that no panic leaves it half done.
impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}

impl Barrier {
    const_fn! {
        /// A barrier at which `size` meet; zero is taken for one.
        #[must_use]
        pub fn new(size: usize) -> Self {
            Self {
                meeting: Guarded::new(Meeting {
                    waiters: Waiters::new(),
                    arrived: 0,
                    generation: 0,
                    owed: 0,
                }),
                size,
            }
        }
    }

    /// Waits until all have come: suspends a user-level thread, blocks an ordinary one.
    ///
    /// A thread that is unwound from here, as at shutdown, has not come.
    ///
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        refuse_in_tasks();
        wait_on(self.wait_async(), Reason::barrier(self))
    }

    /// Waits until all have come, without blocking anybody. It has come when it is polled first, by a task that has
    /// [budget](crate::coop) left.
    ///
    /// # Cancel safety
    /// Strict: who is dropped before all have come has not come.
    pub fn wait_async(&self) -> Meet<'_> {
        Meet {
            barrier: self,
            generation: 0,
            waiter: None,
        }
    }

    /// Wakes those who are owed it.
    fn wake(&self) {
        wake_all(|batch| {
            self.meeting.with(|meeting| {
                batch.fill_from(|| {
                    meeting.owed = meeting.owed.checked_sub(1)?;
                    // SAFETY: A1, inside the section; A2, `Meet` sees to it.
                    unsafe { meeting.waiters.notify_first() }
                });
            });
        });
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

/// What [`Barrier::wait`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one of those who have met.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// The future of [`Barrier::wait_async`].
#[must_use = "futures do nothing unless awaited"]
pub struct Meet<'a> {
    barrier: &'a Barrier,
    /// In which it has come.
    generation: usize,
    /// From the first poll until all have come.
    waiter: Option<Waiter>,
}

/// What became of a poll.
enum Step {
    /// All have come, and this one was the last.
    Leads,
    /// All have come; a waker that is no longer needed.
    Met(Option<Waker>),
    Waits(Wait),
}

impl Meeting {
    /// Takes a waiter of this generation or an earlier one out.
    ///
    /// # Safety
    /// A1 and A3 of `waiters`.
    unsafe fn leave(&mut self, waiter: &Waiter, generation: usize) -> Option<Waker> {
        if generation == self.generation {
            self.arrived -= 1;
        // SAFETY: the caller's.
        } else if !unsafe { self.waiters.is_notified(waiter) } {
            self.owed -= 1;
        }
        // SAFETY: the caller's.
        unsafe { self.waiters.leave(waiter) }
    }
}

impl Meet<'_> {
    /// The first poll.
    fn come(&mut self, current: &Waker) -> Step {
        let mut fresh = Some(current.clone());
        let size = self.barrier.size;
        let (seat, generation) = (&mut self.waiter, &mut self.generation);
        self.barrier.meeting.with(|meeting| {
            if meeting.arrived + 1 >= size {
                meeting.owed += meeting.arrived;
                meeting.arrived = 0;
                meeting.generation = meeting.generation.wrapping_add(1);
                return Step::Leads;
            }
            meeting.arrived += 1;
            *generation = meeting.generation;
            let waiter = seat.insert(Waiter::new());
            // SAFETY: A1, inside the section; A2, pinned, and dropped in place; A3, one barrier.
            Step::Waits(unsafe { meeting.waiters.wait(waiter, current, &mut fresh) })
        })
    }

    /// A later poll.
    fn look(&self, waiter: &Waiter, current: &Waker, fresh: &mut Option<Waker>) -> Step {
        self.barrier.meeting.with(|meeting| {
            if meeting.generation != self.generation {
                // SAFETY: A1 and A3, as in `come`.
                return Step::Met(unsafe { meeting.leave(waiter, self.generation) });
            }
            // SAFETY: as in `come`.
            Step::Waits(unsafe { meeting.waiters.wait(waiter, current, fresh) })
        })
    }
}

impl Future for Meet<'_> {
    type Output = BarrierWaitResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        // SAFETY: the waiter is not moved while it is in the list.
        let this = unsafe { self.get_unchecked_mut() };
        coop::poll_progress(cx, |cx| {
            let mut fresh = None;
            loop {
                let step = match &this.waiter {
                    None => this.come(cx.waker()),
                    Some(waiter) => this.look(waiter, cx.waker(), &mut fresh),
                };
                match step {
                    Step::Leads => {
                        this.barrier.wake();
                        return Poll::Ready(BarrierWaitResult(true));
                    }
                    Step::Met(_stale) => {
                        this.waiter = None;
                        return Poll::Ready(BarrierWaitResult(false));
                    }
                    Step::Waits(Wait::Queued) => return Poll::Pending,
                    Step::Waits(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
                }
            }
        })
    }
}

impl Drop for Meet<'_> {
    fn drop(&mut self) {
        let Some(waiter) = &self.waiter else { return };
        let stale = self.barrier.meeting.with(|meeting| {
            // SAFETY: A1, inside the section; A3, as in `come`.
            unsafe { meeting.leave(waiter, self.generation) }
        });
        drop(stale);
    }
}

impl fmt::Debug for Meet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meet").finish_non_exhaustive()
    }
}
