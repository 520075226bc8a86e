//! What the cell does beyond async-task's, each thing by itself.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake};

use quadrille_policy::SetId;

use super::super::abort::AbortCell;
use super::super::spawn::{self, Options};
use super::super::state::{REFERENCE, State};
use super::super::{JoinHandle, Runnable};
use super::*;
use crate::error::JoinError;
use crate::sched::still::{Still, take_queued};

fn still() -> Still {
    Still::new("core:1", "")
}

fn allocate<F>(still: &Still, future: F) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future<Output: Send> + Send + 'static,
{
    let policy = still.shared.new_policy(None, SetId::NONE);
    spawn::allocate(&still.shared, None, policy, Options::default(), future)
}

/// Whether the memory of a task was freed, which had this.
fn is_freed(abort: &Arc<AbortCell>) -> bool {
    Arc::strong_count(abort) == 1
}

fn header(waker: &Waker) -> NonNull<Header> {
    NonNull::new(waker.data().cast_mut().cast()).expect("a waker of ours")
}

fn word(waker: &Waker) -> State {
    // SAFETY: the waker keeps its task there.
    unsafe { header(waker).as_ref() }.lifecycle.word()
}

/// What a future tells the test.
type Log<T> = Arc<Mutex<Vec<T>>>;

fn note<T>(log: &Log<T>, entry: T) {
    log.lock().unwrap().push(entry);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(Mutex<usize>);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
    }
}

fn poll<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    pin!(handle).poll(&mut Context::from_waker(waker))
}

/// What the joiner of a task that is done is told.
fn join<T>(mut handle: JoinHandle<T>) -> Result<T, JoinError> {
    match poll(&mut handle, Waker::noop()) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task is not done"),
    }
}

/// A payload that is reported nowhere.
struct Quiet;

fn unwind() -> ! {
    resume_unwind(Box::new(Quiet))
}

/// Runs a task that wakes itself by `wake`. Its word during the poll, before and after that.
fn words_around(wake: fn(&Waker)) -> (State, State) {
    let (still, words) = (still(), Log::default());
    let log = words.clone();
    let (runnable, handle) = allocate(
        &still,
        poll_fn(move |cx| {
            note(&log, word(cx.waker()));
            wake(cx.waker());
            note(&log, word(cx.waker()));
            Poll::<()>::Pending
        }),
    );
    let runnable = runnable.run().again();
    assert!(runnable.is_some(), "it is its runner's to queue");
    assert!(take_queued(&still.shared).is_empty(), "and nobody else's");
    drop(runnable);
    assert!(join(handle).unwrap_err().is_cancelled());
    let words = words.lock().unwrap();
    (words[0], words[1])
}

#[test]
fn a_task_that_wakes_itself_leaves_its_word_alone() {
    let (before, after) = words_around(Waker::wake_by_ref);
    assert_eq!((before, after), (State::NEW, State::NEW));
}

#[test]
fn a_task_that_wakes_itself_by_value_gives_that_waker_up() {
    let (before, after) = words_around(|waker| {
        let clone = waker.clone();
        assert_eq!(word(&clone).0, State::NEW.0 + REFERENCE);
        clone.wake();
    });
    assert_eq!((before, after), (State::NEW, State::NEW));
}

#[test]
fn a_task_that_was_told_by_itself_and_by_another_runs_once_more() {
    let still = still();
    let polls = Log::default();
    let log = polls.clone();
    let (runnable, _handle) = allocate(
        &still,
        poll_fn(move |cx| {
            note(&log, word(cx.waker()).is_woken());
            if log.lock().unwrap().len() == 1 {
                let waker = cx.waker();
                std::thread::scope(|scope| _ = scope.spawn(|| waker.wake_by_ref()));
                assert!(word(cx.waker()).is_woken(), "another thread goes by the word");
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }),
    );
    let again = runnable.run().again().expect("it was woken");
    assert!(again.run().again().is_none(), "once");
    assert!(take_queued(&still.shared).is_empty());
    assert_eq!(*polls.lock().unwrap(), [false, false], "a poll clears the bit before");
}

#[test]
fn a_wake_up_by_a_task_that_runs_meanwhile_goes_by_the_word() {
    let still = still();
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let waker = slot.clone();
    let (wakes, _handle) = allocate(
        &still,
        poll_fn(move |_| {
            waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
            Poll::Ready(())
        }),
    );
    let words = Log::default();
    let (mut wakes, log) = (Some(wakes), words.clone());
    let (runs, _other) = allocate(
        &still,
        poll_fn(move |cx| {
            note(&log, word(cx.waker()));
            if let Some(wakes) = wakes.take() {
                *slot.lock().unwrap() = Some(cx.waker().clone());
                let other = std::thread::spawn(move || wakes.run().again().is_none());
                assert!(other.join().unwrap());
                note(&log, word(cx.waker()));
            }
            Poll::<()>::Pending
        }),
    );
    let again = runs.run().again().expect("it was woken");
    assert!(again.run().again().is_none(), "once");
    let woken: Vec<_> = words.lock().unwrap().iter().map(|word| word.is_woken()).collect();
    assert_eq!(woken, [false, true, false]);
}

#[test]
fn a_wake_up_of_a_task_that_waits_queues_it_whoever_wakes_it() {
    let still = still();
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let waker = slot.clone();
    let (waits, _handle) = allocate(
        &still,
        poll_fn(move |cx| {
            *waker.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        }),
    );
    assert!(waits.run().again().is_none());
    let (wakes, _other) = allocate(
        &still,
        poll_fn(move |_| {
            let waker = slot.lock().unwrap().take().expect("left by the other");
            waker.wake_by_ref();
            waker.wake();
            Poll::Ready(())
        }),
    );
    assert!(wakes.run().again().is_none());
    assert_eq!(take_queued(&still.shared).len(), 1);
}

#[test]
fn a_future_that_is_dropped_with_its_runnable_tells_the_joiner() {
    let still = still();
    let count = Arc::new(Count::default());
    let (runnable, mut handle) = allocate(&still, std::future::pending::<Infallible>());
    assert!(poll(&mut handle, &Waker::from(count.clone())).is_pending());
    assert!(!handle.is_finished());
    drop(runnable);
    assert_eq!((*count.0.lock().unwrap(), Arc::strong_count(&count)), (1, 1));
    assert!(handle.is_finished());
    assert!(join(handle).unwrap_err().is_cancelled());
}

#[test]
fn a_joiners_waker_that_panics_does_not_unwind_into_the_runner() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            unwind();
        }
    }
    let still = still();
    let (runnable, mut handle) = allocate(&still, async { 7 });
    assert!(poll(&mut handle, &Waker::from(Arc::new(Panics))).is_pending());
    let run = catch_unwind(AssertUnwindSafe(|| runnable.run().again()));
    assert!(matches!(run, Ok(None)));
    assert_eq!(join(handle).unwrap(), 7);
}

/// A waker each of whose drops panics.
fn panics_in_drop() -> ManuallyDrop<Waker> {
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(std::ptr::null(), &TABLE),
        |_| {},
        |_| {},
        |_| unwind(),
    );
    // SAFETY: it owns nothing.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) })
}

#[test]
fn a_handle_whose_waker_panics_when_it_is_given_back_is_gone_all_the_same() {
    let still = still();
    let (runnable, mut handle) = allocate(&still, async { 7 });
    let abort = runnable.meta().abort_cell();
    assert!(poll(&mut handle, &panics_in_drop()).is_pending());
    let detach = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    assert!(detach.is_err(), "it is the joiner's, and unwinds there");
    assert!(runnable.run().again().is_none());
    assert!(is_freed(&abort), "nobody has the task any more");
}

#[test]
fn a_handle_whose_waker_panics_when_it_is_replaced_can_be_polled_again() {
    let still = still();
    let count = Arc::new(Count::default());
    let (runnable, mut handle) = allocate(&still, async { 7 });
    assert!(poll(&mut handle, &panics_in_drop()).is_pending());
    let waker = Waker::from(count.clone());
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut handle, &waker))).is_err());
    assert!(poll(&mut handle, &waker).is_pending());
    assert!(runnable.run().again().is_none());
    assert_eq!(*count.0.lock().unwrap(), 1);
    assert_eq!(join(handle).unwrap(), 7);
}

/// A result whose destructor panics.
struct Output(Log<()>);

impl Drop for Output {
    fn drop(&mut self) {
        note(&self.0, ());
        unwind();
    }
}

/// Runs a task with such a result, whose handle is dropped by `detach`, and which leaves a waker if `refers`.
#[track_caller]
fn check_output_panics(refers: bool, detach_first: bool) {
    let (still, drops) = (still(), Log::default());
    let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (log, waker) = (drops.clone(), slot.clone());
    let (runnable, handle) = allocate(
        &still,
        poll_fn(move |cx| {
            *waker.lock().unwrap() = refers.then(|| cx.waker().clone());
            Poll::Ready(Output(log.clone()))
        }),
    );
    let abort = runnable.meta().abort_cell();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let kept = (!detach_first).then_some(handle);
        assert!(runnable.run().again().is_none());
        drop(kept);
    }));
    assert!(unwound.is_ok());
    assert_eq!(drops.lock().unwrap().len(), 1);
    assert_eq!(is_freed(&abort), !refers);
    let waker = slot.lock().unwrap().take();
    drop(waker);
    assert!(is_freed(&abort));
}

#[test]
fn a_result_whose_destructor_panics_unwinds_nowhere() {
    for refers in [false, true] {
        for detach_first in [false, true] {
            check_output_panics(refers, detach_first);
        }
    }
}

/// Is pending once, and then ready with its content; says where it is whenever it is polled.
struct Placed<F, T> {
    content: F,
    output: fn(&F) -> T,
    addresses: Log<usize>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl<F: Unpin, T> Future for Placed<F, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        note(&self.addresses, std::ptr::from_ref(&self.content).addr());
        if self.addresses.lock().unwrap().len() == 1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        *self.waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Ready((self.output)(&self.content))
    }
}

/// A task with this content and result is aligned as these ask for, stays where it is, and keeps both.
#[track_caller]
fn check_place<F, T>(content: F, output: fn(&F) -> T) -> T
where
    F: Unpin + Send + 'static,
    T: Send + 'static,
{
    let still = still();
    let (addresses, slot) = (Log::default(), Arc::<Mutex<Option<Waker>>>::default());
    let future = Placed {
        content,
        output,
        addresses: addresses.clone(),
        waker: slot.clone(),
    };
    let (runnable, handle) = allocate(&still, future);
    assert!(runnable.run().again().expect("it woke itself").run().again().is_none());
    {
        let addresses = addresses.lock().unwrap();
        assert_eq!(addresses.len(), 2);
        assert_eq!(addresses[0], addresses[1], "a future is not moved");
        assert_eq!(addresses[0] % align_of::<F>(), 0);
    }
    let waker = slot.lock().unwrap().take().expect("left by the last poll");
    let header = header(&waker);
    // SAFETY: the waker keeps the task there.
    let offset = unsafe { header.as_ref() }.table.outcome;
    assert_eq!((header.addr().get() + offset) % align_of::<T>(), 0);
    drop(waker);
    join(handle).unwrap()
}

#[repr(align(64))]
struct Wide(u8);

#[repr(align(32))]
#[derive(Debug, PartialEq)]
struct Row([u64; 32]);

#[test]
fn future_and_result_are_aligned_as_they_ask_for() {
    assert_eq!(check_place(Wide(3), |wide| wide.0), 3);
    assert_eq!(check_place((), |()| Row([9; 32])), Row([9; 32]));
    assert_eq!(check_place(Wide(4), |wide| Row([wide.0.into(); 32])), Row([4; 32]));
    assert_eq!(check_place(5_u8, |byte| Wide(*byte)).0, 5);
}

#[test]
fn a_large_future_keeps_its_content_and_leaves_a_large_result() {
    let content: [u64; 2048] = std::array::from_fn(|i| i as u64);
    assert_eq!(check_place(content, |content| content.iter().sum::<u64>()), 2047 * 1024);
    assert!(check_place(content, |content| *content) == content);
}

#[test]
fn a_future_without_a_size_runs_to_its_end_or_is_dropped() {
    let still = still();
    let future = || poll_fn(|_| Poll::Ready(()));
    assert_eq!(size_of_val(&future()), 0);
    let (runnable, handle) = allocate(&still, future());
    assert!(runnable.run().again().is_none());
    join(handle).unwrap();
    let (runnable, handle) = allocate(&still, future());
    drop(runnable);
    assert!(join(handle).unwrap_err().is_cancelled());
}

#[test]
fn a_task_whose_wakers_are_gone_runs_once_more_and_is_dropped() {
    for joined in [false, true] {
        let (still, slot) = (still(), Arc::<Mutex<Vec<Waker>>>::default());
        let polls = Log::default();
        let (log, wakers) = (polls.clone(), slot.clone());
        let (runnable, handle) = allocate(
            &still,
            poll_fn(move |cx| {
                note(&log, ());
                if log.lock().unwrap().len() == 1 {
                    wakers.lock().unwrap().extend([cx.waker().clone(), cx.waker().clone()]);
                }
                Poll::<()>::Pending
            }),
        );
        let abort = runnable.meta().abort_cell();
        let handle = joined.then_some(handle);
        assert!(runnable.run().again().is_none());
        // The registry's goes first.
        assert!(still.shared.registry.wake_all());
        assert!(take_queued(&still.shared).pop().expect("woken").run().again().is_none());
        let mut wakers = std::mem::take(&mut *slot.lock().unwrap());
        wakers.pop();
        assert!(take_queued(&still.shared).is_empty(), "there is another waker");
        wakers.pop();
        let runnable = take_queued(&still.shared).pop().expect("the last waker queues it");
        assert!(runnable.run().again().is_none());
        assert_eq!(polls.lock().unwrap().len(), 3);
        if let Some(handle) = handle {
            assert!(join(handle).unwrap_err().is_cancelled());
        }
        assert!(is_freed(&abort));
    }
}
