//! Telling a tree of tasks to stop.
//!
//! A token is a reference to a *node*. A node knows its parent, which it keeps, and its children, which it does not; it
//! takes itself off its parent's list when it goes. Three things are said of a node:
//!
//! | what | where | changes |
//! |---|---|---|
//! | its children, or that it has none any more (*closed*) | `children`, under a lock | open -> closed, once |
//! | whether it is cancelled | `cancelled` | false -> true, once, inside a section of `watched` |
//! | who waits for that | `watched` | |
//!
//! To cancel a node is, in this order: (a) close it, and take its children; (b) set the flag and wake who waits; then
//! the same with each child that was taken and is still there. The locks of two nodes are never held together, and none
//! while anybody is woken.
//!
//! # Theorem
//!
//! *When `cancel` of a node has returned to the one who closed it, every node below is cancelled, and every child that
//! is made later of any of these is born so.* A child is made under the lock of its parent: before (a), and then it is
//! among those that are taken, or after it, and then it is born closed and cancelled. Of those taken the same is true,
//! and a tree has no loops. Who sees the flag of a node comes after (b), so after (a): a child that it makes is born
//! cancelled.
//!
//! Who finds a node closed by another sets its flag too, so that it is cancelled when the call returns; with what is
//! below that node the other may not have come to an end.
//!
//! A parent is kept by its children, as in Go's contexts: a token whose every ancestor was dropped still learns when
//! one is cancelled that somebody else has. The price is one node for each ancestor.

use std::fmt;
use std::future::IntoFuture;
use std::hash::{Hash, Hasher};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::watched::{Place, Watched, Watching};
use crate::coop;
use crate::panics::FirstPanic;
use crate::primitives::{AtomicBool, MutexGuard, Ordering};
use crate::stress::Mutex;

/// Tells tasks and threads to stop, and is waited for by them; like tokio-util's.
///
/// All clones are one token. A [child](Self::child_token) is cancelled with its parent, and can be cancelled alone.
/// Nothing is interrupted: who holds a token awaits [`cancelled`](Self::cancelled) beside its work, or asks
/// [`is_cancelled`](Self::is_cancelled) in between. Usable in tasks of any runtime, in user-level threads
/// (`token.cancelled().wait()`), and on plain threads.
///
/// ```
/// use quadrille::sync::CancellationToken;
/// use quadrille::time::{Duration, sleep};
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let token = CancellationToken::new();
/// let child = token.child_token();
/// let task = quadrille::spawn(async move {
///     let slow = sleep(Duration::from_secs(3600));
///     child.run_until_cancelled(slow).await.is_none()
/// });
/// token.cancel();
/// assert!(task.await.unwrap(), "it was told to stop");
/// # });
/// ```
///
/// With a [`TaskTracker`](crate::task::TaskTracker), which says when all have stopped, this is a graceful shutdown.
#[derive(Clone)]
pub struct CancellationToken {
    node: Arc<Node>,
}

/// See the module.
#[derive(Debug)]
struct Node {
    /// With the number under which the parent knows us.
    parent: Option<(Arc<Node>, usize)>,
    /// `None`: closed.
    children: Mutex<Option<Children>>,
    cancelled: AtomicBool,
    watched: Watched<()>,
}

/// So many slots are kept where there is no child: 1 kB.
const KEPT: usize = 64;

/// The children of a node, by number. Their slots are used again, and given back when the last one goes.
#[derive(Debug, Default)]
struct Children {
    slots: Vec<Slot>,
    /// The first free one.
    free: Option<usize>,
    /// How many there are.
    count: usize,
}

#[derive(Debug)]
enum Slot {
    Child(Weak<Node>),
    /// Free; the next free one.
    Free(Option<usize>),
}

impl Children {
    fn insert(&mut self, child: Weak<Node>) -> usize {
        self.count += 1;
        let Some(number) = self.free else {
            self.slots.push(Slot::Child(child));
            return self.slots.len() - 1;
        };
        let Slot::Free(next) = mem::replace(&mut self.slots[number], Slot::Child(child)) else {
            unreachable!("the free list holds free slots")
        };
        self.free = next;
        number
    }

    /// What is needed no more, to be dropped outside of the lock: once the last one is gone no number is in use.
    fn remove(&mut self, number: usize) -> Option<Self> {
        self.slots[number] = Slot::Free(self.free.replace(number));
        self.count -= 1;
        (self.count == 0 && self.slots.len() > KEPT).then(|| mem::take(self))
    }
}

impl Node {
    fn new(parent: Option<(Arc<Node>, usize)>, is_cancelled: bool) -> Self {
        Self {
            parent,
            children: Mutex::new((!is_cancelled).then(Children::default)),
            cancelled: AtomicBool::new(is_cancelled),
            watched: Watched::new(()),
        }
    }

    fn children(&self) -> MutexGuard<'_, Option<Children>> {
        self.children.lock().expect("nothing panics under this lock")
    }

    fn is_cancelled(&self) -> bool {
        // Ordering: Acquire; pairs with the Release in `tell`: who learns of it sees what was done before.
        self.cancelled.load(Ordering::Acquire)
    }

    /// A child of `this`.
    fn make_child(this: &Arc<Self>) -> Arc<Self> {
        let mut children = this.children();
        let Some(children) = &mut *children else {
            return Arc::new(Self::new(None, true));
        };
        Arc::new_cyclic(|child| {
            let number = children.insert(child.clone());
            Self::new(Some((this.clone(), number)), false)
        })
    }

    /// (a): the children that it had.
    fn close(&self) -> Vec<Arc<Self>> {
        let children = self.children().take();
        let slots = children.map(|children| children.slots).unwrap_or_default();
        let there = |slot: &Slot| match slot {
            Slot::Child(child) => child.upgrade(),
            Slot::Free(_) => None,
        };
        slots.iter().filter_map(there).collect()
    }

    /// (b)
    fn tell(&self) {
        self.watched.change(|()| {
            // Ordering: Release; pairs with the Acquire in `is_cancelled`.
            (!self.cancelled.swap(true, Ordering::Release), ())
        });
    }

    /// (a) and (b) of the node and of all below it, whatever the wakers of users do: the first panic goes on when all
    /// are told.
    fn cancel(this: &Arc<Self>) {
        let mut left = vec![this.clone()];
        let mut panic = FirstPanic::default();
        while let Some(node) = left.pop() {
            left.extend(node.close());
            panic.catch(|| node.tell());
        }
        panic.go_on();
    }

    /// Takes itself off its parent's list. Its parent.
    fn leave(&mut self) -> Option<Arc<Self>> {
        let (parent, number) = self.parent.take()?;
        let unneeded = parent.children().as_mut().map(|children| children.remove(number));
        drop(unneeded);
        Some(parent)
    }
}

impl Watching for Node {
    type State = ();

    fn watched(&self) -> &Watched<()> {
        &self.watched
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // In a loop: a long line of ancestors may end here, and each by itself would need a stack as deep.
        let mut parent = self.leave();
        while let Some(mut last) = parent.and_then(Arc::into_inner) {
            parent = last.leave();
        }
    }
}

/// The wait for its cancellation: `token.await` and [`token.wait()`](crate::Wait::wait).
impl IntoFuture for CancellationToken {
    type Output = ();
    type IntoFuture = WaitForCancellationFutureOwned;

    fn into_future(self) -> WaitForCancellationFutureOwned {
        self.cancelled_owned()
    }
}

/// The same, borrowed.
impl<'a> IntoFuture for &'a CancellationToken {
    type Output = ();
    type IntoFuture = WaitForCancellationFuture<'a>;

    fn into_future(self) -> WaitForCancellationFuture<'a> {
        self.cancelled()
    }
}

impl CancellationToken {
    /// A token that is nobody's child, and is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self {
            node: Arc::new(Node::new(None, false)),
        }
    }

    /// A token that is cancelled when this one is, and may be before. Of a cancelled token it is born cancelled.
    ///
    /// It keeps some 100 bytes of each token above it, also of those that are dropped: what goes on for ever makes its
    /// children of one token that stays, rather than each of the one before.
    #[must_use]
    pub fn child_token(&self) -> Self {
        Self {
            node: Node::make_child(&self.node),
        }
    }

    /// Cancels this token and all below it, and wakes all who wait for any of them. A second time does nothing.
    ///
    /// When the call returns this token is cancelled, and so is every child; unless another call that came first is
    /// still at that.
    pub fn cancel(&self) {
        Node::cancel(&self.node);
    }

    /// Whether this token was cancelled, or one above it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Waits until the token is cancelled.
    ///
    /// # Cancel safety
    /// Strict: dropping the future and calling again equals not dropping it.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        WaitForCancellationFuture {
            place: Place::new(&self.node),
        }
    }

    /// The same, with a future that keeps the token and borrows nothing.
    ///
    /// # Cancel safety
    /// Strict.
    pub fn cancelled_owned(self) -> WaitForCancellationFutureOwned {
        WaitForCancellationFutureOwned {
            place: Place::new(self.node),
        }
    }

    /// Something that cancels the token when it is dropped.
    pub fn drop_guard(self) -> DropGuard {
        DropGuard { token: Some(self) }
    }

    /// The same, borrowed.
    pub fn drop_guard_ref(&self) -> DropGuardRef<'_> {
        DropGuardRef { token: Some(self) }
    }

    /// The output of `future`, or `None` if the token is cancelled first. A token that is cancelled from the start
    /// comes first, also for a task that has spent its [budget](crate::coop); afterwards, where both have come, the
    /// future does. It is dropped when this is, whichever ends it.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        UntilCancelled {
            place: Place::new(&self.node),
            future,
            was_polled: false,
        }
        .await
    }

    /// The same, keeping the token.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub async fn run_until_cancelled_owned<F: Future>(self, future: F) -> Option<F::Output> {
        UntilCancelled {
            place: Place::new(self.node),
            future,
            was_polled: false,
        }
        .await
    }
}

/// Of clones of one token, and of no others, whatever became of them.
impl PartialEq for CancellationToken {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl Eq for CancellationToken {}

impl Hash for CancellationToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.node).hash(state);
    }
}

impl Default for CancellationToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}

pin_project! {
    /// The future of [`CancellationToken::cancelled`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct WaitForCancellationFuture<'a> {
        #[pin]
        place: Place<&'a Arc<Node>>,
    }
}

pin_project! {
    /// The future of [`CancellationToken::cancelled_owned`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct WaitForCancellationFutureOwned {
        #[pin]
        place: Place<Arc<Node>>,
    }
}

/// Polls for the node behind `place` to be cancelled.
fn poll_cancelled<W: Watching<State = ()> + AsRef<Node>>(place: Pin<&mut Place<W>>, cx: &mut Context<'_>) -> Poll<()> {
    coop::poll_progress(cx, |cx| {
        if place.of().as_ref().is_cancelled() {
            return Poll::Ready(());
        }
        place.poll(cx, |of, ()| of.as_ref().is_cancelled().then_some(()))
    })
}

impl Future for WaitForCancellationFuture<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        poll_cancelled(self.project().place, cx)
    }
}

impl Future for WaitForCancellationFutureOwned {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        poll_cancelled(self.project().place, cx)
    }
}

impl fmt::Debug for WaitForCancellationFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForCancellationFuture").finish_non_exhaustive()
    }
}

impl fmt::Debug for WaitForCancellationFutureOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForCancellationFutureOwned").finish_non_exhaustive()
    }
}

pin_project! {
    /// A future beside the end of a token.
    struct UntilCancelled<W: Watching, F> {
        #[pin]
        place: Place<W>,
        #[pin]
        future: F,
        was_polled: bool,
    }
}

impl<W: Watching<State = ()> + AsRef<Node>, F: Future> Future for UntilCancelled<W, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let is_first = !mem::replace(this.was_polled, true);
        // Once: a loop that ends when this is `None` would not, if the future were ready each time.
        let comes_first = is_first && this.place.of().as_ref().is_cancelled();
        if !comes_first {
            // Without a unit the future isn't polled; the token waits for the same turn.
            ready!(coop::poll_remaining(cx));
            if let Poll::Ready(output) = this.future.poll(cx) {
                return Poll::Ready(Some(output));
            }
        }
        // Also without budget, which the future may spend each time.
        if this.place.of().as_ref().is_cancelled() {
            coop::spend();
            return Poll::Ready(None);
        }
        poll_cancelled(this.place, cx).map(|()| None)
    }
}

/// Cancels its token when it is dropped; made by [`CancellationToken::drop_guard`].
#[derive(Debug)]
#[must_use = "dropping the guard cancels the token"]
pub struct DropGuard {
    /// `None` once disarmed.
    token: Option<CancellationToken>,
}

impl DropGuard {
    /// Gives the token back, not cancelled.
    ///
    /// # Panics
    /// Never: a guard has its token until it is dropped.
    pub fn disarm(mut self) -> CancellationToken {
        self.token.take().expect("a guard has its token")
    }

    /// The token, to be waited for or cloned; the guard keeps it.
    ///
    /// ```
    /// let guard = quadrille::sync::CancellationToken::new().drop_guard();
    /// let child = guard.token().child_token();
    /// assert!(!child.is_cancelled());
    /// drop(guard);
    /// assert!(child.is_cancelled());
    /// ```
    ///
    /// # Panics
    /// Never, as [`disarm`](Self::disarm).
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        self.token.as_ref().expect("a guard has its token")
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }
}

/// Cancels its token when it is dropped; made by [`CancellationToken::drop_guard_ref`].
#[derive(Debug)]
#[must_use = "dropping the guard cancels the token"]
pub struct DropGuardRef<'a> {
    /// `None` once disarmed.
    token: Option<&'a CancellationToken>,
}

impl<'a> DropGuardRef<'a> {
    /// Gives the token back, not cancelled.
    ///
    /// # Panics
    /// Never: a guard has its token until it is dropped.
    pub fn disarm(mut self) -> &'a CancellationToken {
        self.token.take().expect("a guard has its token")
    }

    /// The token; the guard keeps it.
    ///
    /// ```
    /// let token = quadrille::sync::CancellationToken::new();
    /// let guard = token.drop_guard_ref();
    /// assert!(*guard.token() == token && !token.is_cancelled());
    /// drop(guard);
    /// assert!(token.is_cancelled());
    /// ```
    ///
    /// # Panics
    /// Never, as [`disarm`](Self::disarm).
    #[must_use]
    pub fn token(&self) -> &'a CancellationToken {
        self.token.expect("a guard has its token")
    }
}

impl Drop for DropGuardRef<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            token.cancel();
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
