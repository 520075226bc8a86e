//! A handle that does not keep the channel open.

use std::fmt;
use std::sync::Arc;

use super::{Sender, Shared};

/// A sending handle that doesn't count: the channel is closed when the last [`Sender`] is dropped, however many of
/// these there are.
///
/// For who only sends while somebody else does, as a task that receives what it sends itself. The memory of the channel
/// stays until the last of these is gone, too; the messages inside go with the last receiver.
///
/// ```
/// use quadrille::sync::broadcast::{self, TryRecvError};
///
/// let (sender, mut receiver) = broadcast::channel(1);
/// let weak = sender.downgrade();
/// weak.upgrade().expect("there is a sender").send(1).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.try_recv(), Ok(1));
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
pub struct WeakSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A handle of the same channel that doesn't keep it open.
    #[must_use]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            shared: self.shared.clone(),
        }
    }
}

impl<T> WeakSender<T> {
    /// A sender, if there is one still: a channel whose last one is gone has none for good.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let is_open = self.shared.end.with(|end| {
            end.senders += usize::from(end.senders > 0);
            end.senders > 0
        });
        is_open.then(|| Sender {
            shared: self.shared.clone(),
        })
    }

    /// Sending handles of this channel, without such as this one.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.shared.end.with(|end| end.senders)
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}
