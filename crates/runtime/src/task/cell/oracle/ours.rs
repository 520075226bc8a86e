//! Our cell, in a scheduler that the test drains.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use quadrille_policy::SetId;

use super::script::{Joined, Output, Panic, Scripted, TaskCell, World, catch};
use crate::sched::Shared;
use crate::sched::still::take_queued;
use crate::task::abort::AbortCell;
use crate::task::body::{self, Body, Outcome, Polled};
use crate::task::cell::Turn;
use crate::task::meta::THREAD;
use crate::task::spawn::{Options, allocate_unchecked};
use crate::task::{JoinHandle, Runnable};

pub(super) struct Ours {
    shared: Arc<Shared>,
    queue: Mutex<Vec<Runnable>>,
    handle: Mutex<Option<JoinHandle<Output>>>,
    /// The metadata has another one as long as it is there.
    abort: Arc<AbortCell>,
}

impl Ours {
    pub(super) fn boxed(shared: &Arc<Shared>, world: &Arc<World>) -> Box<dyn TaskCell> {
        let registers = world.script().registers;
        let policy = shared.new_policy(None, SetId::NONE);
        let future = Scripted(world.clone());
        let (runnable, handle) = if registers {
            // SAFETY: the future and its output are 'static.
            unsafe { allocate_unchecked(shared, None, policy, Options::default(), || Polled(future)) }
        } else {
            // SAFETY: as above.
            unsafe { allocate_unchecked(shared, None, policy, Options::default(), || Unregistered(future)) }
        };
        let abort = runnable.meta().abort_cell();
        Box::new(Self {
            shared: shared.clone(),
            queue: Mutex::new(vec![runnable]),
            handle: Mutex::new(Some(handle)),
            abort,
        })
    }

    fn take(&self) -> Option<Runnable> {
        let mut queue = self.queue.lock().unwrap();
        queue.extend(take_queued(&self.shared));
        queue.pop()
    }
}

/// What is like a user-level thread in that it neither obeys aborts nor enters the registry.
struct Unregistered(Scripted);

// SAFETY: `poll` and `end` catch what unwinds, and `end` writes `place`, last of all. Nobody asks for the waker that it
// does not keep.
unsafe impl Body for Unregistered {
    type Output = Output;
    const FLAGS: u8 = THREAD;

    unsafe fn run(this: *mut Self, place: *mut Outcome<Output>, turn: &Turn) -> bool {
        // SAFETY: a field of what is there.
        let future = unsafe { &raw mut (*this).0 };
        // SAFETY: passed on.
        let Some(result) = (unsafe { body::poll(future, &mut Context::from_waker(&turn.waker())) }) else {
            return false;
        };
        // SAFETY: passed on.
        unsafe { body::end(this, place, turn, result) };
        true
    }
}

impl TaskCell for Ours {
    fn queued(&self) -> usize {
        let mut queue = self.queue.lock().unwrap();
        queue.extend(take_queued(&self.shared));
        queue.len()
    }

    fn run(&self) {
        let again = self.take().expect("it is queued").run().again();
        self.queue.lock().unwrap().extend(again);
    }

    fn cancel(&self) {
        drop(self.take());
    }

    fn join(&self, waker: &Waker) -> Option<Joined> {
        let mut handle = self.handle.lock().unwrap().take()?;
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(waker));
        let joined = match polled {
            Poll::Pending => Joined::Pending,
            Poll::Ready(Ok(output)) => {
                let value = output.value;
                catch(|| drop(output));
                Joined::Value(value)
            }
            Poll::Ready(Err(error)) if error.is_cancelled() => Joined::Cancelled,
            Poll::Ready(Err(error)) => Joined::Panicked(Panic::of(&*error.into_panic())),
        };
        *self.handle.lock().unwrap() = Some(handle);
        Some(joined)
    }

    fn detach(&self) {
        let handle = self.handle.lock().unwrap().take();
        drop(handle);
    }

    fn is_finished(&self) -> Option<bool> {
        self.handle.lock().unwrap().as_ref().map(JoinHandle::is_finished)
    }

    fn wake_registered(&self) {
        self.shared.registry.wake_all();
    }

    fn gave_up_a_waker(&self) {}

    fn is_freed(&self) -> bool {
        Arc::strong_count(&self.abort) == 1
    }
}
