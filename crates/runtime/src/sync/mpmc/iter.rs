//! A receiver as an iterator, for code in blocking style.

use std::iter::FusedIterator;

use super::Receiver;

/// The iterator of [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The iterator of [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// A receiver as an iterator, that of [`Receiver::iter`].
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Receiver<T> {
    /// All messages from now on, each waited for as by [`recv_blocking`](Self::recv_blocking); it ends when the channel
    /// is closed and drained. `for message in &receiver` is the same.
    ///
    /// ```
    /// use quadrille::sync::mpmc;
    /// use quadrille::thread;
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// let sum = runtime.spawn_thread(|| {
    ///     let (jobs, queue) = mpmc::bounded(2);
    ///     let sums = [queue.clone(), queue].map(|queue| thread::spawn(move || queue.iter().sum::<i32>()));
    ///     (1..=4).for_each(|job| jobs.send_blocking(job).unwrap());
    ///     drop(jobs);
    ///     sums.map(|thread| thread.join().unwrap()).iter().sum::<i32>()
    /// });
    /// assert_eq!(sum.join().unwrap(), 10);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    ///
    /// # Blocking
    /// In a task it holds up the worker: there a receiver is a [`Stream`](futures_core::Stream).
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// What is in the channel, as by [`try_recv`](Self::try_recv), and what comes meanwhile; it waits for nothing, and
    /// may go on after it has ended.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv_blocking().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv_blocking().ok()
    }
}

// A channel that is closed and drained stays so.
impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::unbounded;

    #[test]
    fn iterators_end_with_what_is_there_or_with_the_channel() {
        let (sender, receiver) = unbounded();
        (1..=3).for_each(|n| sender.try_send(n).unwrap());
        let mut there = receiver.try_iter();
        assert_eq!(there.by_ref().collect::<Vec<_>>(), [1, 2, 3]);
        sender.try_send(4).unwrap();
        assert_eq!(there.next(), Some(4));
        let later = std::thread::spawn(move || (5..=7).for_each(|n| sender.send_blocking(n).unwrap()));
        let mut messages = Vec::new();
        for message in &receiver {
            messages.push(message);
        }
        later.join().unwrap();
        assert_eq!(messages, [5, 6, 7]);
        let mut rest = receiver.into_iter();
        assert_eq!((rest.next(), rest.next()), (None, None));
    }
}
