//! A ring alone: what the kernel is asked, and what is done under the locks.

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::task::{RawWaker, RawWakerVTable};
use std::thread;
use std::time::Duration;

use super::*;
use crate::skipped::skipped;
use crate::sys::ring::{CANCELLED, Recv};

/// A ring. `None` where the kernel refuses; that it doesn't where it need not, `tests/uring/` asks.
fn ring() -> Option<Ring> {
    Ring::probed().map_err(|error| skipped(&error.to_string())).ok()
}

/// A read from a socket that is never written to.
fn recv() -> (Recv, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let fd = Arc::new(OwnedFd::from(ours));
    let buffer = Vec::with_capacity(16);
    (Recv { fd, buffer }, theirs)
}

/// Takes what is queued as handed over, though it never comes to the kernel; what its result would carry.
fn lose(ring: &Ring) -> u64 {
    let mut lost = 0;
    let _left = ring.inner().slots.hand_over(|_, data| {
        lost = data;
        true
    });
    lost
}

/// The kernel has put a read back when it is asked to cancel, and finds nothing; then it waits again. Here it comes to
/// the kernel only then.
#[test]
fn what_was_not_found_when_its_future_went_is_cancelled_again() {
    let Some(ring) = ring() else { return };
    let (mut request, _theirs) = recv();
    let entry = request.entry();
    let begun = ring.begin(Entry::nothing(), Waker::noop().clone(), None).unwrap();
    let flying = lose(&ring);
    let left = ring.inner().slots.leave(begun.slot, || Box::new(Kept(request)));
    assert!(matches!(left, Left::Orphan(data, _) if data == flying));
    let mut wakers = Vec::new();
    let mut pauses = 0;
    ring.cancel_orphan(flying, CANCELLATIONS_MAX, &mut wakers, |_| {
        pauses += 1;
        if pauses == 3 {
            let mut submissions = ring.submissions();
            // SAFETY: the request is kept until its result was taken out, as ever.
            assert!(unsafe { submissions.push(&entry, flying) });
            ring.enter(&mut submissions, &mut Vec::new());
        }
    });
    wake_each(&mut wakers);
    assert_eq!((pauses, ring.inner().slots.flying()), (3, 0));
}

/// As above, but it never comes: whoever drops the future goes on.
#[test]
fn what_is_never_found_keeps_nobody() {
    let Some(ring) = ring() else { return };
    let begun = ring.begin(Entry::nothing(), Waker::noop().clone(), None).unwrap();
    lose(&ring);
    ring.leave(begun.slot, recv().0);
    assert_eq!(ring.inner().slots.flying(), 1);
}

/// The first request to cancel, that of who closes, comes too early.
#[test]
fn whoever_drains_asks_again_to_cancel() {
    let Some(ring) = ring() else { return };
    let ring = Arc::new(ring);
    let (mut request, _theirs) = recv();
    let begun = ring.begin(request.entry(), Waker::noop().clone(), None).unwrap();
    ring.submit(&mut Vec::new());
    ring.inner().is_closed = true;
    let (done, is_done) = channel();
    let drains = Arc::clone(&ring);
    let thread = thread::spawn(move || {
        drains.drain(&mut Vec::new());
        done.send(()).unwrap();
    });
    let limit = Duration::from_secs(30);
    is_done.recv_timeout(limit).expect("it waits for what nobody ends");
    thread.join().unwrap();
    assert_eq!(ring.poll(begun.slot, Waker::noop()), Poll::Ready(CANCELLED));
}

/// A stranger that ends would take it along.
#[test]
fn what_is_queued_is_not_handed_over_by_who_begins_something_else() {
    let Some(ring) = ring() else { return };
    let nothing = || (Entry::nothing(), Waker::noop().clone());
    let (entry, waker) = nothing();
    let queued = ring.begin(entry, waker, None).unwrap().slot;
    let (entry, waker) = nothing();
    let mut wakers = Vec::new();
    let other = ring.begin_now(&entry, waker, None, &mut wakers).unwrap();
    ring.reap(&mut wakers);
    assert_eq!(ring.poll(other, Waker::noop()), Poll::Ready(0));
    assert!(ring.has_queued());
    ring.submit(&mut wakers);
    ring.reap(&mut wakers);
    assert_eq!(ring.poll(queued, Waker::noop()), Poll::Ready(0));
}

/// Says whenever it is cloned or dropped whether the lock of its ring was free.
struct Looks {
    ring: Arc<Ring>,
    was_free: Arc<Mutex<Vec<bool>>>,
}

impl Looks {
    fn look(&self) {
        let is_free = self.ring.inner.try_lock().is_ok();
        self.was_free.lock().unwrap().push(is_free);
    }

    fn waker(self) -> Waker {
        let data = Arc::into_raw(Arc::new(self));
        // SAFETY: the functions of the table take the pointer for that of an `Arc` of this, one reference a waker, as
        // it is. It may go from thread to thread.
        unsafe { Waker::from_raw(RawWaker::new(data.cast(), &TABLE)) }
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_it);

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: it is that of a waker, by the contract of the table, which keeps its reference.
    let looks = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Looks>()) });
    looks.look();
    RawWaker::new(Arc::into_raw(Arc::clone(&looks)).cast(), &TABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: passed on.
    unsafe { drop_it(data) }
}

unsafe fn wake_by_ref(_data: *const ()) {}

unsafe fn drop_it(data: *const ()) {
    // SAFETY: it is that of a waker which goes, by the contract of the table, and its reference with it.
    let looks = unsafe { Arc::from_raw(data.cast::<Looks>()) };
    looks.look();
}

#[test]
fn no_waker_is_cloned_or_dropped_under_the_lock() {
    let Some(ring) = ring() else { return };
    let ring = Arc::new(ring);
    let was_free = Arc::new(Mutex::new(Vec::new()));
    let waker = || {
        let (ring, was_free) = (Arc::clone(&ring), Arc::clone(&was_free));
        Looks { ring, was_free }.waker()
    };
    let begun = ring.begin(Entry::nothing(), waker(), None).unwrap();
    let other = waker();
    assert!(ring.poll(begun.slot, &other).is_pending());
    assert!(ring.poll(begun.slot, &other).is_pending());
    let mut wakers = Vec::new();
    ring.submit(&mut wakers);
    assert!(ring.poll(begun.slot, &waker()).is_pending());
    ring.reap(&mut wakers);
    wake_each(&mut wakers);
    assert_eq!(ring.poll(begun.slot, &other), Poll::Ready(0));
    drop(other);
    // Two were cloned, and five dropped.
    assert_eq!(*was_free.lock().unwrap(), [true; 7]);
}

/// A taker has read how many fly; then so much is handed over, and has ended, that there is no room for all results.
#[test]
fn what_ends_while_somebody_begins_to_look_is_found() {
    let Some(ring) = ring() else { return };
    let count = COMPLETIONS as usize + 1000;
    for _ in 0..count {
        let _begun = ring.begin(Entry::nothing(), Waker::noop().clone(), None).unwrap();
    }
    let mut wakers = Vec::new();
    ring.submit(&mut wakers);
    ring.flying.store(0, Ordering::Relaxed);
    // His look, and that of who comes for the event.
    ring.reap(&mut wakers);
    ring.reap(&mut wakers);
    assert_eq!(wakers.len(), count);
}
