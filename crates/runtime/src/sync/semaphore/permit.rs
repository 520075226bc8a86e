//! Permits that are held.

use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use super::{Semaphore, TryAcquireError};

/// What both kinds of permits are, and those that a guard of [`RwLock`](crate::sync::RwLock) has. `S` is a reference to
/// the semaphore.
pub(in crate::sync) struct Held<S: Deref<Target = Semaphore>> {
    semaphore: S,
    permits: u32,
}

impl<S: Deref<Target = Semaphore>> Held<S> {
    /// For whoever has taken them.
    pub(super) fn new(semaphore: S, permits: u32) -> Self {
        Self { semaphore, permits }
    }

    /// Takes them if they are free, and nobody waits; a task pays with its budget.
    pub(in crate::sync) fn try_take(semaphore: S, permits: u32) -> Result<Self, TryAcquireError> {
        semaphore.try_take(permits)?;
        Ok(Self::new(semaphore, permits))
    }

    /// The same for who only wants to show what is inside, and pays nothing.
    pub(in crate::sync) fn try_take_unpaid(semaphore: S, permits: u32) -> Result<Self, TryAcquireError> {
        semaphore.try_take_unpaid(permits)?;
        Ok(Self::new(semaphore, permits))
    }

    pub(in crate::sync) fn semaphore(&self) -> &S {
        &self.semaphore
    }

    pub(in crate::sync) fn permits(&self) -> u32 {
        self.permits
    }

    /// Gives back all but `kept`, which are held all the time.
    ///
    /// # Panics
    /// If it has not as many; nothing has changed then. And if a waker of somebody who is served does; they are given
    /// back then.
    pub(in crate::sync) fn keep(&mut self, kept: u32) {
        let rest = self.permits.checked_sub(kept).expect("as many are held");
        self.permits = kept;
        self.semaphore.give_back(rest);
    }

    #[track_caller]
    fn merge(&mut self, mut other: Self) {
        assert!(
            ptr::eq(&*self.semaphore, &*other.semaphore),
            "permits of two semaphores were merged"
        );
        let (a, b) = (self.permits, other.permits);
        self.permits = a.checked_add(b).unwrap_or_else(|| {
            panic!(
                "{a} and {b} permits were merged, expected at most {} together",
                u32::MAX
            )
        });
        other.permits = 0;
    }

    fn split(&mut self, permits: usize) -> Option<Self>
    where
        S: Clone,
    {
        let permits = u32::try_from(permits).ok()?;
        self.permits = self.permits.checked_sub(permits)?;
        let semaphore = self.semaphore.clone();
        Some(Self { semaphore, permits })
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Held<S> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.give_back(self.permits);
        }
    }
}

/// One or more permits of a [`Semaphore`], which are given back when it is dropped.
#[must_use = "permits that are dropped are given back"]
pub struct SemaphorePermit<'a> {
    held: Held<&'a Semaphore>,
}

impl<'a> SemaphorePermit<'a> {
    pub(super) fn new(held: Held<&'a Semaphore>) -> Self {
        Self { held }
    }

    /// Takes them away for ever: they are not given back.
    pub fn forget(mut self) {
        self.held.permits = 0;
    }

    /// Takes `other` in; both are given back as one.
    ///
    /// # Panics
    /// If it is of another semaphore, or together they are more than `u32::MAX`; `other` is given back then.
    ///
    /// ```
    /// let semaphore = quadrille::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire().unwrap();
    /// permit.merge(semaphore.try_acquire_many(2).unwrap());
    /// assert_eq!(permit.num_permits(), 3);
    /// drop(permit.split(2));
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, other: Self) {
        self.held.merge(other.held);
    }

    /// Parts with so many of them, if it has as many.
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        self.held.split(permits).map(|held| Self { held })
    }

    /// How many they are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.held.permits as usize
    }

    /// Whose they are.
    #[must_use]
    pub fn semaphore(&self) -> &'a Semaphore {
        self.held.semaphore
    }
}

impl fmt::Debug for SemaphorePermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("permits", &self.held.permits)
            .finish_non_exhaustive()
    }
}

/// As [`SemaphorePermit`]; keeps the semaphore and borrows nothing.
#[must_use = "permits that are dropped are given back"]
pub struct OwnedSemaphorePermit {
    held: Held<Arc<Semaphore>>,
}

impl OwnedSemaphorePermit {
    pub(super) fn new(held: Held<Arc<Semaphore>>) -> Self {
        Self { held }
    }

    /// Takes them away for ever: they are not given back.
    pub fn forget(mut self) {
        self.held.permits = 0;
    }

    /// Takes `other` in; both are given back as one.
    ///
    /// # Panics
    /// As [`SemaphorePermit::merge`].
    #[track_caller]
    pub fn merge(&mut self, other: Self) {
        self.held.merge(other.held);
    }

    /// Parts with so many of them, if it has as many.
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        self.held.split(permits).map(|held| Self { held })
    }

    /// How many they are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.held.permits as usize
    }

    /// Whose they are.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.held.semaphore
    }
}

impl fmt::Debug for OwnedSemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSemaphorePermit")
            .field("permits", &self.held.permits)
            .finish_non_exhaustive()
    }
}
