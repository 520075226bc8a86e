//! The futures that wait for a mutex.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Mutex, MutexGuard, OwnedMutexGuard, Owner};
use crate::sync::semaphore::{AcquireError, Held, Semaphore, Turn};

/// Why waiting does not fail.
const NEVER_CLOSED: &str = "nobody closes the semaphore of a mutex";

pin_project! {
    /// The future of [`Mutex::lock`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Lock<'a, T: ?Sized> {
        #[pin]
        turn: Turn<&'a Semaphore>,
        mutex: &'a Mutex<T>,
    }
}

impl<'a, T: ?Sized> Lock<'a, T> {
    pub(super) fn new(mutex: &'a Mutex<T>) -> Self {
        let turn = Turn::new(&mutex.permit, 1);
        Self { turn, mutex }
    }
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // SAFETY: the permit of that mutex is what the turn asks for.
        let make =
            |taken: Result<Held<_>, AcquireError>| unsafe { MutexGuard::make(this.mutex, taken.expect(NEVER_CLOSED)) };
        this.turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`Mutex::lock_owned`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct LockOwned<T: ?Sized> {
        #[pin]
        turn: Turn<Owner<T>>,
    }
}

impl<T: ?Sized> LockOwned<T> {
    pub(super) fn new(mutex: Arc<Mutex<T>>) -> Self {
        let turn = Turn::new(Owner(mutex), 1);
        Self { turn }
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = OwnedMutexGuard<T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the permit of that mutex is what the turn asks for.
        let make = |taken: Result<Held<_>, AcquireError>| unsafe { OwnedMutexGuard::make(taken.expect(NEVER_CLOSED)) };
        self.project().turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for LockOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwned").finish_non_exhaustive()
    }
}
