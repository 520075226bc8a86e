//! async-task's cell, and what it takes to make it do as ours does.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use async_task::{Builder, FallibleTask, Runnable};

use super::script::{Joined, Output, Panic, Scripted, TaskCell, World, catch};

/// The metadata: the only queue.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<Vec<Runnable<Queue>>>>);

type Registry = Arc<Mutex<Option<Waker>>>;

pub(super) struct Theirs {
    /// Which owns it.
    world: Weak<World>,
    queue: Queue,
    handle: Mutex<Option<FallibleTask<Left, Queue>>>,
    /// What the registry has of the task.
    registered: Registry,
    /// Keeps async-task from closing a task by itself, until the future is gone.
    anchor: Mutex<Option<Waker>>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    LetGo,
    Runs,
    /// Its runnable is being dropped.
    Cancelled,
}

impl Theirs {
    pub(super) fn boxed(world: &Arc<World>) -> Box<dyn TaskCell> {
        let (queue, registered) = (Queue::default(), Registry::default());
        let body = Body {
            future: Some(Scripted(world.clone())),
            is_registered: !world.script().registers,
            registry: registered.clone(),
        };
        let schedule = |runnable: Runnable<Queue>| {
            let queue = runnable.metadata().clone();
            queue.0.lock().unwrap().push(runnable);
        };
        let (runnable, task) = Builder::new().metadata(queue.clone()).spawn(|_| body, schedule);
        let anchor = runnable.waker();
        runnable.schedule();
        Box::new(Self {
            world: Arc::downgrade(world),
            queue,
            handle: Mutex::new(Some(task.fallible())),
            registered,
            anchor: Mutex::new(Some(anchor)),
            state: Mutex::new(State::LetGo),
        })
    }

    fn take(&self) -> Option<Runnable<Queue>> {
        self.queue.0.lock().unwrap().pop()
    }

    fn world(&self) -> Arc<World> {
        self.world.upgrade().expect("it owns its cell")
    }

    fn is_done(&self) -> bool {
        self.world().is_future_gone()
    }

    /// Whether it waits for a wake-up that nobody can give.
    fn is_abandoned(&self) -> bool {
        let waits = !self.is_done() && self.queued() == 0 && *self.state.lock().unwrap() == State::LetGo;
        waits && self.world().wakers() == 0 && self.registered.lock().unwrap().is_none()
    }

    fn wake_anchor(&self) {
        let anchor = self.anchor.lock().unwrap().clone();
        anchor.expect("the task is not done").wake();
    }

    fn with_state(&self, state: State, f: impl FnOnce()) {
        *self.state.lock().unwrap() = state;
        f();
        *self.state.lock().unwrap() = State::LetGo;
        if self.is_done() {
            let anchor = self.anchor.lock().unwrap().take();
            drop(anchor);
        }
    }
}

impl TaskCell for Theirs {
    fn queued(&self) -> usize {
        self.queue.0.lock().unwrap().len()
    }

    fn run(&self) {
        let runnable = self.take().expect("it is queued");
        self.with_state(State::Runs, || _ = runnable.run());
        // (D2)
        if self.is_abandoned() {
            self.wake_anchor();
            self.cancel();
        }
    }

    fn cancel(&self) {
        if let Some(runnable) = self.take() {
            self.with_state(State::Cancelled, || drop(runnable));
        }
    }

    fn join(&self, waker: &Waker) -> Option<Joined> {
        let mut handle = self.handle.lock().unwrap().take()?;
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(waker));
        let joined = match polled.map(|left| left.map(Left::into_result)) {
            Poll::Pending => Joined::Pending,
            Poll::Ready(Some(Ok(output))) => {
                let value = output.value;
                catch(|| drop(output));
                Joined::Value(value)
            }
            Poll::Ready(Some(Err(payload))) => Joined::Panicked(Panic::of(&*payload)),
            Poll::Ready(None) => Joined::Cancelled,
        };
        *self.handle.lock().unwrap() = Some(handle);
        Some(joined)
    }

    fn detach(&self) {
        // (D4)
        if self.is_finished() == Some(false) {
            self.join(Waker::noop());
        }
        let handle = self.handle.lock().unwrap().take();
        handle.into_iter().for_each(FallibleTask::detach);
    }

    fn is_finished(&self) -> Option<bool> {
        let finished = self.handle.lock().unwrap().as_ref().map(FallibleTask::is_finished);
        // (D3)
        finished.map(|is| is && (self.is_done() || *self.state.lock().unwrap() != State::Cancelled))
    }

    fn wake_registered(&self) {
        let registered = self.registered.lock().unwrap().take();
        registered.into_iter().for_each(Waker::wake);
    }

    fn gave_up_a_waker(&self) {
        // (D1)
        if self.is_abandoned() {
            self.wake_anchor();
        }
    }

    fn is_freed(&self) -> bool {
        Arc::strong_count(&self.queue.0) == 1
    }
}

/// The future as async-task gets it: nothing of it unwinds (D5), and it is registered by its first poll that is
/// pending.
struct Body {
    future: Option<Scripted>,
    is_registered: bool,
    registry: Registry,
}

type Payload = Box<dyn Any + Send>;

impl Body {
    /// Drops the future, and takes it out of the registry. The payload of its destructor.
    fn end(&mut self) -> Option<Payload> {
        let future = self.future.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
        let registered = self.registry.lock().unwrap().take();
        drop(registered);
        dropped.err()
    }
}

impl Future for Body {
    type Output = Left;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Left> {
        let future = self.future.as_mut().expect("not polled after its end");
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(cx)));
        if let Ok(Poll::Pending) = polled {
            if !self.is_registered {
                self.is_registered = true;
                *self.registry.lock().unwrap() = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let dropped = self.end();
        Poll::Ready(Left(Some(match (polled, dropped) {
            (Ok(Poll::Ready(output)), None) => Ok(output),
            (Ok(polled), Some(payload)) => {
                catch(|| drop(polled));
                Err(payload)
            }
            (Err(payload), _) => Err(payload),
            (Ok(Poll::Pending), None) => unreachable!("see above"),
        })))
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.future.is_some() {
            drop(self.end());
        }
    }
}

/// What the future leaves; its destructor does not unwind (D5).
struct Left(Option<Result<Output, Payload>>);

impl Left {
    fn into_result(mut self) -> Result<Output, Payload> {
        self.0.take().expect("taken once")
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        catch(|| drop(self.0.take()));
    }
}
