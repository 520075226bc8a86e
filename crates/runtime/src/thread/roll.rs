//! The roll: which user-level threads there are.
//!
//! Each has a *place* from when it is spawned until it has ended, or, if it never began, its closure was dropped, and writes there who it is, and who has begun to run it. A
//! place is 16 bytes that stay where they are as long as the scheduler does, so whoever makes a list reads them without a lock, and whose
//! it is knows it by its address.
//! Free places travel in batches: a worker keeps some for what it spawns, and those of the threads that end on it; a lock is
//! taken once in 64 threads.
//!
//! # Theorem R: a place is read whole
//!
//! *A reader that sees the same id before and after it has read the owner has read the owner of that thread.* Who takes over a place
//! has it from the one before by way of its worker or of the lock. The steps are (a) `id` = 0, by the one before, (b) `owner` = nobody,
//! (c) `id`, and (d) `owner`. All but (a) are Release, all loads of the reader but the last one Acquire. (a) happens before (b) by the
//! way that the place takes, and needs to hand over nothing itself: who sees a free place reads nothing of it. A reader that meets
//! the owner of a later thread has therefore (a) behind it, and its second look finds another id than its first.
//!
//! Names are kept apart, by id, under locks that only threads with a name take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::OnceLock;

use quadrille_policy::WorkerId;

use crate::primitives::{AtomicU32, AtomicU64, MutexGuard, Ordering};
use crate::stress::Mutex;
use crate::task::Id;

/// Places of the first sheet; each sheet has twice as many as the one before. A model makes them all each time.
const FIRST: u32 = if cfg!(quadrille_loom) { 2 } else { 64 };

/// As many as a number of 32 bits has room for.
const SHEETS: usize = 26;

/// Numbers below this have a place.
const END: u32 = u32::MAX - FIRST + 1;

/// Places that travel at a time.
const BATCH: usize = if cfg!(quadrille_loom) { 1 } else { 64 };

const NAME_SHARDS: usize = 8;

/// No worker has begun to run the thread.
const NOBODY: u32 = u32::MAX;

/// A thread's entry.
#[derive(Debug)]
struct Place {
    /// The thread; zero: free.
    id: AtomicU64,
    /// The worker that has begun to run it, or [`NOBODY`].
    owner: AtomicU32,
}

/// A place of a roll, which outlives whoever has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(NonNull<Place>);

// SAFETY: a `Place` is read and written through atomics.
unsafe impl Send for At {}
// SAFETY: as above.
unsafe impl Sync for At {}

impl At {
    /// # Safety
    /// The roll is there for as long as the answer is used.
    unsafe fn place<'roll>(self) -> &'roll Place {
        // SAFETY: places stay where they are as long as their roll is there.
        unsafe { self.0.as_ref() }
    }
}

/// Free places that a worker keeps for itself.
#[derive(Debug, Default)]
pub(crate) struct Places(RefCell<Vec<At>>);

/// Free places that nobody keeps.
#[derive(Debug)]
struct Spare {
    free: Vec<At>,
    /// Number of the next place to be made. They begin with one.
    next: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Roll {
    sheets: [OnceLock<Box<[Place]>>; SHEETS],
    spare: Mutex<Spare>,
    names: [Mutex<HashMap<u64, Box<str>>>; NAME_SHARDS],
}

impl Roll {
    pub(crate) fn new() -> Self {
        Self {
            sheets: [const { OnceLock::new() }; SHEETS],
            spare: Mutex::new(Spare {
                free: Vec::new(),
                next: 1,
            }),
            names: std::array::from_fn(|_| Mutex::new(HashMap::new())),
        }
    }

    /// Enters a thread that is spawned by the worker with these places, or by nobody's.
    ///
    /// # Safety
    /// The places are used with this roll alone, and not after it is gone.
    #[inline]
    pub(super) unsafe fn enter(&self, places: Option<&Places>, id: Id, name: Option<&str>) -> At {
        if let Some(name) = name {
            self.names_of(id).insert(id.number(), name.into());
        }
        let at = match places {
            Some(places) => {
                let mut free = places.0.borrow_mut();
                if free.is_empty() {
                    self.take_spare(BATCH, &mut free);
                }
                free.pop().expect("a batch is not empty")
            }
            None => {
                let mut one = Vec::new();
                self.take_spare(1, &mut one);
                one[0]
            }
        };
        // SAFETY: a place of ours: it came from `places`, by the contract, or from `spare`.
        let place = unsafe { at.place() };
        // Ordering: Release; (R b), against the Acquire loads in `read`.
        place.owner.store(NOBODY, Ordering::Release);
        // Ordering: Release; (R c), against the same.
        place.id.store(id.number(), Ordering::Release);
        at
    }

    /// `worker` begins to run the thread that has this place of ours.
    ///
    /// # Safety
    /// The place is the thread's, from `enter`, and its roll is there.
    #[inline]
    pub(super) unsafe fn begins(&self, at: At, worker: WorkerId) {
        // SAFETY: a place of ours.
        let place = unsafe { at.place() };
        // Ordering: Release; (R d), against the Acquire loads in `read`.
        place.owner.store(u32::from(worker.0), Ordering::Release);
    }

    /// The thread that has this place has ended, on the worker with these places, or on nobody's.
    ///
    /// # Safety
    /// The place is the thread's, from `enter` of this roll, and not any more after this. The places are as there.
    #[inline]
    pub(super) unsafe fn leave(&self, places: Option<&Places>, at: At, id: Id, has_name: bool) {
        // SAFETY: a place of ours.
        let place = unsafe { at.place() };
        // Ordering: Relaxed; (R a) happens before (R b) by the place's way to its next thread, through `places` or the lock.
        place.id.store(0, Ordering::Relaxed);
        if has_name {
            self.names_of(id).remove(&id.number());
        }
        match places {
            Some(places) => {
                let mut free = places.0.borrow_mut();
                free.push(at);
                if free.len() == 2 * BATCH {
                    self.spare().free.extend(free.drain(..BATCH));
                }
            }
            None => self.spare().free.push(at),
        }
    }

    /// Calls `f` with the id of every thread, and the worker that has begun to run it.
    pub(super) fn read(&self, mut f: impl FnMut(u64, Option<WorkerId>)) {
        for place in self.sheets.iter().map_while(OnceLock::get).flatten() {
            // Ordering: Acquire; (R) pairs with (R c), and comes before the next load.
            let id = place.id.load(Ordering::Acquire);
            // Ordering: Acquire; (R) pairs with (R b) and (R d), and comes before the next load.
            let owner = place.owner.load(Ordering::Acquire);
            // Ordering: Relaxed; what it must not miss, (R a), happens before if the owner was a later one's.
            if id != 0 && place.id.load(Ordering::Relaxed) == id {
                f(id, u16::try_from(owner).ok().map(WorkerId));
            }
        }
    }

    /// The name of a thread that has one and has not ended.
    pub(super) fn name(&self, id: Id) -> Option<String> {
        self.names_of(id).get(&id.number()).map(|name| name.to_string())
    }

    /// Moves `count` free places into `free`, made if need be.
    #[cold]
    fn take_spare(&self, count: usize, free: &mut Vec<At>) {
        let mut spare = self.spare();
        let kept = spare.free.len().saturating_sub(count);
        free.extend(spare.free.drain(kept..));
        while free.len() < count {
            let number = spare.next;
            assert!(number < END, "fewer than 2^32 - 64 threads at a time");
            let (sheet, index) = split(number);
            // Under the lock: its first place is the only one for which it is not there.
            let sheet = self.sheets[sheet].get_or_init(|| {
                let place = || Place {
                    id: AtomicU64::new(0),
                    owner: AtomicU32::new(NOBODY),
                };
                (0..FIRST << sheet).map(|_| place()).collect()
            });
            spare.next = number + 1;
            free.push(At(NonNull::from(&sheet[index])));
        }
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().expect("nothing panics under this lock")
    }

    fn names_of(&self, id: Id) -> MutexGuard<'_, HashMap<u64, Box<str>>> {
        let shard = id.number() % NAME_SHARDS as u64;
        let shard = &self.names[usize::try_from(shard).expect("below 8")];
        shard.lock().expect("nothing panics under this lock")
    }
}

/// The sheet of a place, and its index there.
fn split(number: u32) -> (usize, usize) {
    let sheet = (number / FIRST + 1).ilog2();
    // On the sheets before; no more than `number`, and so less than 2^32.
    let before = (FIRST << sheet) - FIRST;
    (sheet as usize, (number - before) as usize)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    fn listed(roll: &Roll) -> Vec<(u64, Option<u16>)> {
        let mut all = Vec::new();
        roll.read(|id, owner| all.push((id, owner.map(|owner| owner.0))));
        all.sort_unstable();
        all
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(split(number), expected);
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(split(END - 1), (SHEETS - 1, (1 << 31) - 1));
    }

    #[test]
    fn a_thread_is_listed_from_its_entry_to_its_end() {
        let (roll, places) = (Roll::new(), Places::default());
        let (a, b) = (Id::next(), Id::next());
        // SAFETY: `places` is for this roll.
        let here = unsafe { roll.enter(Some(&places), a, Some("a")) };
        // SAFETY: without places.
        let foreign = unsafe { roll.enter(None, b, None) };
        assert_eq!(listed(&roll), [(a.number(), None), (b.number(), None)]);
        // SAFETY: its place, here.
        unsafe { roll.begins(foreign, WorkerId(3)) };
        assert_eq!(listed(&roll), [(a.number(), None), (b.number(), Some(3))]);
        assert_eq!((roll.name(a).as_deref(), roll.name(b)), (Some("a"), None));
        // SAFETY: as above.
        unsafe { roll.leave(None, here, a, true) };
        assert_eq!(listed(&roll), [(b.number(), Some(3))]);
        assert_eq!(roll.name(a), None);
        // SAFETY: as above.
        unsafe { roll.leave(Some(&places), foreign, b, false) };
        assert_eq!(listed(&roll), []);
    }

    #[test]
    fn places_are_used_again_by_whomever_they_end_with() {
        let (roll, spawner, runner) = (Roll::new(), Places::default(), Places::default());
        for _ in 0..100 {
            let ids: Vec<Id> = (0..1000).map(|_| Id::next()).collect();
            // SAFETY: both are for this roll.
            let enter = |id: &Id| unsafe { roll.enter(Some(&spawner), *id, None) };
            let places: Vec<At> = ids.iter().map(enter).collect();
            assert_eq!(listed(&roll).len(), 1000);
            for (id, at) in ids.iter().zip(places) {
                // SAFETY: its place, here.
                unsafe { roll.leave(Some(&runner), at, *id, false) };
            }
        }
        assert!(listed(&roll).is_empty());
        let made = roll.spare().next as usize - 1;
        assert!(made <= 1000 + 3 * BATCH, "{made} places for 1000 threads at a time");
    }

    /// A reader never sees a thread with the owner of another one.
    #[test]
    fn a_place_is_read_whole() {
        let roll = Roll::new();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let places = Places::default();
                for _ in 0..200_000 {
                    let id = Id::next();
                    // SAFETY: `places` is for this roll.
                    let at = unsafe { roll.enter(Some(&places), id, None) };
                    // SAFETY: its place, here.
                    unsafe { roll.begins(at, WorkerId(u16::try_from(id.number() % 1000).unwrap())) };
                    // SAFETY: as above.
                    unsafe { roll.leave(Some(&places), at, id, false) };
                }
                // Ordering: Relaxed; it ends the other loop some time.
                stop.store(true, Ordering::Relaxed);
            });
            // Ordering: Relaxed; as above.
            while !stop.load(Ordering::Relaxed) {
                roll.read(|id, owner| {
                    assert!(owner.is_none_or(|owner| u64::from(owner.0) == id % 1000));
                });
            }
        });
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use std::sync::Arc;

    use super::*;

    /// One place, and three threads after one another, the first of which has begun. A reader never sees one with the owner of
    /// another, nor the first with none.
    #[test]
    fn r_a_place_is_read_whole() {
        ::loom::model(|| {
            let roll = Arc::new(Roll::new());
            let places = Places::default();
            // SAFETY: `places` is for this roll.
            let first = unsafe { roll.enter(Some(&places), Id::from_number(100), None) };
            // SAFETY: its place, here.
            unsafe { roll.begins(first, WorkerId(100)) };
            let other = roll.clone();
            let reader = ::loom::thread::spawn(move || {
                other.read(|id, owner| {
                    let owner = owner.map_or(0, |owner| u64::from(owner.0));
                    assert!(owner == id || (owner == 0 && id > 100), "thread {id} of {owner}");
                });
            });
            for id in [200_u16, 300] {
                // SAFETY: as above.
                unsafe { roll.leave(Some(&places), first, Id::from_number(u64::from(id) - 100), false) };
                // SAFETY: as above.
                let again = unsafe { roll.enter(Some(&places), Id::from_number(u64::from(id)), None) };
                assert_eq!(again.0, first.0);
                // SAFETY: as above.
                unsafe { roll.begins(again, WorkerId(id)) };
            }
            reader.join().unwrap();
        });
    }
}
