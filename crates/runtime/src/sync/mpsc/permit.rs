//! Places that are reserved before the message is there.

use std::fmt;

use super::{Sender, mpmc};

/// A place in a channel for one message, from [`Sender::reserve`] and [`Sender::try_reserve`]. Dropping it gives the
/// place to the next who waits for one.
///
/// While it is out a channel that is closed is not at its end: the receiver waits for its message. Forgetting it
/// ([`mem::forget`](std::mem::forget)) takes the place for ever, and if the channel is closed the receiver waits for
/// that message for ever.
#[must_use = "a permit that is dropped gives its place back"]
pub struct Permit<'a, T> {
    inner: mpmc::Permit<'a, T>,
}

impl<'a, T> Permit<'a, T> {
    #[inline]
    pub(super) fn new(inner: mpmc::Permit<'a, T>) -> Self {
        Self { inner }
    }

    /// Sends a message, also if the channel has been closed meanwhile. If the receiver is gone it is dropped, and
    /// nobody is told.
    ///
    /// ```
    /// let (sender, mut receiver) = quadrille::sync::mpsc::channel(1);
    /// let permit = sender.try_reserve().unwrap();
    /// receiver.close();
    /// permit.send(1);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn send(self, message: T) {
        self.inner.send(message);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// A [`Permit`] that borrows nothing, from [`Sender::reserve_owned`] and [`Sender::try_reserve_owned`]. It counts as a
/// sender, since it holds one.
#[must_use = "a permit that is dropped gives its place back"]
pub struct OwnedPermit<T> {
    inner: mpmc::OwnedPermit<T>,
}

impl<T> OwnedPermit<T> {
    #[inline]
    pub(super) fn new(inner: mpmc::OwnedPermit<T>) -> Self {
        Self { inner }
    }

    /// Sends a message as [`Permit::send`] does, and gives the sender back.
    #[inline]
    pub fn send(self, message: T) -> Sender<T> {
        Sender::new(self.inner.send(message))
    }

    /// Gives the place back without a message, and the sender.
    ///
    /// ```
    /// let (sender, _receiver) = quadrille::sync::mpsc::channel::<u8>(1);
    /// let permit = sender.try_reserve_owned().unwrap();
    /// let sender = permit.release();
    /// assert_eq!(sender.capacity(), 1);
    /// ```
    #[inline]
    pub fn release(self) -> Sender<T> {
        Sender::new(self.inner.release())
    }

    /// Whether the places of both are in one channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        self.inner.same_channel(&other.inner)
    }

    /// Whether the place is in the channel of `sender`.
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.inner.same_channel_as_sender(&sender.inner)
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}
