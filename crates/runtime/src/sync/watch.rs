//! A channel for the latest value of something: who waits learns that it has changed, not how often.
//!
//! ```
//! use quadrille::sync::watch;
//!
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! let (sender, mut receiver) = watch::channel("starting");
//! let task = quadrille::spawn(async move {
//!     let running = receiver.wait_for(|state| *state == "running").await;
//!     running.map(|state| *state)
//! });
//! sender.send("running").unwrap();
//! assert_eq!(task.await.unwrap(), Ok("running"));
//! # });
//! ```
//!
//! The value is under a lock that readers share and users hold by a [`Ref`]; its *version* is raised there, and may be
//! read by anybody. What is waited for is a copy of the version, under a lock of its own that nobody holds for long,
//! and raised after the value was written: who learns of a version there reads that value or a later one.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll};

use super::notify::Notify;
use super::watched::{Place, Watched, Watching};
use crate::coop;
use crate::primitives::{AtomicU64, Ordering};

#[doc(inline)]
pub use self::error::{RecvError, SendError};
pub use self::stream::ReceiverStream;

pub mod error;
mod stream;

#[derive(Debug)]
struct Shared<T> {
    value: RwLock<T>,
    /// The value's. Written with `value` locked, so that who has locked it reads which one it is.
    version: AtomicU64,
    news: Watched<News>,
    /// Tells those who wait for the end of all receivers, and for no value, once `news` says so.
    unwatched: Notify,
}

/// What receivers wait for, and how many there are.
#[derive(Debug)]
struct News {
    version: u64,
    senders: usize,
    receivers: usize,
}

impl<T> Watching for Shared<T> {
    type State = News;

    fn watched(&self) -> &Watched<News> {
        &self.news
    }
}

impl<T> Shared<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        // A closure of the user's that panics in the middle of a change leaves what it leaves, as in any structure.
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.value.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the value that a [`read`](Self::read) from now on gives at least; whoever has the value locked
    /// may ask.
    fn version(&self) -> u64 {
        // Ordering: Acquire; pairs with the Release in `send_if_modified`, whose lock comes before a `read` that
        // follows, which so waits for its end, and lends that value or a later one. Else who takes a version for seen
        // could go on with the value before it.
        self.version.load(Ordering::Acquire)
    }

    /// The version of the value that is locked.
    fn version_of(&self, _locked: &RwLockReadGuard<'_, T>) -> u64 {
        // Ordering: Relaxed; it is written with `value` locked for writing.
        self.version.load(Ordering::Relaxed)
    }

    /// Tells all of a version, whose value is written.
    fn tell(&self, version: u64) {
        self.news.change(|news| {
            // Of two senders the later one may come first.
            let is_new = version > news.version;
            news.version = news.version.max(version);
            (is_new, ())
        });
    }

    /// Waits for a version that is later than `seen`, which becomes that.
    async fn changed(&self, seen: &mut u64) -> Result<(), RecvError> {
        let mut place = pin!(Place::new(self));
        let mut change = |cx: &mut Context<'_>| Self::poll_changed(place.as_mut(), cx, *seen);
        *seen = poll_fn(|cx| coop::poll_progress(cx, &mut change)).await?;
        Ok(())
    }

    /// A version that is later than `seen`, once there is one.
    fn poll_changed<W>(place: Pin<&mut Place<W>>, cx: &mut Context<'_>, seen: u64) -> Poll<Result<u64, RecvError>>
    where
        W: Watching<State = News>,
    {
        place.poll(cx, |_, news| {
            if news.version > seen {
                return Some(Ok(news.version));
            }
            (news.senders == 0).then_some(Err(RecvError))
        })
    }

    fn receiver(self: &Arc<Self>, seen: u64) -> Receiver<T> {
        self.news.with(|news| news.receivers += 1);
        Receiver {
            shared: self.clone(),
            seen,
        }
    }
}

/// The version of the value that a channel is made with; nobody has seen the one before.
const FIRST: u64 = 1;

/// Makes a channel whose value is `init`, which its receiver has seen.
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: RwLock::new(init),
        version: AtomicU64::new(FIRST),
        news: Watched::new(News {
            version: FIRST,
            senders: 1,
            receivers: 0,
        }),
        unwatched: Notify::new(),
    });
    let receiver = shared.receiver(FIRST);
    (Sender { shared }, receiver)
}

/// The value, lent. While it lives nobody can send: keep it short, and never across an `.await` or a `.wait()`.
///
/// One at a time on a thread: if somebody begins to send between two of them, the second waits for that one, who waits
/// for the first, for ever. So `*receiver.borrow() == *other.borrow()` is wrong, of one channel, and so is it to ask
/// the channel for its value in the closures of [`wait_for`](Receiver::wait_for), [`send_modify`](Sender::send_modify)
/// and [`send_if_modified`](Sender::send_if_modified), or to send there. To [`subscribe`](Sender::subscribe) there
/// is right.
#[derive(Debug)]
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

impl<T> Ref<'_, T> {
    /// Whether the receiver had not seen this value. False for a sender's.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The side that sends. When the last one is dropped the channel is closed.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A channel whose value is `init`, without a receiver yet; see [`subscribe`](Self::subscribe).
    #[must_use]
    pub fn new(init: T) -> Self {
        channel(init).0
    }

    /// Replaces the value and tells all receivers.
    ///
    /// # Errors
    /// Gives the value back if there is no receiver. [`send_replace`](Self::send_replace) does not mind.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// Replaces the value, tells all receivers that there are, and answers the value before.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// Changes the value in place and tells all receivers. Whoever wants to read it waits for `modify`, with the OS
    /// thread.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and tells all receivers if `modify` says so; its answer.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let version = {
            let mut value = self.shared.write();
            if !modify(&mut value) {
                return false;
            }
            // Ordering: Relaxed; it is written with `value` locked for writing.
            let version = self.shared.version.load(Ordering::Relaxed) + 1;
            // Ordering: Release; pairs with the Acquire in `Shared::version`.
            self.shared.version.store(version, Ordering::Release);
            version
        };
        self.shared.tell(version);
        true
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref {
            value: self.shared.read(),
            has_changed: false,
        }
    }

    /// A receiver, which has seen the value as it is; in a closure that changes it, the value before.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.shared.receiver(self.shared.version())
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.news.with(|news| news.receivers)
    }

    /// Whether both are of the same channel.
    ///
    /// ```
    /// use quadrille::sync::watch::Sender;
    ///
    /// let sender = Sender::new(1);
    /// assert!(sender.same_channel(&sender.clone()));
    /// assert!(!sender.same_channel(&Sender::new(1)));
    /// ```
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How many senders there are.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.shared.news.with(|news| news.senders)
    }

    /// Whether there is no receiver.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn closed(&self) {
        loop {
            // Made before the look, so that it is told of what comes after that (theorem G). There may be one again
            // when it is.
            let unwatched = self.shared.unwatched.notified();
            if self.is_closed() {
                return coop::consume_budget().await;
            }
            unwatched.await;
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.news.with(|news| news.senders += 1);
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// Of a channel that has the value's default, and no receiver yet: see [`Sender::subscribe`].
impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        channel(T::default()).0
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.news.change(|news| {
            news.senders -= 1;
            (news.senders == 0, ())
        });
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("receivers", &self.receiver_count())
            .finish_non_exhaustive()
    }
}

/// The side that receives; a clone has seen what its original has.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The last version that it has seen.
    seen: u64,
}

impl<T> Receiver<T> {
    /// The value, which does not count as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.read();
        let has_changed = self.shared.version_of(&value) > self.seen;
        Ref { value, has_changed }
    }

    /// The value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        let version = self.shared.version_of(&value);
        let has_changed = version > self.seen;
        self.seen = version;
        Ref { value, has_changed }
    }

    /// Whether there is a value that was not seen.
    ///
    /// # Errors
    /// If there is no sender any more.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let news = |news: &mut News| (news.senders > 0).then_some(news.version > self.seen);
        self.shared.news.with(news).ok_or(RecvError)
    }

    /// Whether there is no sender any more. A last value may not have been seen yet.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.news.with(|news| news.senders == 0)
    }

    /// Makes the value count as not seen, by this receiver alone.
    pub fn mark_changed(&mut self) {
        // By what is waited for: that of the value may be ahead until its sender has told of it. The first version
        // is 1.
        self.seen = self.shared.news.with(|news| news.version) - 1;
    }

    /// Makes the value count as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits for a value that was not seen, and counts it as seen: the last one, however many were sent.
    ///
    /// # Errors
    /// If there is none and no sender any more.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        self.shared.changed(&mut self.seen).await
    }

    /// Waits until `wanted` says so of the value, beginning with that of now, and lends it; it counts as seen.
    ///
    /// # Errors
    /// If there is no sender any more, and the last value is not wanted.
    ///
    /// # Cancel safety
    /// Strict.
    pub async fn wait_for(&mut self, wanted: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        // The end is paid for, too, since no `changed` may come before it: asked for ahead of the first look, so that
        // the turn is never given up with the value lent.
        coop::cooperative(self.find(wanted)).await
    }

    /// Looks at one value after the other.
    async fn find(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        let Self { shared, seen } = self;
        let shared = &**shared;
        let mut ended = Ok(());
        loop {
            {
                let value = shared.read();
                let version = shared.version_of(&value);
                let has_changed = version > *seen;
                *seen = version;
                if wanted(&value) {
                    return Ok(Ref { value, has_changed });
                }
            }
            // What was sent last is looked at, too.
            ended?;
            ended = shared.changed(seen).await;
        }
    }

    /// Whether both are of the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receiver(self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let is_last = self.shared.news.with(|news| {
            news.receivers -= 1;
            news.receivers == 0
        });
        if is_last {
            self.shared.unwatched.notify_waiters();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn the_latest_is_seen_once() {
        let (sender, mut receiver) = channel(0);
        assert_eq!(receiver.has_changed(), Ok(false));
        assert!(block_on(poll_once(receiver.changed())).is_none());
        (1..=3).for_each(|n| sender.send(n).unwrap());
        let (mut other, mut late) = (receiver.clone(), sender.subscribe());
        assert_eq!(block_on(receiver.changed()), Ok(()));
        assert!(!receiver.borrow().has_changed());
        assert_eq!(*receiver.borrow_and_update(), 3);
        assert!(block_on(poll_once(receiver.changed())).is_none());
        assert!(other.borrow_and_update().has_changed());
        assert!(block_on(poll_once(late.changed())).is_none());
        late.mark_changed();
        assert_eq!(block_on(late.changed()), Ok(()));
        assert!(late.same_channel(&other) && sender.receiver_count() == 3);
        let second = sender.clone();
        assert_eq!(sender.sender_count(), 2);
        drop(second);
        assert_eq!(sender.sender_count(), 1);
    }

    /// A thread that hangs says nothing.
    #[test]
    fn a_closure_that_changes_the_value_may_subscribe_and_mark() {
        let (say, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (sender, mut old) = channel(0);
            let mut new = None;
            sender.send_modify(|value| {
                new = Some(sender.subscribe());
                old.mark_unchanged();
                *value = 1;
            });
            for mut receiver in [old, new.unwrap()] {
                assert_eq!(receiver.has_changed(), Ok(true));
                assert_eq!(*receiver.borrow_and_update(), 1);
                assert_eq!(receiver.has_changed(), Ok(false));
            }
            say.send(()).unwrap();
        });
        hear.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    }

    #[test]
    fn what_one_marks_is_news_to_nobody_else() {
        let (sender, mut receiver) = channel(0);
        let mut other = receiver.clone();
        let mut waits = Box::pin(other.changed());
        assert!(block_on(poll_once(waits.as_mut())).is_none());
        receiver.mark_changed();
        assert_eq!(receiver.has_changed(), Ok(true));
        assert!(block_on(poll_once(waits.as_mut())).is_none());
        assert!(receiver.borrow().has_changed() && !sender.borrow().has_changed());
        assert_eq!(block_on(receiver.changed()), Ok(()));
        assert!(block_on(poll_once(receiver.changed())).is_none(), "once");
        receiver.mark_changed();
        receiver.mark_unchanged();
        assert_eq!(receiver.has_changed(), Ok(false));
        sender.send(1).unwrap();
        assert_eq!(block_on(waits), Ok(()));
        receiver.mark_changed();
        assert_eq!(*receiver.borrow_and_update(), 1);
        assert_eq!(receiver.has_changed(), Ok(false));
    }

    #[test]
    fn either_side_learns_that_the_other_has_gone() {
        let (sender, mut receiver) = channel(1);
        assert!(block_on(poll_once(sender.closed())).is_none());
        sender.clone().send_modify(|n| *n += 1);
        assert!(!receiver.is_closed(), "one of two is left");
        drop(sender);
        assert!(receiver.is_closed());
        assert_eq!(block_on(receiver.changed()), Ok(()), "the last value comes first");
        assert_eq!(block_on(receiver.changed()), Err(RecvError));
        assert_eq!(receiver.has_changed(), Err(RecvError));
        assert_eq!(block_on(receiver.wait_for(|n| *n == 2)).map(|n| *n), Ok(2));
        assert!(block_on(receiver.wait_for(|n| *n == 3)).is_err());
        let sender = Sender::new(1);
        drop(sender.subscribe());
        block_on(sender.closed());
        assert_eq!(sender.send(2), Err(SendError(2)));
        assert_eq!((sender.send_replace(3), *sender.borrow()), (1, 3));
        assert!(!sender.send_if_modified(|_| false));
    }

    #[test]
    fn threads_see_values_in_order_and_the_last() {
        let (sender, receiver) = channel(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut receiver = receiver.clone();
                scope.spawn(move || {
                    let mut last = 0;
                    while block_on(receiver.changed()).is_ok() {
                        let now = *receiver.borrow_and_update();
                        assert!(now >= last);
                        last = now;
                    }
                    assert_eq!(last, 1000);
                });
            }
            drop(receiver);
            (1..=1000).for_each(|n| sender.send(n).unwrap());
            drop(sender);
        });
    }
}
