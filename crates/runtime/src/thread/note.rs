//! Notes: what a suspended thread waits for, for whoever makes a list of threads.
//!
//! A note is part of a thread's [`Frame`](super::suspend::Frame), on its own stack: the thread writes it by relaxed
//! stores before and after it is suspended, and nobody else does. From its first suspension to its end a thread is also
//! on the [`Notes`] of its worker, under a lock that a thread takes twice in its life, and that a reader holds for a
//! few notes at a time. So while a reader has the lock, the threads whose notes it finds there can't leave their stacks
//! (theorem B: only they themselves take them off).

use std::ptr::{self, NonNull};

use super::ThreadId;
use super::list::{ThreadState, WaitsFor};
use crate::primitives::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::lock::Lock;
use crate::task::meta::READY;
use crate::task::{Id, Meta};

/// Notes that are read in one section.
const BATCH: usize = 64;

/// Why a thread is about to be suspended: a kind in the 4 highest bits, and an address or an id below. Zero: it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reason(u64);

impl Reason {
    const KIND_SHIFT: u32 = 60;
    const VALUE: u64 = (1 << Self::KIND_SHIFT) - 1;

    const NONE: Self = Self(0);
    /// A future of some type, which the note names beside.
    pub(crate) const FUTURE: Self = Self::kind(1);
    /// An unpark.
    pub(crate) const PARK: Self = Self::kind(2);
    /// Time.
    pub(crate) const SLEEP: Self = Self::kind(3);
    /// The threads of a scope.
    pub(crate) const SCOPE: Self = Self::kind(4);
    /// Its next turn.
    pub(crate) const TURN: Self = Self::kind(5);
    const LOCK: Self = Self::kind(6);
    const CONDVAR: Self = Self::kind(7);
    const BARRIER: Self = Self::kind(8);
    const CHANNEL: Self = Self::kind(9);
    const JOIN: Self = Self::kind(10);

    const fn kind(kind: u64) -> Self {
        Self(kind << Self::KIND_SHIFT)
    }

    fn with(self, value: u64) -> Self {
        Self(self.0 | (value & Self::VALUE))
    }

    fn at<T: ?Sized>(self, what: &T) -> Self {
        self.with(ptr::from_ref(what).addr() as u64)
    }

    /// This lock.
    pub(crate) fn lock<T: ?Sized>(lock: &T) -> Self {
        Self::LOCK.at(lock)
    }

    /// A notification of this condition.
    pub(crate) fn condvar<T: ?Sized>(condvar: &T) -> Self {
        Self::CONDVAR.at(condvar)
    }

    /// All who meet at this barrier.
    pub(crate) fn barrier<T: ?Sized>(barrier: &T) -> Self {
        Self::BARRIER.at(barrier)
    }

    /// A message, or room for one, in the channel at this address.
    pub(crate) fn channel(address: usize) -> Self {
        Self::CHANNEL.with(address as u64)
    }

    /// The end of this thread.
    pub(crate) fn join(id: Id) -> Self {
        Self::JOIN.with(id.number())
    }
}

/// A thread's note; written by the thread alone.
#[derive(Debug)]
pub(crate) struct Note {
    reason: AtomicU64,
    /// With [`Reason::FUTURE`], what names the future: a `fn() -> &'static str`. Null before the first.
    name: AtomicPtr<()>,
    meta: NonNull<Meta>,
}

impl Note {
    /// The note of the thread with this metadata, which outlives it.
    pub(super) fn new(meta: NonNull<Meta>) -> Self {
        Self {
            reason: AtomicU64::new(Reason::NONE.0),
            name: AtomicPtr::new(ptr::null_mut()),
            meta,
        }
    }

    /// The thread is about to be suspended while it waits for an `F`.
    #[inline]
    pub(super) fn waits<F: ?Sized>(&self, reason: Reason) {
        if reason == Reason::FUTURE {
            let name: fn() -> &'static str = std::any::type_name::<F>;
            // Ordering: Relaxed; any name ever stored can be called, and a stale one only misleads.
            self.name.store(name as *mut (), Ordering::Relaxed);
        }
        // Ordering: Relaxed; a snapshot for others.
        self.reason.store(reason.0, Ordering::Relaxed);
    }

    /// The thread goes on.
    #[inline]
    pub(super) fn goes_on(&self) {
        // Ordering: Relaxed; a snapshot for others.
        self.reason.store(Reason::NONE.0, Ordering::Relaxed);
    }

    /// The thread, and what it does, on worker `worker`.
    fn read(&self, worker: usize) -> (u64, ThreadState) {
        // SAFETY: the metadata outlives the thread's body (`new`), and so its note.
        let meta = unsafe { self.meta.as_ref() };
        // Ordering: Relaxed; a snapshot.
        let reason = self.reason.load(Ordering::Relaxed);
        let state = if reason == Reason::NONE.0 {
            ThreadState::Running { worker }
        } else if meta.has(READY) || reason == Reason::TURN.0 {
            ThreadState::Ready { worker }
        } else {
            ThreadState::Suspended {
                worker,
                waits_for: self.waits_for(reason),
            }
        };
        (meta.id.number(), state)
    }

    fn waits_for(&self, reason: u64) -> WaitsFor {
        let value = reason & Reason::VALUE;
        // Addresses are shown, never used.
        let address = usize::try_from(value).unwrap_or(usize::MAX);
        match Reason(reason & !Reason::VALUE) {
            Reason::PARK => WaitsFor::Unpark,
            Reason::SLEEP => WaitsFor::Time,
            Reason::SCOPE => WaitsFor::Scope,
            Reason::LOCK => WaitsFor::Lock(address),
            Reason::CONDVAR => WaitsFor::Condvar(address),
            Reason::BARRIER => WaitsFor::Barrier(address),
            Reason::CHANNEL => WaitsFor::Channel(address),
            Reason::JOIN => WaitsFor::Thread(ThreadId::of(Id::from_number(value))),
            _ => WaitsFor::Future(self.name()),
        }
    }

    fn name(&self) -> &'static str {
        // Ordering: Relaxed; a function is there from the start.
        let name = self.name.load(Ordering::Relaxed);
        if name.is_null() {
            return "?";
        }
        // SAFETY: not null, so `waits` has stored it, which makes it of such a function.
        let name = unsafe { std::mem::transmute::<*mut (), fn() -> &'static str>(name) };
        name()
    }
}

/// The notes of a worker's threads that were ever suspended and have not ended.
#[derive(Debug)]
pub(crate) struct Notes(Lock<Vec<Option<Entry>>>);

/// A note that stays where it is until it is struck off.
#[derive(Clone, Copy, Debug)]
struct Entry(NonNull<Note>);

// SAFETY: a `Note` is read and written through atomics, and its metadata is Sync. That it is there is `insert`'s
// contract.
unsafe impl Send for Entry {}

impl Notes {
    pub(crate) fn new() -> Self {
        Self(Lock::new(Vec::new()))
    }

    /// Enters a note under a number that no other has.
    ///
    /// # Safety
    /// The note stays where it is until [`remove`](Self::remove) is called with the number.
    pub(crate) unsafe fn insert(&self, number: usize, note: NonNull<Note>) {
        self.0.with(|notes| {
            if notes.len() <= number {
                notes.resize(number + 1, None);
            }
            notes[number] = Some(Entry(note));
        });
    }

    /// Strikes a note off. Nobody reads it afterwards.
    pub(crate) fn remove(&self, number: usize) {
        self.0.with(|notes| notes[number] = None);
    }

    /// Gives memory back: nobody is here.
    pub(crate) fn give_back(&self) {
        let old = self.0.with(std::mem::take);
        debug_assert!(old.iter().all(Option::is_none), "each was struck off");
    }

    /// Calls `f` with every thread whose note is here, on worker `worker`, and what it does.
    pub(super) fn read(&self, worker: usize, mut f: impl FnMut(u64, ThreadState)) {
        let mut begin = 0;
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            let more = self.0.with(|notes| {
                let end = notes.len().min(begin + BATCH);
                let listed = notes.get(begin..end).unwrap_or_default();
                batch.extend(listed.iter().flatten().map(|entry| {
                    // SAFETY: what is listed is there (`insert`), and can't be struck off while we have the lock.
                    unsafe { entry.0.as_ref() }.read(worker)
                }));
                begin = end;
                end < notes.len()
            });
            batch.into_iter().for_each(|(id, state)| f(id, state));
            if !more {
                return;
            }
        }
    }
}
