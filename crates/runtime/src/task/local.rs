//! Values that a task, or a part of one, sees as its own: put up around a future or a call, and found by all that runs
//! inside.
//!
//! Each key has a *slot* for whoever runs: a user-level thread has its own, which stays with it when it is suspended;
//! all else that is polled or called on an OS thread shares that thread's, one after the other. A scope swaps its value
//! into the slot when it is entered, and back when it is left: when the poll of its future ends, or the call. So the
//! slot holds the value of the innermost scope, and that of a task never stays behind: a task can't leave the stack in
//! the middle of a poll. What is in the slot is lent, under a `RefCell`, so whatever else switches stacks can confuse
//! the values but not free one that is in use.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::panics::quietly;
use crate::thread::{self, is_user_level};

/// Declares values that are put up around a task, or a part of one, like tokio's.
///
/// A value is seen by all that runs inside of its [`scope`](crate::task::LocalKey::scope), and by nothing else: not by
/// tasks that are spawned there, which begin with none. Works in tasks of any runtime, on user-level threads, and on
/// plain threads.
///
/// ```
/// quadrille::task_local! {
///     /// Which request this is.
///     static REQUEST: u64;
///     pub static USER: String;
/// }
///
/// async fn log(what: &str) -> String {
///     quadrille::task::yield_now().await;
///     format!("{} {}: {what}", REQUEST.get(), USER.with(String::clone))
/// }
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let request = USER.scope("ada".to_owned(), REQUEST.scope(7, log("begins")));
/// assert_eq!(quadrille::spawn(request).await.unwrap(), "7 ada: begins");
/// assert!(REQUEST.try_get().is_err(), "nothing is left of it outside");
/// # });
/// ```
///
/// # Beside `thread_local!`
///
/// | declared by | belongs to | made |
/// |---|---|---|
/// | [`std::thread_local!`] | the OS thread, so to a worker and all that it runs | when first used |
/// | [`quadrille::thread_local!`](crate::thread_local!) | a user-level thread; a task has none | when first used |
/// | `quadrille::task_local!` | a scope, in whatever code | where the scope is entered |
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attribute])* $visibility static $name: $type);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty) => {
        $(#[$attribute])*
        $visibility static $name: $crate::task::LocalKey<$type> = {
            ::std::thread_local! {
                static SHARED: $crate::task::LocalSlot<$type> = const { $crate::task::LocalSlot::new() };
            }
            static OWN: $crate::thread::LocalKey<$crate::task::LocalSlot<$type>> =
                $crate::thread::LocalKey::new($crate::task::LocalSlot::new);
            $crate::task::LocalKey::new(&SHARED, &OWN)
        };
    };
}

/// A value that scopes put up; declared by [`task_local!`](crate::task_local!).
pub struct LocalKey<T: 'static> {
    /// Of the OS thread.
    shared: &'static std::thread::LocalKey<LocalSlot<T>>,
    /// Of a user-level thread.
    own: &'static thread::LocalKey<LocalSlot<T>>,
}

/// Where the value of the innermost scope is.
#[doc(hidden)]
#[derive(Debug)]
pub struct LocalSlot<T>(RefCell<Option<T>>);

impl<T> LocalSlot<T> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }
}

/// While it lives, the value that was in a slot is kept here.
struct Inside<'a, T: 'static> {
    key: &'static LocalKey<T>,
    kept: &'a mut Option<T>,
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        // In the destructors of a thread that ends the slot may be gone, and the value with it.
        let _gone = self.key.with_slot(|slot| mem::swap(&mut *slot.borrow_mut(), self.kept));
    }
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        shared: &'static std::thread::LocalKey<LocalSlot<T>>,
        own: &'static thread::LocalKey<LocalSlot<T>>,
    ) -> Self {
        Self { shared, own }
    }

    /// Calls `f` with the slot of whoever runs. An error if a thread ends and has dropped it.
    fn with_slot<R>(&'static self, f: impl FnOnce(&RefCell<Option<T>>) -> R) -> Result<R, AccessError> {
        if is_user_level() {
            self.own.try_with(|slot| f(&slot.0)).map_err(|_| AccessError(()))
        } else {
            self.shared.try_with(|slot| f(&slot.0)).map_err(|_| AccessError(()))
        }
    }

    /// Calls `f` with the value of `place` put up.
    #[track_caller]
    fn enter<R>(&'static self, place: &mut Option<T>, f: impl FnOnce() -> R) -> R {
        let inside = self.try_enter(place);
        assert!(
            inside.is_some(),
            "a scope of a task-local can't be entered inside of its own `with`, nor when its thread has dropped it"
        );
        f()
    }

    /// Puts the value of `place` up. `None` while the one that is there is lent, and if the thread has dropped it.
    fn try_enter<'a>(&'static self, place: &'a mut Option<T>) -> Option<Inside<'a, T>> {
        let swapped = self.with_slot(|slot| {
            let free = slot.try_borrow_mut();
            free.map(|mut slot| mem::swap(&mut *slot, place)).is_ok()
        });
        (swapped == Ok(true)).then(|| Inside { key: self, kept: place })
    }

    /// A future that runs `future` with `value` put up.
    ///
    /// It is seen while the future is polled and while it is dropped, but if that is inside of [`with`](Self::with) of
    /// the same key. A scope within a scope of the same key hides the outer value.
    ///
    /// # Cancel safety
    /// That of `future`.
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture {
            key: self,
            value: Some(value),
            future: Some(future),
        }
    }

    /// Calls `f` with `value` put up. On a user-level thread `f` may wait.
    ///
    /// # Panics
    /// Inside of [`with`](Self::with) of the same key.
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut place = Some(value);
        // Not the value of the function: that would be leaked if the scope's value panicked as it is dropped
        // (rust-lang/rust#47949).
        let result = self.enter(&mut place, f);
        drop(place);
        result
    }

    /// Calls `f` with the value of the innermost scope.
    ///
    /// # Panics
    /// Outside of any scope of this key.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `f` with the value of the innermost scope, if there is one.
    ///
    /// # Errors
    /// Outside of any scope of this key.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        self.with_slot(|slot| slot.borrow().as_ref().map(f).ok_or(AccessError(())))?
    }

    /// A clone of the value of the innermost scope.
    ///
    /// # Panics
    /// Outside of any scope of this key.
    #[must_use]
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// A clone of the value of the innermost scope, if there is one.
    ///
    /// # Errors
    /// Outside of any scope of this key.
    pub fn try_get(&'static self) -> Result<T, AccessError>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// The code that asked is in no scope of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task-local value was asked for outside of its scope")
    }
}

impl Error for AccessError {}

pin_project! {
    /// The future of [`LocalKey::scope`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct TaskLocalFuture<T: 'static, F> {
        key: &'static LocalKey<T>,
        // `None` once it was taken.
        value: Option<T>,
        // `None` once it was ready.
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            // Destructors see the value, too; where it can't be put up they go without, rather than panic.
            let mut this = this.project();
            if this.value.is_some() && this.future.is_some() {
                let _inside = this.key.try_enter(this.value);
                this.future.set(None);
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out, most usefully when the future has been ready. To poll one that was not is an error of the
    /// caller's then: it panics.
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    /// # Panics
    /// After the future was ready, or its value taken.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        assert!(this.value.is_some(), "polled after its value was taken");
        this.key.enter(this.value, || {
            let future = this.future.as_mut().as_pin_mut();
            let poll = future.expect("polled after it was ready").poll(cx);
            if poll.is_ready()
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None)))
            {
                // What it has answered may panic as well, which would end the process from here on.
                quietly(|| drop(poll));
                resume_unwind(payload);
            }
            poll
        })
    }
}

impl<T: 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::pin::pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::panics::tests::Bomb;

    task_local! {
        static NUMBER: u32;
        static WORD: &'static str;
    }

    #[test]
    fn scopes_nest_and_hide() {
        assert_eq!(NUMBER.try_get(), Err(AccessError(())));
        NUMBER.sync_scope(1, || {
            WORD.sync_scope("outer", || {
                NUMBER.sync_scope(2, || assert_eq!((NUMBER.get(), WORD.get()), (2, "outer")));
                assert_eq!(NUMBER.get(), 1);
            });
            assert!(WORD.try_get().is_err());
        });
        assert!(catch_unwind(|| NUMBER.get()).is_err());
    }

    #[test]
    fn a_value_that_is_lent_stays() {
        NUMBER.sync_scope(1, || {
            NUMBER.with(|number| {
                assert_eq!(NUMBER.get(), *number, "it can be lent twice");
                let entered = catch_unwind(|| NUMBER.sync_scope(2, || ()));
                assert!(entered.is_err());
                assert_eq!(*number, 1);
            });
        });
    }

    /// Without a second panic while the first one unwinds.
    #[test]
    fn a_future_and_its_output_may_both_panic_when_they_are_dropped() {
        let held = Bomb;
        let future = std::future::poll_fn(move |_| {
            _ = &held;
            Poll::Ready(Bomb)
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| block_on(NUMBER.scope(1, future))));
        mem::forget(panicked.unwrap_err());
        assert!(NUMBER.try_get().is_err());
    }

    #[test]
    fn a_scope_that_is_dropped_where_a_value_is_lent_does_not_panic() {
        let scope = NUMBER.scope(1, std::future::ready(()));
        NUMBER.sync_scope(2, || {
            NUMBER.with(|number| {
                drop(scope);
                assert_eq!((*number, NUMBER.get()), (2, 2));
            });
        });
        assert!(NUMBER.try_get().is_err());
    }

    #[test]
    fn a_panic_leaves_every_scope() {
        let inside = || NUMBER.sync_scope(1, || WORD.sync_scope("w", || panic!("inside")));
        assert!(catch_unwind(AssertUnwindSafe(inside)).map(|(): ()| ()).is_err());
        assert!(NUMBER.try_get().is_err() && WORD.try_get().is_err());
    }

    #[test]
    fn a_future_has_its_value_in_polls_and_destructors_alone() {
        struct Looks;
        impl Drop for Looks {
            fn drop(&mut self) {
                assert_eq!(NUMBER.get(), 7);
            }
        }
        let inside = async {
            let _looks = Looks;
            assert_eq!(NUMBER.get(), 7);
            futures_lite::future::yield_now().await;
            NUMBER.get()
        };
        let mut scope = pin!(NUMBER.scope(7, inside));
        assert!(block_on(poll_once(scope.as_mut())).is_none());
        assert!(NUMBER.try_get().is_err());
        assert_eq!(NUMBER.sync_scope(1, || block_on(scope.as_mut())), 7);
        assert_eq!(scope.as_mut().take_value(), Some(7));
        assert!(catch_unwind(AssertUnwindSafe(|| block_on(scope))).is_err());
        // One that is dropped in the middle.
        let mut dropped = Box::pin(NUMBER.scope(7, async {
            let _looks = Looks;
            std::future::pending::<()>().await;
        }));
        assert!(block_on(poll_once(dropped.as_mut())).is_none());
        drop(dropped);
    }
}
