//! The matrix of a task's life: what happens to it × what its owner does with the handle, counting everything.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use quadrille::task::{self, AbortHandle, JoinError};
use quadrille::{BuildError, Handle, JoinHandle, Runtime, coop, thread};

use crate::count::{Count, Token};
use crate::gate::Gate;
use crate::probe::{PAYLOAD, Probe, Step, Witness};
use crate::shape::{Shape, for_each_shape, occupy};
use crate::wait::eventually;

/// What happens to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    CompletesAtOnce,
    CompletesAfterPending,
    PanicsAtFirstPoll,
    PanicsLater,
    AbortedBeforeFirstPoll,
    AbortedWhilePending,
    /// And its poll then says `Pending`.
    AbortedWhileRunning,
    /// And its poll then says `Ready`: it finished first.
    AbortedWhileFinishing,
    RuntimeDroppedBeforeFirstPoll,
    RuntimeDroppedWhilePending,
    RuntimeDroppedWhileRunning,
    RuntimeDroppedWhileFinishing,
}

use Event::{
    AbortedBeforeFirstPoll, AbortedWhileFinishing, AbortedWhilePending, AbortedWhileRunning, CompletesAfterPending,
    CompletesAtOnce, PanicsAtFirstPoll, PanicsLater, RuntimeDroppedBeforeFirstPoll, RuntimeDroppedWhileFinishing,
    RuntimeDroppedWhilePending, RuntimeDroppedWhileRunning,
};

const EVENTS: [Event; 12] = [
    CompletesAtOnce,
    CompletesAfterPending,
    PanicsAtFirstPoll,
    PanicsLater,
    AbortedBeforeFirstPoll,
    AbortedWhilePending,
    AbortedWhileRunning,
    AbortedWhileFinishing,
    RuntimeDroppedBeforeFirstPoll,
    RuntimeDroppedWhilePending,
    RuntimeDroppedWhileRunning,
    RuntimeDroppedWhileFinishing,
];

/// What the owner of the handle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Polls it before the event, and again when woken.
    Awaits,
    /// Keeps it, and looks at it after the event.
    Holds,
    /// Drops it before the event.
    Detaches,
}

const OWNERS: [Owner; 3] = [Owner::Awaits, Owner::Holds, Owner::Detaches];

/// What a joiner gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Value,
    Panic,
    Cancelled,
}

impl Event {
    fn script(self) -> &'static [Step] {
        match self {
            CompletesAtOnce => &[Step::Ready],
            CompletesAfterPending => &[Step::Pending, Step::Ready],
            PanicsAtFirstPoll => &[Step::Panic],
            PanicsLater => &[Step::Pending, Step::Panic],
            AbortedBeforeFirstPoll | RuntimeDroppedBeforeFirstPoll => &[],
            AbortedWhilePending | RuntimeDroppedWhilePending => &[Step::Pending],
            AbortedWhileRunning | RuntimeDroppedWhileRunning => &[Step::BlockThenPending],
            AbortedWhileFinishing | RuntimeDroppedWhileFinishing => &[Step::BlockThenReady],
        }
    }

    /// How the task ends. Its polls are the steps of its script.
    fn ending(self) -> Ending {
        match self {
            CompletesAtOnce | CompletesAfterPending | AbortedWhileFinishing | RuntimeDroppedWhileFinishing => {
                Ending::Value
            }
            PanicsAtFirstPoll | PanicsLater => Ending::Panic,
            AbortedBeforeFirstPoll
            | AbortedWhilePending
            | AbortedWhileRunning
            | RuntimeDroppedBeforeFirstPoll
            | RuntimeDroppedWhilePending
            | RuntimeDroppedWhileRunning => Ending::Cancelled,
        }
    }
}

/// Makes `event` happen to the task of `witness`; the runtime may be gone after it.
fn happen(event: Event, runtime: Runtime, witness: &Witness, abort: &AbortHandle) -> Option<Runtime> {
    match event {
        CompletesAtOnce | PanicsAtFirstPoll | AbortedBeforeFirstPoll | RuntimeDroppedBeforeFirstPoll => {}
        CompletesAfterPending | PanicsLater => {
            eventually("the first poll", || witness.has_waker());
            witness.take_waker().unwrap().wake();
        }
        AbortedWhilePending => {
            eventually("the first poll", || witness.has_waker());
            abort.abort();
        }
        AbortedWhileRunning | AbortedWhileFinishing => {
            witness.started.block();
            abort.abort();
            assert!(!abort.is_finished(), "a task that runs is not finished");
            witness.resume.open();
        }
        RuntimeDroppedWhilePending => {
            eventually("the first poll", || witness.has_waker());
            drop(runtime);
            return None;
        }
        RuntimeDroppedWhileRunning | RuntimeDroppedWhileFinishing => {
            witness.started.block();
            let (resume, handle) = (witness.resume.clone(), runtime.handle().clone());
            let dropper = std::thread::spawn(move || drop(runtime));
            // What never ends by itself is refused.
            eventually("the runtime stops", || {
                handle.spawn(std::future::pending::<()>()).is_finished()
            });
            assert!(!abort.is_finished(), "a task that runs is not finished");
            resume.open();
            dropper.join().unwrap();
            return None;
        }
    }
    Some(runtime)
}

fn poll_once(handle: &mut JoinHandle<Token>, joiner: &Count) -> Poll<Result<Token, JoinError>> {
    let waker = joiner.waker();
    Pin::new(handle).poll(&mut Context::from_waker(&waker))
}

fn ending_of(result: &Result<Token, JoinError>) -> Ending {
    match result {
        Ok(_) => Ending::Value,
        Err(error) if error.is_panic() => Ending::Panic,
        Err(error) => {
            assert!(error.is_cancelled(), "an error that is neither: {error:?}");
            Ending::Cancelled
        }
    }
}

/// The handle of a task to which `event` has happened gives the result that belongs to it.
fn join(mut handle: JoinHandle<Token>, event: Event, what: &str) {
    eventually(&format!("{what}: the handle knows"), || handle.is_finished());
    let Poll::Ready(result) = poll_once(&mut handle, &Count::default()) else {
        panic!("{what}: finished, but the handle is pending")
    };
    assert_eq!(ending_of(&result), event.ending(), "{what}");
    if let Err(error) = result {
        assert_eq!(error.id(), handle.id(), "{what}");
        if let Ok(payload) = error.try_into_panic() {
            assert_eq!(payload.downcast_ref(), Some(&PAYLOAD), "{what}");
        }
    }
}

/// One cell of the matrix.
fn cell(shape: &Shape, event: Event, owner: Owner) {
    let what = format!("{event:?} × {owner:?}");
    let witness = Witness::default();
    let joiner = Count::default();
    let runtime = shape.runtime();
    // All begins while no worker is free, so that "before the first poll" is exact.
    let occupied = occupy(&runtime);
    let mut handle: Option<JoinHandle<Token>> = Some(runtime.spawn::<Probe>(witness.probe(event.script())));
    let task = handle.as_mut().unwrap();
    let abort = task.abort_handle();
    assert_eq!(abort.id(), task.id());
    assert!(
        !task.is_finished() && !abort.is_finished(),
        "{what}: finished before it began"
    );
    match owner {
        Owner::Awaits => assert!(poll_once(task, &joiner).is_pending(), "{what}"),
        Owner::Holds => {}
        Owner::Detaches => handle = None,
    }
    let mut runtime = Some(runtime);
    if event == AbortedBeforeFirstPoll {
        abort.abort();
    }
    if event == RuntimeDroppedBeforeFirstPoll {
        // The only way to stop it that returns while the workers are held up.
        runtime.take().unwrap().shutdown_background();
    }
    let _blockers = occupied.release();
    if let Some(held) = runtime.take() {
        runtime = happen(event, held, &witness, &abort);
    }
    eventually(&format!("{what}: the task is finished"), || abort.is_finished());
    if let Some(handle) = handle {
        if owner == Owner::Awaits {
            eventually(&format!("{what}: the joiner is woken"), || joiner.get() > 0);
        }
        join(handle, event, &what);
    }
    // What it does when there is nothing to do: nothing.
    abort.abort();
    drop(runtime);
    let made = usize::from(event.ending() == Ending::Value);
    eventually(&format!("{what}: the output is dropped"), || {
        witness.output_drops.get() == made
    });
    // With the runtime and the handle gone, the counts are final.
    assert_eq!(witness.polls.get(), event.script().len(), "{what}: polls");
    assert_eq!(witness.future_drops.get(), 1, "{what}: drops of the future");
    assert_eq!(witness.outputs_made.get(), made, "{what}: outputs made");
    assert_eq!(witness.output_drops.get(), made, "{what}: drops of the output");
    assert_eq!(
        joiner.get(),
        usize::from(owner == Owner::Awaits),
        "{what}: wakes of the joiner"
    );
    // A waker may outlive everything; waking it does nothing.
    if let Some(waker) = witness.take_waker() {
        waker.wake_by_ref();
        drop(waker.clone());
        waker.wake();
    }
    assert_eq!(witness.polls.get(), event.script().len(), "{what}: polls after all");
    assert_eq!(witness.future_drops.get(), 1, "{what}: drops of the future after all");
}

#[test]
fn every_event_meets_every_owner() {
    for_each_shape(|shape| {
        for event in EVENTS {
            for owner in OWNERS {
                cell(shape, event, owner);
            }
        }
    });
}

#[test]
fn a_panic_reaches_the_joiner_with_its_payload_and_message() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let boom = std::hint::black_box("boom");
        let handle = runtime.spawn(async move {
            panic!("{boom} {}", 1);
        });
        let id = handle.id();
        let error: JoinError = runtime.block_on(handle).map(|(): ()| ()).unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled());
        assert_eq!(error.to_string(), format!("task {id} panicked with message \"boom 1\""));
        assert_eq!(format!("{error:?}"), format!("JoinError::Panic({id}, \"boom 1\")"));
        assert_eq!(error.into_panic().downcast_ref::<String>().unwrap(), "boom 1");

        let handle = runtime.spawn(async { panic!("literal") });
        let error: JoinError = runtime.block_on(handle).map(|(): ()| ()).unwrap_err();
        assert_eq!(error.try_into_panic().unwrap().downcast_ref::<&str>(), Some(&"literal"));

        let handle = runtime.spawn(async { std::panic::panic_any(7_u8) });
        let id = handle.id();
        let error: JoinError = runtime.block_on(handle).map(|(): ()| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("task {id} panicked"));
        assert_eq!(error.into_panic().downcast_ref(), Some(&7_u8));
    });
}

#[test]
fn a_cancellation_says_so() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let handle = runtime.spawn(std::future::pending::<()>());
        handle.abort();
        handle.abort();
        let id = handle.id();
        let error = runtime.block_on(handle).unwrap_err();
        assert!(error.is_cancelled() && !error.is_panic());
        assert_eq!(error.to_string(), format!("task {id} was cancelled"));
        assert_eq!(format!("{error:?}"), format!("JoinError::Cancelled({id})"));
        let error = error.try_into_panic().unwrap_err();
        let refused = std::panic::catch_unwind(|| error.into_panic()).unwrap_err();
        let message = refused.downcast_ref::<String>().unwrap();
        assert_eq!(*message, format!("task {id} was cancelled, it did not panic"));
    });
}

#[test]
fn a_task_may_abort_itself() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, receiver) = quadrille::sync::oneshot::channel::<AbortHandle>();
        let dropped = Count::default();
        let token = dropped.token();
        let handle = runtime.spawn(async move {
            let _token = token;
            receiver.await.unwrap().abort();
            std::future::pending::<()>().await;
        });
        sender.send(handle.abort_handle()).unwrap();
        assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
        assert_eq!(dropped.get(), 1);
    });
}

#[test]
fn names_and_ids_belong_to_the_task() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let named = task::Builder::new()
            .name("clerk")
            .spawn_on(async { 1 }, runtime.handle());
        let plain = runtime.spawn(async { 2 });
        let job = task::Builder::new()
            .name("porter")
            .spawn_blocking_on(|| 3, runtime.handle());
        assert_eq!(
            (named.name(), plain.name(), job.name()),
            (Some("clerk"), None, Some("porter"))
        );
        assert_ne!(named.id(), plain.id());
        assert_eq!(
            runtime.block_on(async { named.await.unwrap() + plain.await.unwrap() + job.await.unwrap() }),
            6
        );
    });
}

#[test]
fn a_name_may_be_lent_or_given() {
    let runtime = Runtime::new().unwrap();
    let name = String::from("clerk");
    let of = |builder: task::Builder| builder.spawn_on(async {}, runtime.handle()).name().map(str::to_owned);
    let builder = task::Builder::new;
    assert_eq!(of(builder().name(&name)), Some(name.clone()));
    assert_eq!(of(builder().name(&*name)), Some(name.clone()));
    assert_eq!(
        of(builder().name(std::borrow::Cow::Borrowed(&*name))),
        Some(name.clone())
    );
    assert_eq!(of(builder().name(Box::<str>::from(&*name))), Some(name.clone()));
    assert_eq!(of(builder().name(name)), Some("clerk".to_owned()));
}

/// By `?`, as in a function that reads and writes.
#[test]
fn the_end_of_a_task_is_an_error_of_input_and_output() {
    fn end_of(runtime: &Runtime, job: fn()) -> io::Result<()> {
        runtime.block_on(runtime.spawn_blocking(job))?;
        Ok(())
    }
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    assert!(end_of(&runtime, || ()).is_ok());
    let error = end_of(&runtime, || panic!("for the test")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Other);
    let inside = error.downcast::<JoinError>().unwrap();
    assert!(
        inside.is_panic() && inside.to_string().contains("for the test"),
        "{inside}"
    );

    let build = || -> io::Result<()> {
        drop(Runtime::builder().worker_threads(0).build()?);
        Ok(())
    };
    let error = build().unwrap_err();
    assert!(error.downcast::<BuildError>().unwrap().to_string().contains('0'));
}

/// What the task says before and after it gave way, and while it blocks.
async fn own_ids() -> [task::Id; 3] {
    let first = task::id();
    task::yield_now().await;
    [first, task::id(), task::block_in_place(task::id)]
}

#[test]
fn a_task_knows_its_own_id() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        assert_eq!(task::try_id(), None);
        let spawned = runtime.spawn(async move {
            let inner = quadrille::spawn(async { task::id() });
            assert_eq!(inner.id(), inner.await.unwrap());
            own_ids().await
        });
        let id = spawned.id();
        assert_eq!(runtime.block_on(spawned).unwrap(), [id; 3]);
        let thread = runtime.spawn_thread(|| {
            let before = task::id();
            thread::yield_now();
            (before, task::id())
        });
        let (before, after) = thread.join().unwrap();
        assert_eq!(before, after);
        let job = runtime.spawn_blocking(task::id);
        let id = job.id();
        assert_eq!(runtime.block_on(job).unwrap(), id);
        assert_eq!(runtime.block_on(async { task::try_id() }), None, "nobody spawned it");
        let job = runtime.spawn_blocking(|| Handle::current().block_on(async { task::id() }));
        let id = job.id();
        assert_eq!(runtime.block_on(job).unwrap(), id, "the closure around it");
    });
}

/// Else one that waits in blocking style for a channel of ours would wait for ever, and its worker with it: nobody
/// refills the budget meanwhile.
#[test]
fn the_destructors_of_a_task_that_has_spent_its_budget_have_one() {
    struct Asks(std::sync::mpsc::Sender<bool>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.send(coop::has_budget_remaining()).unwrap();
        }
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime = Shape::flat(1).runtime();
    let (captured, mut result) = (Asks(sender.clone()), Some(Asks(sender)));
    // Nobody joins it: its result is dropped as well.
    runtime.spawn(std::future::poll_fn(move |cx| {
        let _captured = &captured;
        while coop::has_budget_remaining() {
            let spends = std::pin::pin!(coop::consume_budget());
            assert!(spends.poll(cx).is_ready());
        }
        Poll::Ready(result.take())
    }));
    assert_eq!((receiver.recv(), receiver.recv()), (Ok(true), Ok(true)));
}

/// Tells of the task in which it is dropped.
struct Asks(std::sync::mpsc::Sender<Option<task::Id>>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.send(task::try_id()).unwrap();
    }
}

#[test]
fn the_destructors_of_a_task_know_its_id() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime = Shape::flat(1).runtime();
    let asks = Asks(sender.clone());
    let finishes = runtime.spawn(async move { drop(asks) });
    let id = finishes.id();
    runtime.block_on(finishes).unwrap();
    assert_eq!(receiver.recv(), Ok(Some(id)));
    let pending = |asks: Asks| async move {
        std::future::pending::<()>().await;
        drop(asks);
    };
    let aborted = runtime.spawn(pending(Asks(sender.clone())));
    let id = aborted.id();
    aborted.abort();
    assert!(runtime.block_on(aborted).is_err());
    assert_eq!(
        receiver.recv(),
        Ok(Some(id)),
        "who notices the abort is the task's own run"
    );
    let ended = runtime.spawn(pending(Asks(sender.clone())));
    let handle = runtime.handle().clone();
    drop(runtime);
    assert_eq!(receiver.recv(), Ok(Some(ended.id())), "with its runtime");
    let refused = handle.spawn(pending(Asks(sender)));
    assert_eq!(receiver.recv(), Ok(Some(refused.id())), "before it ran");
    assert_eq!(task::try_id(), None);
}

/// Wherever that is dropped, and whatever runs there.
#[test]
fn the_destructor_of_a_result_that_nobody_wants_knows_the_id() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, receiver) = std::sync::mpsc::channel();
        let told = || receiver.recv().unwrap();
        // Detached before it ends: by who ran it.
        let (gate, asks) = (Gate::default(), Asks(sender.clone()));
        let opens = gate.clone();
        let detached = runtime.spawn(async move {
            gate.pass().await;
            asks
        });
        let id = detached.id();
        drop(detached);
        opens.open();
        assert_eq!(told(), Some(id));
        // After that, by a thread and by another task, which is what runs there then.
        let asks = Asks(sender.clone());
        let ended = runtime.spawn(async move { asks });
        eventually("it has ended", || ended.is_finished());
        let id = ended.id();
        drop(ended);
        assert_eq!(told(), Some(id));
        assert_eq!(task::try_id(), None);
        let asks = Asks(sender.clone());
        let ended = runtime.spawn(async move { asks });
        eventually("it has ended", || ended.is_finished());
        let id = ended.id();
        let other = runtime.spawn(async move {
            let own = task::id();
            drop(ended);
            task::yield_now().await;
            task::id() == own
        });
        assert!(runtime.block_on(other).unwrap());
        assert_eq!(told(), Some(id));
        // One that is taken is whose it is then.
        let asks = Asks(sender.clone());
        let ended = runtime.spawn(async move { asks });
        drop(runtime.block_on(ended).unwrap());
        assert_eq!(told(), None);
    });
}

#[test]
#[should_panic(expected = "no quadrille task here")]
fn outside_of_a_task_there_is_no_id() {
    let _ = task::id();
}
