//! A handle that does not keep the channel open.

use std::fmt;
use std::sync::Arc;

use super::Sender;
use super::shared::Shared;
use super::state::Side;

/// A sending handle that doesn't count: the channel is closed when the last [`Sender`] is dropped, however many of
/// these there are.
///
/// For who only sends while somebody else does, as a task that keeps a channel to itself. The memory of the channel
/// stays until the last of these is gone, too; the messages inside don't.
///
/// ```
/// let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
/// let weak = sender.downgrade();
/// weak.upgrade().expect("there is a sender").try_send(1).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.try_recv(), Ok(1));
/// assert!(receiver.try_recv().unwrap_err().is_closed());
/// ```
pub struct WeakSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A handle of the same channel that doesn't keep it open.
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender::new(&self.shared)
    }
}

impl<T> WeakSender<T> {
    fn new(shared: &Arc<Shared<T>>) -> Self {
        shared.weak_added();
        Self {
            shared: Arc::clone(shared),
        }
    }

    /// A sender, if there is one still: a channel whose last one is gone has none for good. It may have been closed all
    /// the same.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        self.shared
            .handle_revived(Side::Senders)
            .then(|| Sender::new(Arc::clone(&self.shared)))
    }

    /// Sending handles of this channel, without such as this one.
    pub fn sender_count(&self) -> usize {
        self.shared.count(Side::Senders)
    }

    /// Handles as this one.
    pub(in crate::sync) fn weak_count(&self) -> usize {
        self.shared.weak_count()
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.shared.weak_dropped();
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}
