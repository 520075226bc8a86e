//! The roll: which user-level threads there are.
//!
//! Each says so in a *place*, 32 bytes before the header of its task: who it is, from when it is spawned, and who has
//! begun to run it, until it has ended, or, if it never began, its closure was dropped. Who spawns it and who runs it
//! write its header anyway, and so have the place, or the line before, in their caches. A list apart from the threads
//! takes a line from one to the other and back for each of them (DESIGN.md, "What does a switch between threads cost").
//!
//! Memory that has places is known to the *register* from when it comes from the allocator until it goes back there,
//! whosever it is meanwhile (`task::cell::spare` keeps it for the next thread). Whoever makes a list looks at all of
//! it, 1,024 places at a time, under the register's lock, so that none goes away meanwhile. Threads don't take that
//! lock, but for those whose memory comes from the allocator or goes back: beyond what is kept, when that is trimmed,
//! when an OS thread ends, and always where it is more than 1 KiB or aligned to more than 16 bytes.
//!
//! # Theorem R: a place is read whole
//!
//! *A reader that sees the same id before and after it has read owner and scheduler has read those of that thread.* Who
//! takes over a place has it from the one before by way of the memory it is in. The steps are (a) `id` = 0, by the one
//! before, (b) `owner` = nobody and `scheduler`, (c) `id`, and (d) `owner`. All but (a) are Release, all loads of the
//! reader but the last one Acquire. (a) happens before (b) by the way that the memory takes, and needs to hand over
//! nothing itself: who sees a free place uses nothing of it. A reader that meets the owner or the scheduler of a later
//! thread has therefore (a) behind it, and its second look finds another id than its first.
//!
//! *A scheduler's address is that of no other one's threads.* A thread leaves when its body is dropped, before its
//! scheduler goes (rule 4 of `task`). So (a) of every thread of a scheduler happens before another one has its address,
//! and before whoever has that one reads.
//!
//! Names are kept apart, by id, under locks that only threads with a name take.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{MutexGuard as StaticGuard, PoisonError};

use quadrille_policy::WorkerId;

use crate::primitives::{AtomicU32, AtomicU64, AtomicUsize, MutexGuard, Ordering};
use crate::sched::Shared;
use crate::stress::{Mutex, StaticMutex};
use crate::task::Id;

/// Where a thread says that it is there. What follows it is aligned as it is, to 16 bytes.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Place {
    /// The thread; zero: none.
    id: AtomicU64,
    /// The address of its scheduler, which is only compared: see the module.
    scheduler: AtomicUsize,
    /// The worker that has begun to run the thread, or [`NOBODY`].
    owner: AtomicU32,
    /// Where the register has it, as long as it does.
    number: u32,
}

#[cfg(not(quadrille_loom))]
const _: () = assert!(size_of::<Place>() == 32);

/// No worker has begun to run the thread.
const NOBODY: u32 = u32::MAX;

impl Place {
    fn new(number: u32) -> Self {
        Self {
            id: AtomicU64::new(0),
            scheduler: AtomicUsize::new(0),
            owner: AtomicU32::new(NOBODY),
            number,
        }
    }

    /// A thread of this scheduler is spawned, here.
    #[inline]
    pub(crate) fn enter(&self, scheduler: *const Shared, id: Id) {
        // Ordering: Release; (R b), against the Acquire loads in `read`.
        self.owner.store(NOBODY, Ordering::Release);
        // Ordering: Release; (R b), against the same.
        self.scheduler.store(scheduler.addr(), Ordering::Release);
        // Ordering: Release; (R c), against the same.
        self.id.store(id.number(), Ordering::Release);
    }

    /// `worker` begins to run it.
    #[inline]
    pub(super) fn begins(&self, worker: WorkerId) {
        // Ordering: Release; (R d), against the Acquire loads in `read`.
        self.owner.store(u32::from(worker.0), Ordering::Release);
    }

    /// It has ended.
    #[inline]
    pub(crate) fn leave(&self) {
        // Ordering: Relaxed; (R a) happens before (R b) by the way that the memory takes to its next thread.
        self.id.store(0, Ordering::Relaxed);
    }

    /// The id of the thread that is here, if it is one of this scheduler's, and the worker that has begun to run it.
    fn read(&self, scheduler: *const Shared) -> Option<(u64, Option<WorkerId>)> {
        // Ordering: Acquire; (R) pairs with (R c), and comes before the next loads.
        let id = self.id.load(Ordering::Acquire);
        // Ordering: Acquire; (R) pairs with (R b) and (R d), and comes before the last load.
        let owner = self.owner.load(Ordering::Acquire);
        // Ordering: Acquire; (R) pairs with (R b), and comes before the last load.
        let of = self.scheduler.load(Ordering::Acquire);
        // Ordering: Relaxed; what it must not miss, (R a), happens before if what was read was a later one's.
        let is_whole = id != 0 && self.id.load(Ordering::Relaxed) == id;
        (is_whole && of == scheduler.addr()).then(|| (id, u16::try_from(owner).ok().map(WorkerId)))
    }
}

/// All places of the process. A number is a place's as long as it is there. Room for as many as there ever were at a
/// time stays.
struct Register {
    places: Vec<Option<Known>>,
    free: Vec<u32>,
}

/// A place that is registered, by the complement of its address, at which there is nothing: what looks for lost memory
/// would take the address for a reference to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known(*mut Place);

impl Known {
    fn new(place: NonNull<Place>) -> Self {
        Self(place.as_ptr().map_addr(|address| !address))
    }

    fn place(self) -> *mut Place {
        self.0.map_addr(|address| !address)
    }
}

// SAFETY: a `Place` is read and written through atomics, but for its number, which is the register's; it is struck off
// under the register's lock before its memory goes.
unsafe impl Send for Register {}

static REGISTER: StaticMutex<Register> = StaticMutex::new(Register {
    places: Vec::new(),
    free: Vec::new(),
});

/// Places that are read at a time.
const AT_A_TIME: usize = 1024;

fn lock() -> StaticGuard<'static, Register> {
    // Whole whenever what needs memory is called.
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a place in memory that is new from the allocator.
///
/// # Safety
/// There is room for it, nobody else's, that stays until [`strike`].
pub(crate) unsafe fn register(place: NonNull<Place>) {
    let mut register = lock();
    let number = register.free.pop();
    let number = number.unwrap_or_else(|| {
        register.places.push(None);
        u32::try_from(register.places.len() - 1).expect("fewer than 2^32 threads at a time")
    });
    // SAFETY: by our contract.
    unsafe { place.write(Place::new(number)) };
    register.places[number as usize] = Some(Known::new(place));
}

/// Takes places off the register, whose memory goes back to the allocator.
///
/// # Safety
/// They were registered, no thread is there any more, and nobody uses them.
pub(crate) unsafe fn strike(places: impl Iterator<Item = NonNull<Place>>) {
    let mut register = lock();
    for place in places {
        // SAFETY: it is there until we return; readers wait for the lock.
        let Place { id, number, .. } = unsafe { place.as_ref() };
        // Ordering: Relaxed; the thread left before its memory came here.
        debug_assert_eq!(
            id.load(Ordering::Relaxed),
            0,
            "a thread leaves before its memory is freed"
        );
        let struck = register.places[*number as usize].take();
        debug_assert_eq!(struck, Some(Known::new(place)));
        register.free.push(*number);
    }
}

/// Calls `f` with the id of every thread of the scheduler, and the worker that has begun to run it.
pub(crate) fn read(scheduler: *const Shared, mut f: impl FnMut(u64, Option<WorkerId>)) {
    let mut found = Vec::with_capacity(AT_A_TIME);
    // Who was spawned before has a number below that.
    let end = lock().places.len();
    for begin in (0..end).step_by(AT_A_TIME) {
        let register = lock();
        // A thread that is there for as long as this takes has the same number all the time, and is met once.
        for known in register.places[begin..].iter().take(AT_A_TIME).flatten() {
            // SAFETY: who takes it off the register waits for the lock.
            found.extend(unsafe { &*known.place() }.read(scheduler));
        }
        drop(register);
        found.drain(..).for_each(|(id, owner)| f(id, owner));
    }
}

const NAME_SHARDS: usize = 8;

/// The names of a scheduler's threads that have one, by id.
#[derive(Debug)]
pub(crate) struct Names([Mutex<HashMap<u64, Box<str>>>; NAME_SHARDS]);

impl Names {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(HashMap::new())))
    }

    /// The thread is spawned.
    pub(crate) fn enter(&self, id: Id, name: &str) {
        self.shard(id).insert(id.number(), name.into());
    }

    /// It has ended.
    pub(crate) fn leave(&self, id: Id) {
        self.shard(id).remove(&id.number());
    }

    /// The name of a thread that has one and has not ended.
    pub(super) fn get(&self, id: Id) -> Option<String> {
        self.shard(id).get(&id.number()).map(|name| name.to_string())
    }

    fn shard(&self, id: Id) -> MutexGuard<'_, HashMap<u64, Box<str>>> {
        let shard = id.number() % NAME_SHARDS as u64;
        let shard = &self.0[usize::try_from(shard).expect("below 8")];
        shard.lock().expect("nothing panics under this lock")
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::ptr;

    use super::*;

    /// Schedulers that nobody looks into.
    fn scheduler(number: usize) -> *const Shared {
        ptr::without_provenance(number)
    }

    fn listed(scheduler: *const Shared) -> Vec<(u64, Option<u16>)> {
        let mut all = Vec::new();
        read(scheduler, |id, owner| all.push((id, owner.map(|owner| owner.0))));
        all.sort_unstable();
        all
    }

    /// Places in memory of their own, on the register.
    struct Registered(Vec<NonNull<Place>>);

    impl Registered {
        fn new(count: usize) -> Self {
            let place = |_| {
                let place = NonNull::from(Box::leak(Box::<Place>::new_uninit())).cast();
                // SAFETY: room for one, until `drop`.
                unsafe { register(place) };
                place
            };
            Self((0..count).map(place).collect())
        }

        fn at(&self, index: usize) -> &Place {
            // SAFETY: registered, and there until `drop`.
            unsafe { self.0[index].as_ref() }
        }
    }

    impl Drop for Registered {
        fn drop(&mut self) {
            for index in 0..self.0.len() {
                self.at(index).leave();
            }
            // SAFETY: registered once, and left just now; nobody uses them.
            unsafe { strike(self.0.iter().copied()) };
            for place in &self.0 {
                // SAFETY: from such a box; a place has nothing to drop.
                drop(unsafe { Box::from_raw(place.cast::<std::mem::MaybeUninit<Place>>().as_ptr()) });
            }
        }
    }

    #[test]
    fn a_thread_is_listed_from_its_entry_to_its_end() {
        let (places, of) = (Registered::new(2), scheduler(16));
        let (a, b) = (Id::next(), Id::next());
        places.at(0).enter(of, a);
        places.at(1).enter(of, b);
        assert_eq!(listed(of), [(a.number(), None), (b.number(), None)]);
        assert_eq!(listed(scheduler(32)), []);
        places.at(1).begins(WorkerId(3));
        assert_eq!(listed(of), [(a.number(), None), (b.number(), Some(3))]);
        places.at(0).leave();
        assert_eq!(listed(of), [(b.number(), Some(3))]);
        places.at(0).enter(scheduler(32), a);
        assert_eq!(listed(of), [(b.number(), Some(3))]);
        assert_eq!(listed(scheduler(32)), [(a.number(), None)]);
    }

    #[test]
    fn threads_are_listed_once_however_many_there_are() {
        let of = scheduler(48);
        let places = Registered::new(3 * AT_A_TIME);
        let ids: Vec<u64> = (0..3 * AT_A_TIME).map(|_| Id::next().number()).collect();
        for (index, id) in ids.iter().enumerate() {
            places.at(index).enter(of, Id::from_number(*id));
        }
        assert_eq!(listed(of).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ids);
    }

    #[test]
    fn numbers_of_places_that_are_gone_are_used_again() {
        let most = || lock().places.len();
        drop(Registered::new(1000));
        let before = most();
        for _ in 0..100 {
            drop(Registered::new(1000));
        }
        // Other tests make threads meanwhile.
        let more = most() - before;
        assert!(more < 50_000, "{more} numbers more for 1000 places at a time");
    }

    #[test]
    fn a_name_is_known_while_its_thread_is_there() {
        let (names, a, b) = (Names::new(), Id::next(), Id::next());
        names.enter(a, "a");
        assert_eq!((names.get(a).as_deref(), names.get(b)), (Some("a"), None));
        names.leave(a);
        assert_eq!(names.get(a), None);
    }

    /// A reader never sees a thread with the owner of another one.
    #[test]
    fn a_place_is_read_whole() {
        let place = &Place::new(0);
        let stop = &std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Ordering: Relaxed; it ends some time.
                while !stop.load(Ordering::Relaxed) {
                    let id = Id::next();
                    place.enter(scheduler(64), id);
                    place.begins(WorkerId(u16::try_from(id.number() % 1000).unwrap()));
                    place.leave();
                }
            });
            let mut owned = 0;
            while owned < 10_000 {
                if let Some((id, Some(owner))) = place.read(scheduler(64)) {
                    assert_eq!(u64::from(owner.0), id % 1000);
                    owned += 1;
                }
            }
            // Ordering: Relaxed; as above.
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use std::ptr;
    use std::sync::Arc;

    use super::*;

    /// In one place three threads after one another, the first of which has begun, and the second is another
    /// scheduler's. A reader never sees one with the owner of another, nor the first with none, nor the second.
    #[test]
    fn r_a_place_is_read_whole() {
        ::loom::model(|| {
            let place = Arc::new(Place::new(0));
            place.enter(ptr::without_provenance(16), Id::from_number(100));
            place.begins(WorkerId(100));
            let other = place.clone();
            let reader = ::loom::thread::spawn(move || {
                if let Some((id, owner)) = other.read(ptr::without_provenance(16)) {
                    let owner = owner.map_or(0, |owner| u64::from(owner.0));
                    assert!(id != 200, "a thread of another scheduler");
                    assert!(owner == id || (owner == 0 && id == 300), "thread {id} of {owner}");
                }
            });
            for (id, scheduler) in [(200_u16, 32), (300, 16)] {
                place.leave();
                place.enter(ptr::without_provenance(scheduler), Id::from_number(u64::from(id)));
                place.begins(WorkerId(id));
            }
            reader.join().unwrap();
        });
    }
}
