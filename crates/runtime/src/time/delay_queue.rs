//! Values that are handed out at their deadlines.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;

use super::entry::TimerEntry;
use super::entry::signed;
use super::heap::{Key as Node, Timers};
use super::instant::{Instant, now};
use crate::coop;
use crate::sys::clock::{from_nanos, later_nanos, to_nanos};

/// Values, each of which is handed out once its deadline has come, the earliest first, and those of one deadline in the
/// order in which they were inserted, but for those that were moved.
///
/// One timer serves all of them, so a thousand sessions that end when nothing has been heard of them for a minute cost
/// one. Whoever waits is woken when the first of them is due, also if it was inserted, or moved, after he began to
/// wait, or once nothing is left. So is who was handed out a value and has not polled since, by what is inserted or
/// moved after that: until the next poll a clone of his waker is kept, and a task that keeps the queue, and that nobody
/// else can wake any more, lasts until its runtime stops. It grows with what is in it, and gives memory back when it is
/// empty.
///
/// It is also a [`Stream`] of what is handed out, which goes on after `None` once there is something in it again.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{DelayQueue, Duration};
///
/// let mut sessions = DelayQueue::new();
/// let alice = sessions.insert("alice", Duration::from_millis(2));
/// let bob = sessions.insert("bob", Duration::from_millis(4));
/// // Alice was heard of, so she has more time.
/// sessions.reset(&alice, Duration::from_millis(8));
/// assert_eq!(sessions.expired().await.unwrap().key(), bob);
/// assert_eq!(sessions.remove(&alice).into_inner(), "alice");
/// assert!(sessions.expired().await.is_none());
/// # });
/// ```
pub struct DelayQueue<T> {
    timers: Timers<Held<T>>,
    /// What whoever polls waits for. It is made with the first value, and expires when that does which is first, or
    /// before.
    timer: Option<TimerEntry>,
    /// When it does, as in `timers`.
    wakes_at: u64,
    /// The time when the clock was read last. What has come by then needs no further look at it.
    now: u64,
    /// Values that were inserted so far.
    inserted: u64,
    /// Who has polled it when nothing was in it.
    waiter: Option<Waker>,
    /// Who was handed out a value last, if nobody has polled since. He need not poll again after an insertion or a
    /// move, so that sets the timer for him. It isn't set meanwhile: it is only while nothing has come by `now`.
    told: Option<Waker>,
}

/// Names a value in the [`DelayQueue`] that it was inserted into, until that hands it out. No other value ever has the
/// same there; a key of another queue may name any value, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    slot: u32,
    number: u64,
}

/// A value that a [`DelayQueue`] has handed out, or that was removed from it.
#[derive(Debug)]
pub struct Expired<T> {
    held: Held<T>,
}

#[derive(Debug)]
struct Held<T> {
    key: Key,
    /// By the clock's nanoseconds, as [`to_nanos`] counts them.
    deadline: i64,
    value: T,
}

impl<T> Held<T> {
    fn deadline(&self) -> Instant {
        Instant::from_std(from_nanos(self.deadline))
    }
}

impl<T> DelayQueue<T> {
    /// An empty one, which belongs to no runtime before something is inserted, and to that one from then on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            timers: Timers::default(),
            timer: None,
            wakes_at: 0,
            now: 0,
            inserted: 0,
            waiter: None,
            told: None,
        }
    }

    /// Inserts a value that is handed out `after` from now, or in about 30 years if the clock can't express that.
    ///
    /// # Panics
    ///
    /// If it is the first one, outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn insert(&mut self, value: T, after: Duration) -> Key {
        self.set(value, self.deadline_in(after))
    }

    /// Inserts a value that is handed out at `deadline`, or at once if that has passed.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        self.set(value, to_nanos(deadline.into_std()))
    }

    #[track_caller]
    fn set(&mut self, value: T, deadline: i64) -> Key {
        if self.timer.is_none() {
            self.timer = Some(TimerEntry::at(Instant::from_std(from_nanos(deadline))));
            self.wakes_at = due(deadline);
        }
        self.inserted += 1;
        let mut key = Key {
            slot: 0,
            number: self.inserted,
        };
        let held = Held { key, deadline, value };
        let node = self.timers.insert(due(deadline), held);
        key.slot = node.slot();
        if let Some(held) = self.timers.value(node) {
            held.key = key;
        }
        self.comes(deadline);
        key
    }

    /// Removes a value. `None` if it was handed out, or removed, before. If it was the last one, who waits is woken, to
    /// see that nothing is there.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let node = self.node(key)?;
        let held = self.timers.remove(node)?;
        self.goes();
        Some(Expired { held })
    }

    /// The same where it is surely there.
    ///
    /// # Panics
    ///
    /// If it is not (reported at the caller).
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(removed) => removed,
            None => absent(key),
        }
    }

    /// Moves the deadline of a value to `after` from now.
    ///
    /// # Panics
    ///
    /// If it is not there (reported at the caller).
    #[track_caller]
    pub fn reset(&mut self, key: &Key, after: Duration) {
        self.move_to(key, self.deadline_in(after));
    }

    /// Moves the deadline of a value to that one.
    ///
    /// # Panics
    ///
    /// As [`reset`](Self::reset).
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, deadline: Instant) {
        self.move_to(key, to_nanos(deadline.into_std()));
    }

    #[track_caller]
    fn move_to(&mut self, key: &Key, deadline: i64) {
        let Some(node) = self.node(key) else { absent(key) };
        let moved = self.timers.reset(node, due(deadline));
        self.timers.settle();
        if let Some(held) = moved.and_then(|node| self.timers.value(node)) {
            held.deadline = deadline;
        }
        self.comes(deadline);
    }

    /// When a value is handed out.
    ///
    /// # Panics
    ///
    /// If it is not there (reported at the caller).
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        match self.held(key) {
            Some((_, held)) => held.deadline(),
            None => absent(key),
        }
    }

    /// Whether a value is there.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.held(key).is_some()
    }

    /// The one that is handed out next. `None` if nothing is there.
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.timers.peek().map(|held| held.key)
    }

    /// How many are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all values. Who waits is woken, to see that nothing is there.
    pub fn clear(&mut self) {
        let all = self.timers.take_all();
        self.goes();
        drop(all);
    }

    /// Waits for the next one that is due. `None` at once if nothing is there.
    ///
    /// # Cancel safety
    ///
    /// Strict: what is handed out is taken out of the queue when it is returned.
    pub async fn expired(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Polls for the next one that is due. If there is none, the waker of `cx` is called when there is. `None` if
    /// nothing is there; the waker is called once something is inserted.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        coop::poll_progress(cx, |cx| {
            loop {
                if let Some(held) = self.timers.expire(self.now) {
                    self.timers.settle();
                    if !self.told.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                        self.told = Some(cx.waker().clone());
                    }
                    return Poll::Ready(Some(Expired { held }));
                }
                let Some(first) = self.timers.peek() else {
                    self.told = None;
                    self.waiter = Some(cx.waker().clone());
                    return Poll::Ready(None);
                };
                let deadline = first.deadline;
                let Some(timer) = &mut self.timer else {
                    unreachable!("it is made with the first value");
                };
                if due(deadline) > self.wakes_at {
                    // What was before it is gone, or comes later.
                    self.wakes_at = due(deadline);
                    timer.reset(Instant::from_std(from_nanos(deadline)));
                }
                if timer.poll(cx).is_pending() {
                    self.told = None;
                    return Poll::Pending;
                }
                self.now = self.wakes_at.max(due(signed(timer.nanos())));
            }
        })
    }

    /// One is gone. Whoever waits for it is told if it was the last one.
    fn goes(&mut self) {
        self.timers.settle();
        if self.is_empty() {
            self.wakes_by(0);
        }
    }

    fn wakes_by(&mut self, deadline: i64) {
        if due(deadline) < self.wakes_at
            && let Some(timer) = &mut self.timer
        {
            self.wakes_at = due(deadline);
            timer.reset(Instant::from_std(from_nanos(deadline)));
        }
    }

    /// One has that deadline from now on. Whoever waits is woken by then.
    fn comes(&mut self, deadline: i64) {
        // The clock may have gone back: that of the system goes on for one that was paused, once its runtime is gone.
        self.now = self.now.min(due(deadline).saturating_sub(1));
        self.wakes_by(deadline);
        self.wakes_told();
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    /// Who was handed out a value, and has not polled since, is woken when the first one is due.
    fn wakes_told(&mut self) {
        if let Some(timer) = self.timer.as_mut().filter(|timer| !timer.is_set())
            && let Some(told) = self.told.take()
            && let Some(first) = self.timers.peek().map(|held| held.deadline)
        {
            if due(first) <= self.now {
                // A poll would hand it out and leave the timer as it is.
                told.wake();
                return;
            }
            self.wakes_at = due(first);
            timer.reset(Instant::from_std(from_nanos(first)));
            timer.set_for(told);
        }
    }

    /// By the clock of its runtime, once it has one.
    fn deadline_in(&self, after: Duration) -> i64 {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        match &self.timer {
            Some(timer) => signed(later_nanos(timer.nanos(), after)),
            None => {
                let now = u64::try_from(to_nanos(now().into_std())).unwrap_or(0);
                signed(later_nanos(now, after))
            }
        }
    }

    fn held(&self, key: &Key) -> Option<(Node, &Held<T>)> {
        self.timers.at(key.slot).filter(|(_, held)| held.key == *key)
    }

    fn node(&self, key: &Key) -> Option<Node> {
        self.held(key).map(|(node, _)| node)
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Values are not pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_expired(cx)
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("first", &self.timers.peek().map(Held::deadline))
            .finish_non_exhaustive()
    }
}

impl<T> Expired<T> {
    /// The value.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.held.value
    }

    /// The value, to be changed.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.held.value
    }

    /// The value itself.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.held.value
    }

    /// When it was due, or would have been.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.held.deadline()
    }

    /// What it was named.
    #[must_use]
    pub fn key(&self) -> Key {
        self.held.key
    }
}

/// A time as `timers` knows it: nanoseconds, which may be before the clock's origin, in their order.
fn due(deadline: i64) -> u64 {
    deadline.cast_unsigned() ^ 1 << 63
}

#[track_caller]
fn absent(key: &Key) -> ! {
    panic!("{key:?} names nothing that is in the queue: it was handed out or removed, or is of another queue")
}
