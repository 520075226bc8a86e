//! What is in a [`JoinSet`](super::JoinSet): a task, or a user-level thread, which is one that is aborted otherwise.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::task::{Id, JoinError, JoinHandle};
use crate::thread;

/// One whose result has not been taken.
pub(super) enum Member<T> {
    Task(JoinHandle<T>),
    Thread(thread::JoinHandle<T>),
}

impl<T> Member<T> {
    /// Takes `waker`, to call it at the end, unless that has come.
    pub(super) fn takes(&mut self, waker: &Waker) -> bool {
        !match self {
            Self::Task(task) => task.is_done_or_tells(waker),
            Self::Thread(thread) => thread.is_done_or_tells(waker),
        }
    }

    pub(super) fn abort(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread(thread) => thread.abort(),
        }
    }

    pub(super) fn id(&self) -> Id {
        match self {
            Self::Task(task) => task.id(),
            Self::Thread(thread) => thread.task_id(),
        }
    }
}

impl<T> Future for Member<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Task(task) => Pin::new(task).poll(cx),
            Self::Thread(thread) => Pin::new(thread).poll(cx),
        }
    }
}
