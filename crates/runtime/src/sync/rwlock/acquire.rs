//! The futures that wait for a lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, Owner, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::sync::semaphore::{AcquireError, Held, Semaphore, Turn};

/// Why waiting does not fail.
const NEVER_CLOSED: &str = "nobody closes the semaphore of a lock";

pin_project! {
    /// The future of [`RwLock::read`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Read<'a, T: ?Sized> {
        #[pin]
        turn: Turn<&'a Semaphore>,
        lock: &'a RwLock<T>,
    }
}

impl<'a, T: ?Sized> Read<'a, T> {
    pub(super) fn new(lock: &'a RwLock<T>) -> Self {
        let turn = Turn::new(&lock.permits, 1);
        Self { turn, lock }
    }
}

impl<'a, T: ?Sized> Future for Read<'a, T> {
    type Output = RwLockReadGuard<'a, T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // SAFETY: a permit of that lock is what the turn asks for.
        let make = |taken: Result<Held<_>, AcquireError>| unsafe {
            RwLockReadGuard::make(this.lock, taken.expect(NEVER_CLOSED))
        };
        this.turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for Read<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`RwLock::write`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Write<'a, T: ?Sized> {
        #[pin]
        turn: Turn<&'a Semaphore>,
        lock: &'a RwLock<T>,
    }
}

impl<'a, T: ?Sized> Write<'a, T> {
    pub(super) fn new(lock: &'a RwLock<T>) -> Self {
        let turn = Turn::new(&lock.permits, lock.readers_max);
        Self { turn, lock }
    }
}

impl<'a, T: ?Sized> Future for Write<'a, T> {
    type Output = RwLockWriteGuard<'a, T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // SAFETY: all permits of that lock are what the turn asks for.
        let make = |taken: Result<Held<_>, AcquireError>| unsafe {
            RwLockWriteGuard::make(this.lock, taken.expect(NEVER_CLOSED))
        };
        this.turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for Write<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`RwLock::read_owned`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct ReadOwned<T: ?Sized> {
        #[pin]
        turn: Turn<Owner<T>>,
    }
}

impl<T: ?Sized> ReadOwned<T> {
    pub(super) fn new(lock: Arc<RwLock<T>>) -> Self {
        let turn = Turn::new(Owner(lock), 1);
        Self { turn }
    }
}

impl<T: ?Sized> Future for ReadOwned<T> {
    type Output = OwnedRwLockReadGuard<T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: a permit of that lock is what the turn asks for.
        let make =
            |taken: Result<Held<_>, AcquireError>| unsafe { OwnedRwLockReadGuard::make(taken.expect(NEVER_CLOSED)) };
        self.project().turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for ReadOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOwned").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`RwLock::write_owned`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct WriteOwned<T: ?Sized> {
        #[pin]
        turn: Turn<Owner<T>>,
    }
}

impl<T: ?Sized> WriteOwned<T> {
    pub(super) fn new(lock: Arc<RwLock<T>>) -> Self {
        let all = lock.readers_max;
        let turn = Turn::new(Owner(lock), all);
        Self { turn }
    }
}

impl<T: ?Sized> Future for WriteOwned<T> {
    type Output = OwnedRwLockWriteGuard<T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: all permits of that lock are what the turn asks for.
        let make =
            |taken: Result<Held<_>, AcquireError>| unsafe { OwnedRwLockWriteGuard::make(taken.expect(NEVER_CLOSED)) };
        self.project().turn.poll(cx).map(make)
    }
}

impl<T: ?Sized> fmt::Debug for WriteOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOwned").finish_non_exhaustive()
    }
}
