//! Task groups: tasks of which the user knows that they share data, or that they do not.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use quadrille_policy::SetId;

use super::JoinHandle;
use super::meta::Id;
use super::spawn::Options;
use crate::primitives::{AtomicU32, Ordering};
use crate::runtime::Handle;
use crate::sched::Shared;

/// Where the tasks of a [`TaskGroup`] should run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Locality {
    /// Behind one last-level cache, as far as they fit there: they share data (the default).
    #[default]
    Together,
    /// Behind a cache each, on different nodes first: each goes through data of its own, and needs cache and memory
    /// bandwidth more than neighbours.
    Spread,
}

/// Tasks that belong together: a coupling set with a name.
///
/// The scheduler prefers to run tasks that share data behind one last-level cache. By itself it takes a task that was
/// spawned from outside, and all that descends from it, for one such set, and learns which single tasks wake each
/// other. A group says it outright: for a pool of workers over one table, a pipeline, a shard of a server.
///
/// It is a hint about *where*: a group is never a reason for a task to wait while a worker has nothing to do, and on a
/// machine with one last-level cache it changes nothing. It neither joins nor aborts its tasks; for that there is
/// [`JoinSet`](super::JoinSet). What its tasks spawn belongs to the group too. Clones are handles of the same group.
/// User-level threads are spawned into one with [`thread::Builder::group`](crate::thread::Builder::group).
///
/// Up to four tasks that a group of [`Locality::Together`] has at a time stay on the NUMA node that they were spawned
/// on ([`Numa::small_set`](crate::policy::Numa)).
///
/// ```
/// use quadrille::{Locality, TaskGroup};
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let shard = TaskGroup::new().footprint(256 * 1024);
/// let parts: Vec<_> = (0..4).map(|i| shard.spawn(async move { i * i })).collect();
/// let mut sum = 0;
/// for part in parts {
///     sum += part.await.unwrap();
/// }
/// assert_eq!(sum, 14);
///
/// let scans = TaskGroup::new().locality(Locality::Spread);
/// scans.spawn(async { /* go through a gigabyte */ }).await.unwrap();
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct TaskGroup {
    id: Id,
    locality: Locality,
    /// In bytes; zero: unknown.
    footprint: u64,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Tasks that were spawned and have not ended.
    living: AtomicU32,
    /// Tasks that were ever spawned. Wraps.
    spawned: AtomicU32,
}

impl Default for TaskGroup {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskGroup {
    /// A group without tasks, whose tasks want to be [together](Locality::Together). It belongs to no runtime.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: Id::next(),
            locality: Locality::default(),
            footprint: 0,
            counts: Arc::default(),
        }
    }

    /// Where tasks that this handle spawns from now on should run.
    #[must_use]
    pub fn locality(self, locality: Locality) -> Self {
        Self { locality, ..self }
    }

    /// Says that the tasks use about so many bytes of data together. A group whose data exceed the smallest last-level
    /// cache is not gathered behind one. Default: unknown, taken as little.
    #[must_use]
    pub fn footprint(self, bytes: u64) -> Self {
        Self {
            footprint: bytes,
            ..self
        }
    }

    /// Number of tasks that were spawned by handles of this group and whose futures have not been dropped.
    #[must_use]
    pub fn len(&self) -> usize {
        // Ordering: Relaxed; a count.
        self.counts.living.load(Ordering::Relaxed) as usize
    }

    /// Whether there is no such task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Spawns a task of this group on the current runtime; as [`spawn`](crate::spawn) does otherwise.
    ///
    /// # Panics
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_on(future, &Handle::current())
    }

    /// Spawns a task of this group on the runtime behind `handle`.
    #[track_caller]
    pub fn spawn_on<F>(&self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (set, member) = self.enter(&handle.shared);
        let options = Options {
            set: Some(set),
            ..Options::default()
        };
        handle.spawn_with(options, Grouped { future, member })
    }

    /// One more in the group: its set, its number in that, and what counts it for as long as it lives.
    pub(crate) fn enter(&self, shared: &Shared) -> (Set, Member) {
        let policy = &shared.policy;
        // Ordering: Relaxed; counts.
        let turn = self.counts.spawned.fetch_add(1, Ordering::Relaxed);
        let before = self.counts.living.fetch_add(1, Ordering::Relaxed);
        let mut set = SetId::declared(self.id.number());
        if self.locality == Locality::Spread {
            set = set.spread();
        } else if before < policy.config.numa.small_set {
            set = set.packed();
        }
        if !policy.fits_cache(self.footprint) {
            set = set.unfit();
        }
        let member = Member {
            counts: self.counts.clone(),
        };
        ((set, turn), member)
    }
}

/// A group's coupling set, and the number of one of its tasks in that.
pub(crate) type Set = (SetId, u32);

/// Counts a task of a group for as long as its future lives, or the closure of a thread.
#[derive(Debug)]
pub(crate) struct Member {
    counts: Arc<Counts>,
}

impl Drop for Member {
    fn drop(&mut self) {
        // Ordering: Relaxed; a count.
        self.counts.living.fetch_sub(1, Ordering::Relaxed);
    }
}

pin_project! {
    /// The user's future and its place in the group.
    struct Grouped<F> {
        #[pin]
        future: F,
        member: Member,
    }
}

impl<F: Future> Future for Grouped<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}
