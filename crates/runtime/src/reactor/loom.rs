//! (L e) and (L f): sources.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as StdU32, Ordering as StdOrdering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread::spawn;

use super::readiness::Side;
use super::shard::{Catch, Polled, Shard};
use super::slab::Slab;
use super::source::{Source, WaiterId};
use super::{Interests, Registration, Tick};
use crate::primitives::{AtomicBool, Ordering, UnsafeCell};
use crate::sys::poller::Event;

/// Runs `f` in all interleavings with at most three switches away from a thread that could go on.
fn check(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

const READABLE: Event = Event {
    key: 0,
    readable: true,
    writable: false,
    ended: false,
};

/// Counts how often it is woken. Not the model's business, hence not loom's type.
#[derive(Default)]
struct Count(StdU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, StdOrdering::SeqCst);
    }
}

/// A waker, and how often it was called.
fn counted() -> (Waker, Arc<Count>) {
    let count = Arc::new(Count::default());
    (Waker::from(count.clone()), count)
}

fn poll(source: &Source, waker: &Waker) -> Poll<Tick> {
    let mut waiter = Some(WaiterId::SHARED);
    let answer = source.poll(Side::Read, &mut waiter, false, &mut Context::from_waker(waker));
    answer.map(|tick| tick.expect("it is not closed"))
}

/// As the holder does: true if the event is somebody's.
fn event(source: &Source, generation: u32) -> bool {
    let mut wakers = Vec::new();
    let is_somebodys = source.set_ready(generation, &READABLE, &mut wakers);
    wakers.into_iter().for_each(Waker::wake);
    is_somebodys
}

/// An event while somebody begins to wait: the side is seen to be ready, or the waiter is woken.
#[test]
fn l_waiting_or_ready() {
    check(|| {
        let source = Arc::new(Source::new());
        let holder = source.clone();
        let thread = spawn(move || event(&holder, 0));
        let (waker, woken) = counted();
        let answer = poll(&source, &waker);
        assert!(thread.join().unwrap());
        assert_eq!(answer.is_pending(), woken.0.load(StdOrdering::SeqCst) == 1);
        assert!(poll(&source, &waker).is_ready());
    });
}

/// What the holder of the poll, or who closes, has done before comes before whatever is done by one who learns of it,
/// in each of the ways to do so.
#[test]
fn l_who_learns_of_an_event_sees_what_came_before() {
    let looks: [fn(&Source, Tick) -> bool; 5] = [
        |source, _| poll(source, Waker::noop()).is_ready(),
        |source, _| source.tick_at_once(Side::Read).is_some(),
        |source, before| source.tick(Side::Read) != before,
        |source, _| source.has_ended(Side::Read),
        |source, _| source.is_closed(),
    ];
    for (closes, look) in looks.into_iter().enumerate().map(|(at, look)| (at == 4, look)) {
        check(move || {
            let shared = Arc::new((Source::new(), UnsafeCell::new(false)));
            let source = &shared.0;
            // Nothing is there, and that is known.
            assert!(event(source, 0));
            let before = source.tick(Side::Read);
            source.clear(Side::Read, before);
            let other = shared.clone();
            let thread = spawn(move || {
                if look(&other.0, before) {
                    // SAFETY: after that, which is what this test is about.
                    assert!(other.1.with(|done| unsafe { *done }));
                }
            });
            // SAFETY: nobody else uses it before he learns of what follows.
            shared.1.with_mut(|done| unsafe { *done = true });
            if closes {
                source.close(&mut Vec::new());
            } else {
                let end = Event {
                    ended: true,
                    ..READABLE
                };
                assert!(source.set_ready(0, &end, &mut Vec::new()));
            }
            thread.join().unwrap();
        });
    }
}

/// Data and its event come while a reader that was told of older data finds nothing: it does not wait for ever.
#[test]
fn l_nothing_there_keeps_a_newer_event() {
    check(|| {
        let source = Arc::new(Source::new());
        assert!(event(&source, 0));
        let data = Arc::new(AtomicBool::new(false));
        let (holder, kernel) = (source.clone(), data.clone());
        let thread = spawn(move || {
            kernel.store(true, Ordering::SeqCst);
            event(&holder, 0)
        });
        let (waker, woken) = counted();
        let Poll::Ready(tick) = poll(&source, &waker) else {
            unreachable!("an event came before")
        };
        // The attempt. The kernel has an order of its own.
        if !data.load(Ordering::SeqCst) {
            source.clear(Side::Read, tick);
        }
        let waits = poll(&source, &waker).is_pending();
        assert!(thread.join().unwrap());
        assert!(
            !waits || woken.0.load(StdOrdering::SeqCst) > 0,
            "data, and nobody hears of it"
        );
        assert!(poll(&source, &waker).is_ready());
    });
}

/// The owner ends the side, which is an event that it makes itself, beside one of the holder's: who waits is woken
/// once, and neither is lost to who was told of the other and finds nothing.
#[test]
fn l_an_event_of_the_owner_beside_one_of_the_holder() {
    check(|| {
        let source = Arc::new(Source::new());
        let (waker, woken) = counted();
        assert!(poll(&source, &waker).is_pending());
        let holder = source.clone();
        let thread = spawn(move || event(&holder, 0));
        assert!(event(&source, 0));
        assert!(thread.join().unwrap());
        assert_eq!(woken.0.load(StdOrdering::SeqCst), 1);
        let after_two = Source::new();
        assert!(event(&after_two, 0) && event(&after_two, 0));
        assert_eq!(poll(&source, &waker), Poll::Ready(after_two.tick(Side::Read)));
    });
}

/// An event of an owner that goes away meanwhile: whoever has the place next is not told.
#[test]
fn l_a_late_event_is_nobodys() {
    check(|| {
        let source = Arc::new(Source::new());
        let (old, heard) = counted();
        assert!(poll(&source, &old).is_pending());
        let holder = source.clone();
        let thread = spawn(move || event(&holder, 0));
        drop(source.release());
        let (waker, woken) = counted();
        assert!(poll(&source, &waker).is_pending(), "the new owner's is not ready");
        let _was_in_time = thread.join().unwrap();
        assert!(heard.0.load(StdOrdering::SeqCst) <= 1);
        assert_eq!(woken.0.load(StdOrdering::SeqCst), 0, "another's event");
        assert!(poll(&source, &waker).is_pending());
        assert!(event(&source, source.generation()));
        assert_eq!(woken.0.load(StdOrdering::SeqCst), 1, "and its waiter is there");
    });
}

/// Two wait for room, of which the kernel is asked when the first does, beside what makes it: both are told.
#[test]
fn l_who_waits_for_room_is_told() {
    check(|| {
        let shard = Arc::new(Shard::new());
        let registration = Registration::new(&shard, std::io::stdin().as_fd(), Interests::ReadFirst).unwrap();
        let (registration, other) = (Arc::new(registration), shard.clone());
        let room = Event {
            key: registration.key(),
            readable: false,
            writable: true,
            ended: false,
        };
        let wait = |registration: &Registration| {
            let (waker, woken) = counted();
            let input = std::io::stdin();
            // Its waiter stays until it is told.
            let mut ready = ManuallyDrop::new(registration.ready(input.as_fd(), Side::Write, false));
            assert!(
                Pin::new(&mut *ready)
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            woken
        };
        let makes = spawn(move || other.modelled().fire(room));
        let waits = {
            let registration = registration.clone();
            spawn(move || wait(&registration))
        };
        let woken = [wait(&registration), waits.join().unwrap()];
        makes.join().unwrap();
        let mut catch = Catch::new();
        let duty = shard.try_hold(0).expect("nobody has it");
        let polled = duty.poll(&mut catch, Some(Duration::ZERO), || 0);
        assert!(matches!(polled, Polled::Events(_)), "{polled:?}");
        catch.wakers.into_iter().for_each(Waker::wake);
        assert_eq!(woken.map(|count| count.0.load(StdOrdering::SeqCst)), [1, 1]);
    });
}

/// A source that is registered while the shard is closed: it is refused, or closed.
#[test]
fn l_registered_or_refused() {
    check(|| {
        let shard = Arc::new(Shard::new());
        // The first has the page to itself, the second is one of two on the next, whose other place was never used: so
        // many are there is what the closer may read too early. The pages are made here: loom does not see that their
        // lock hands them over.
        let _held = [(); 2].map(|()| Registration::new(&shard, std::io::stdin().as_fd(), Interests::Both));
        let other = shard.clone();
        let thread = spawn(move || Registration::new(&other, std::io::stdin().as_fd(), Interests::Both));
        let mut wakers = Vec::new();
        shard.close(&mut wakers);
        if let Ok(registration) = thread.join().unwrap() {
            let answer = registration.poll_ready(
                std::io::stdin().as_fd(),
                Side::Read,
                false,
                &mut Context::from_waker(Waker::noop()),
            );
            assert!(matches!(answer, Poll::Ready(Err(_))), "it would wait for ever");
        }
    });
}

/// Two threads take places, and one of them gives one back: they never have the same.
#[test]
fn l_a_place_has_one_owner() {
    let takes = |slab: &Slab| slab.take().unwrap();
    let changes = |slab: &Slab| {
        let [first, second] = [slab.take().unwrap(), slab.take().unwrap()];
        slab.put_back(first);
        second
    };
    for changes_here in [false, true] {
        check(move || {
            let slab = Arc::new(Slab::new());
            let before = [slab.take().unwrap(), slab.take().unwrap()];
            before.into_iter().for_each(|index| slab.put_back(index));
            let other = slab.clone();
            let thread = spawn(move || if changes_here { takes(&other) } else { changes(&other) });
            let mine = if changes_here { changes(&slab) } else { takes(&slab) };
            let theirs = thread.join().unwrap();
            // What lies below is wrong, if anything is.
            let next = slab.take().unwrap();
            assert!(mine != theirs && next != theirs && next != mine, "two owners");
        });
    }
}

/// A place is taken by one while another gives it back: the new owner knows what its events must carry.
#[test]
fn l_a_new_owner_knows_its_events() {
    check(|| {
        let slab = Arc::new(Slab::new());
        // Two: so that a page is there for who finds no free place.
        let [index, _last] = [(); 2].map(|()| slab.take().unwrap());
        let other = slab.clone();
        let thread = spawn(move || {
            let mine = other.get(other.take().unwrap()).unwrap();
            assert!(event(mine, mine.generation()), "nobody's event");
        });
        drop(slab.get(index).unwrap().release());
        slab.put_back(index);
        thread.join().unwrap();
    });
}
