//! One task as a script: what its future, its result and its joiner do, and what of it is seen.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

/// What is done to a task, by the test or by anything that belongs to the task. An act whose object is not there does
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Makes one more waker: in a poll from the one that was lent, else from another.
    Clone,
    /// Uses up a waker.
    Wake,
    WakeByRef,
    Drop,
    /// In a poll: by the waker that was lent.
    WakeItself,
    /// In a poll: by a clone of that.
    WakeItselfByValue,
    /// Another thread wakes it: in a poll by the waker that was lent.
    WakeElsewhere,
    /// One of two joiners polls the handle.
    Join(usize),
    Detach,
    IsFinished,
    /// As at shutdown: wakes whatever is registered.
    WakeRegistered,
    /// Drops the runnable.
    Cancel,
}

pub(super) const ACTS: [Act; 13] = [
    Act::Clone,
    Act::Wake,
    Act::WakeByRef,
    Act::Drop,
    Act::WakeItself,
    Act::WakeItselfByValue,
    Act::WakeElsewhere,
    Act::Join(0),
    Act::Join(1),
    Act::Detach,
    Act::IsFinished,
    Act::WakeRegistered,
    Act::Cancel,
];

/// What a poll of the future comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Pending,
    Ready(u32),
    Panics,
}

/// What is decided before the task exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// It enters the registry when it is first pending. Else nobody keeps a waker of it but the script.
    pub(super) registers: bool,
    pub(super) destructor: Vec<Act>,
    pub(super) destructor_panics: bool,
    pub(super) output: Vec<Act>,
    pub(super) output_panics: bool,
    /// What a joiner does when it is woken.
    pub(super) woken: Vec<Act>,
}

/// What was seen, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Polled,
    FutureDropped,
    OutputDropped(u32),
    Woken(usize),
    Joined(Joined),
    Finished(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    Pending,
    Value(u32),
    Panicked(Panic),
    Cancelled,
}

/// A payload, without memory of its own: whoever forgets it leaks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panic {
    Poll,
    Destructor,
    Output,
}

pub(super) struct InPoll;
pub(super) struct InDestructor;
pub(super) struct InOutput;

impl Panic {
    /// Unwinds without the panic hook.
    fn raise(self) -> ! {
        match self {
            Self::Poll => resume_unwind(Box::new(InPoll)),
            Self::Destructor => resume_unwind(Box::new(InDestructor)),
            Self::Output => resume_unwind(Box::new(InOutput)),
        }
    }

    pub(super) fn of(payload: &(dyn std::any::Any + Send)) -> Self {
        match () {
            () if payload.is::<InPoll>() => Self::Poll,
            () if payload.is::<InDestructor>() => Self::Destructor,
            () if payload.is::<InOutput>() => Self::Output,
            () => panic!("a payload of somebody else"),
        }
    }
}

/// Calls `f`; the payload of its panic is nobody's.
pub(super) fn catch(f: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(f)));
}

/// One of the two cells, with a task in it.
pub(super) trait TaskCell: Send + Sync {
    /// Number of runnables that are in a queue.
    fn queued(&self) -> usize;
    /// Takes the runnable from its queue and runs it.
    fn run(&self);
    /// Takes the runnable from its queue and drops it.
    fn cancel(&self);
    /// Polls the handle, if it is there.
    fn join(&self, waker: &Waker) -> Option<Joined>;
    fn detach(&self);
    /// `None`: there is no handle.
    fn is_finished(&self) -> Option<bool>;
    fn wake_registered(&self);
    /// A waker was dropped.
    fn gave_up_a_waker(&self);
    fn is_freed(&self) -> bool;
}

/// What a task, its joiners and the test share. No lock is held while anything of the task's is called.
pub(super) struct World {
    script: Script,
    cell: OnceLock<Box<dyn TaskCell>>,
    facts: Mutex<Vec<Fact>>,
    wakers: Mutex<Vec<Waker>>,
    next_poll: Mutex<(Vec<Act>, Answer)>,
}

/// At most so many wakers at a time.
const WAKERS_MAX: usize = 3;

impl World {
    /// A task of the script in the cell that `make` makes.
    pub(super) fn new(script: &Script, make: impl FnOnce(&Arc<Self>) -> Box<dyn TaskCell>) -> Arc<Self> {
        let world = Arc::new(Self {
            script: script.clone(),
            cell: OnceLock::new(),
            facts: Mutex::default(),
            wakers: Mutex::default(),
            next_poll: Mutex::new((Vec::new(), Answer::Pending)),
        });
        let cell = make(&world);
        assert!(world.cell.set(cell).is_ok(), "set once");
        world
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    pub(super) fn cell(&self) -> &dyn TaskCell {
        &**self.cell.get().expect("set by `new`")
    }

    pub(super) fn wakers(&self) -> usize {
        self.wakers.lock().unwrap().len()
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        self.facts.lock().unwrap().clone()
    }

    pub(super) fn is_future_gone(&self) -> bool {
        self.facts.lock().unwrap().contains(&Fact::FutureDropped)
    }

    fn note(&self, fact: Fact) {
        self.facts.lock().unwrap().push(fact);
    }

    fn pop(&self) -> Option<Waker> {
        self.wakers.lock().unwrap().pop()
    }

    fn push(&self, waker: Waker) {
        self.wakers.lock().unwrap().push(waker);
    }

    fn clone_waker(&self, lent: Option<&Waker>) {
        if self.wakers() == WAKERS_MAX {
            return;
        }
        let clone = lent.cloned().or_else(|| self.wakers.lock().unwrap().last().cloned());
        if let Some(clone) = clone {
            assert!(lent.is_none_or(|lent| lent.will_wake(&clone)));
            self.push(clone);
        }
    }

    fn wake_elsewhere(&self, lent: Option<&Waker>) {
        let wake = |waker: &Waker| std::thread::scope(|scope| _ = scope.spawn(|| waker.wake_by_ref()));
        if let Some(lent) = lent {
            wake(lent);
        } else if let Some(waker) = self.pop() {
            wake(&waker);
            self.push(waker);
        }
    }

    /// `lent`: the waker of the poll that it is done in.
    pub(super) fn act(self: &Arc<Self>, act: Act, lent: Option<&Waker>) {
        match act {
            Act::Clone => self.clone_waker(lent),
            Act::Wake => self.pop().into_iter().for_each(Waker::wake),
            Act::WakeByRef => {
                if let Some(waker) = self.pop() {
                    waker.wake_by_ref();
                    self.push(waker);
                }
            }
            Act::Drop => {
                if let Some(waker) = self.pop() {
                    drop(waker);
                    self.cell().gave_up_a_waker();
                }
            }
            Act::WakeItself => lent.into_iter().for_each(Waker::wake_by_ref),
            Act::WakeItselfByValue => lent.cloned().into_iter().for_each(Waker::wake),
            Act::WakeElsewhere => self.wake_elsewhere(lent),
            Act::Join(number) => {
                let waker = Waker::from(Arc::new(Joiner {
                    world: self.clone(),
                    number,
                }));
                self.join(&waker);
            }
            Act::Detach => self.cell().detach(),
            Act::IsFinished => self
                .cell()
                .is_finished()
                .into_iter()
                .for_each(|is| self.note(Fact::Finished(is))),
            Act::WakeRegistered => self.cell().wake_registered(),
            Act::Cancel => self.cell().cancel(),
        }
    }

    /// Polls the handle as the joiner whose waker this is.
    pub(super) fn join(&self, waker: &Waker) {
        if let Some(joined) = self.cell().join(waker) {
            self.note(Fact::Joined(joined));
        }
    }

    /// Runs the task; its future does so.
    pub(super) fn run(&self, acts: &[Act], answer: Answer) {
        *self.next_poll.lock().unwrap() = (acts.to_vec(), answer);
        self.cell().run();
    }

    fn act_all(self: &Arc<Self>, acts: &[Act], lent: Option<&Waker>) {
        acts.iter().for_each(|act| self.act(*act, lent));
    }
}

/// The future.
pub(super) struct Scripted(pub(super) Arc<World>);

impl Future for Scripted {
    type Output = Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        let world = &self.0;
        world.note(Fact::Polled);
        let (acts, answer) = world.next_poll.lock().unwrap().clone();
        world.act_all(&acts, Some(cx.waker()));
        match answer {
            Answer::Pending => Poll::Pending,
            Answer::Ready(value) => Poll::Ready(Output {
                world: world.clone(),
                value,
            }),
            Answer::Panics => Panic::Poll.raise(),
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let world = &self.0;
        world.act_all(&world.script.destructor, None);
        world.note(Fact::FutureDropped);
        if world.script.destructor_panics {
            Panic::Destructor.raise();
        }
    }
}

/// The result.
pub(super) struct Output {
    world: Arc<World>,
    pub(super) value: u32,
}

impl Drop for Output {
    fn drop(&mut self) {
        let world = &self.world;
        world.act_all(&world.script.output, None);
        world.note(Fact::OutputDropped(self.value));
        if world.script.output_panics {
            Panic::Output.raise();
        }
    }
}

/// Who waits for the result.
pub(super) struct Joiner {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
}

impl Wake for Joiner {
    fn wake(self: Arc<Self>) {
        let world = &self.world;
        world.note(Fact::Woken(self.number));
        world.act_all(&world.script.woken, None);
    }
}
