//! Tasks by key.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash, RandomState};
use std::task::{Context, Poll, ready};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::JoinSet;
use crate::coop;
use crate::panics::quietly;
use crate::runtime::Handle;
use crate::task::{AbortHandle, Id, JoinError};

/// Tasks that are told apart by a key, at most one for each: awaited in the order in which they finish, aborted by key,
/// by what is true of a key, or all when the map is dropped.
///
/// A new task for a key takes the place of the one before, which is aborted, and whose result is dropped when the map
/// is asked for the next one after it has ended, or with the map. A key is free again once the result of its task has
/// been returned. Waiting costs what it does in a [`JoinSet`], and two look-ups; memory is given back as there.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::JoinMap;
///
/// let mut sessions = JoinMap::new();
/// for name in ["alice", "bob", "carol"] {
///     sessions.spawn(name.to_owned(), async move { name.len() });
/// }
/// // She comes back, and has a new one.
/// sessions.spawn("alice".to_owned(), async { 0 });
/// assert!(sessions.abort("carol"));
/// let mut ended = Vec::new();
/// while let Some((name, result)) = sessions.join_next().await {
///     ended.push((name, result.ok()));
/// }
/// ended.sort();
/// assert_eq!(ended[..2], [("alice".to_owned(), Some(0)), ("bob".to_owned(), Some(3))]);
/// // Unless it had ended before.
/// assert!(matches!(ended[2].1, None | Some(5)));
/// # });
/// ```
#[must_use = "dropping the map aborts its tasks"]
pub struct JoinMap<K, V, S = RandomState> {
    /// By the hash of the key.
    tasks: HashTable<Task<K>>,
    hasher: S,
    /// Of those that are in `tasks`, the hash of the key.
    hashes: HashMap<Id, u64>,
    /// Those, and others in whose place they have come.
    set: JoinSet<V>,
}

struct Task<K> {
    key: K,
    abort: AbortHandle,
}

impl<K, V> JoinMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<K, V, S> JoinMap<K, V, S> {
    /// An empty map whose keys are hashed by `hasher`.
    pub fn with_hasher(hasher: S) -> Self {
        Self {
            tasks: HashTable::new(),
            hasher,
            hashes: HashMap::new(),
            set: JoinSet::new(),
        }
    }

    /// How many keys are taken: by tasks whose results have not been returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Is no key taken?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys that are taken, in no order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> + '_ {
        self.tasks.iter().map(|task| &task.key)
    }

    /// Asks all tasks to stop at their next suspension point. Their results are returned like others: cancelled, unless
    /// they finished first.
    pub fn abort_all(&mut self) {
        self.set.abort_all();
    }

    /// Asks those tasks to stop of whose keys `is_meant` is true.
    pub fn abort_matching(&mut self, mut is_meant: impl FnMut(&K) -> bool) {
        for task in &self.tasks {
            if is_meant(&task.key) {
                task.abort.abort();
            }
        }
    }

    /// Removes all tasks and lets them run on.
    pub fn detach_all(&mut self) {
        self.hashes.clear();
        self.set.detach_all();
        // The keys' destructors are not ours.
        self.tasks.clear();
    }

    /// Is that task in the map?
    #[must_use]
    pub fn contains_task(&self, task: &Id) -> bool {
        self.hashes.contains_key(task)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> JoinMap<K, V, S> {
    /// Is the key taken?
    #[must_use]
    pub fn contains_key<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.task(key).is_some()
    }

    /// Asks the task of a key to stop at its next suspension point. False if it has none.
    pub fn abort<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let task = self.task(key);
        task.inspect(|task| task.abort.abort()).is_some()
    }

    fn task<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> Option<&Task<K>>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.tasks.find(hash, |task| task.key.borrow() == key)
    }

    /// The task has that key from now on, whose hash that is.
    fn insert(&mut self, key: K, hash: u64, abort: AbortHandle) {
        let id = abort.id();
        let hasher = &self.hasher;
        let entry = self
            .tasks
            .entry(hash, |task| task.key == key, |task| hasher.hash_one(&task.key));
        // A key that panics when it is compared leaves nothing counted, and one that does when it is dropped all.
        let before = match entry {
            Entry::Vacant(vacant) => {
                vacant.insert(Task { key, abort });
                None
            }
            Entry::Occupied(mut occupied) => Some(std::mem::replace(occupied.get_mut(), Task { key, abort })),
        };
        self.hashes.insert(id, hash);
        if let Some(before) = before {
            self.hashes.remove(&before.abort.id());
            before.abort.abort();
        }
    }

    /// Its key, if it is in the map.
    fn take(&mut self, task: Id) -> Option<K> {
        let hash = self.hashes.remove(&task)?;
        let entry = self.tasks.find_entry(hash, |entry| entry.abort.id() == task);
        let key = entry.ok().map(|entry| entry.remove().0.key);
        if self.hashes.capacity() > self.set.slots_kept().saturating_mul(4) {
            self.shrink();
        }
        key
    }

    /// Gives room back, as the set has. It keeps twice what the set does, or somewhat more: while the set has as many
    /// slots the tables grow to that again, but no further.
    #[cold]
    fn shrink(&mut self) {
        let kept = self.set.slots_kept();
        let hashes = &self.hashes;
        // Keys are not asked: their hash may panic.
        self.tasks.shrink_to(kept, |task| hashes[&task.abort.id()]);
        self.hashes.shrink_to(kept);
    }
}

impl<K: Hash + Eq, V: 'static, S: BuildHasher> JoinMap<K, V, S> {
    /// As [`spawn`](Self::spawn), on the worker that the calling code runs on, to stay there; see
    /// [`task::spawn_local`](crate::task::spawn_local).
    ///
    /// # Panics
    ///
    /// As that.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, key: K, future: F)
    where
        F: Future<Output = V> + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let abort = self.set.spawn_local(future);
        self.insert(key, hash, abort);
    }
}

impl<K: Hash + Eq, V: Send + 'static, S: BuildHasher> JoinMap<K, V, S> {
    /// Spawns a task on the current runtime, and gives it the key. A task that has it is aborted, and its result will
    /// not be returned.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn spawn<F>(&mut self, key: K, future: F)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let abort = self.set.spawn(future);
        self.insert(key, hash, abort);
    }

    /// As [`spawn`](Self::spawn), on the runtime of `handle`.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, key: K, future: F, handle: &Handle)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let abort = self.set.spawn_on(future, handle);
        self.insert(key, hash, abort);
    }

    /// As [`spawn`](Self::spawn), with a closure that may block, on the blocking pool of the current runtime. It can't
    /// be aborted once it has begun.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, key: K, f: F)
    where
        F: FnOnce() -> V + Send + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let abort = self.set.spawn_blocking(f);
        self.insert(key, hash, abort);
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), on the blocking pool of `handle`.
    pub fn spawn_blocking_on<F>(&mut self, key: K, f: F, handle: &Handle)
    where
        F: FnOnce() -> V + Send + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let abort = self.set.spawn_blocking_on(f, handle);
        self.insert(key, hash, abort);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> JoinMap<K, V, S> {
    /// Waits until one of the tasks has finished, removes it and returns its key and its result; `None` if no key is
    /// taken.
    ///
    /// # Errors
    ///
    /// The result is an error if the task has panicked or was cancelled.
    ///
    /// # Cancel safety
    ///
    /// Strict: a task leaves the map only when its result is returned.
    pub async fn join_next(&mut self) -> Option<(K, Result<V, JoinError>)> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Polls for the next result: `Ready(None)` if no key is taken, `Pending` if no task has finished. The waker of the
    /// last poll is called when that changes.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, Result<V, JoinError>)>> {
        while !self.is_empty() {
            let Some(finished) = ready!(self.set.poll_join_next_with_id(cx)) else {
                break;
            };
            if let Some(next) = self.with_key(finished) {
                return Poll::Ready(Some(next));
            }
        }
        ready!(coop::poll_spend(cx));
        Poll::Ready(self.try_join_next())
    }

    /// The result of a task that has finished, and its key; `None` if there is none at the moment, or no key is taken.
    pub fn try_join_next(&mut self) -> Option<(K, Result<V, JoinError>)> {
        while let Some(finished) = self.set.try_join_next_with_id() {
            let next = self.with_key(finished);
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// Aborts all tasks and waits until they are gone.
    ///
    /// # Cancel safety
    ///
    /// Strict: the tasks are aborted with the first poll; calling again waits for the rest.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
        // Those in whose place others have come.
        self.set.shutdown().await;
    }

    /// `None`: another has come in its place.
    fn with_key(&mut self, finished: Result<(Id, V), JoinError>) -> Option<(K, Result<V, JoinError>)> {
        let task = match &finished {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        match self.take(task) {
            Some(key) => Some((key, finished.map(|(_, value)| value))),
            None => {
                // Whoever asks is not to blame for what the destructor does.
                quietly(|| drop(finished));
                None
            }
        }
    }
}

impl<K, V, S: Default> Default for JoinMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for JoinMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    /// The tables of a map that is never empty.
    #[test]
    fn what_a_burst_needed_is_given_back() {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            const BURST: usize = 5_000;
            let mut map = JoinMap::new();
            map.spawn(BURST, std::future::pending());
            (0..BURST).for_each(|key| map.spawn(key, async move { key }));
            for _ in 0..BURST {
                let (key, result) = map.join_next().await.unwrap();
                assert_eq!(key, result.unwrap());
            }
            let room = |map: &JoinMap<usize, usize>| map.hashes.capacity().min(map.tasks.capacity());
            assert!(room(&map) >= BURST, "as many may come again");
            // As many have to leave as there are slots, twice at most.
            for number in 0..2 * BURST {
                let key = number % 100;
                map.spawn(key, async move { key });
                assert_eq!(map.join_next().await.map(|(key, _)| key), Some(key));
            }
            let room = map.hashes.capacity().max(map.tasks.capacity());
            assert!(room <= 4 * map.set.slots_kept() && room < BURST / 2, "{room}");
            assert!(map.contains_key(&BURST));
            assert!(map.abort(&BURST));
            assert_eq!(map.join_next().await.map(|(key, _)| key), Some(BURST));
            assert!(map.is_empty());
        });
    }
}
