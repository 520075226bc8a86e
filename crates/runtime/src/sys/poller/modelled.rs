//! In models: events that the model fires, beside a condition variable. No descriptor is ever looked at.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Event, Interest};
use crate::primitives::{Condvar, Mutex, wait_on};

/// What stands for a set of descriptors.
#[derive(Debug)]
pub(crate) struct Poller {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    fired: Vec<Event>,
    notified: bool,
}

/// The events of one wait.
#[derive(Debug, Default)]
pub(crate) struct Events(Vec<Event>);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn add(&self, _fd: BorrowedFd<'_>, _key: u64, _interest: Interest) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn modify(&self, _fd: BorrowedFd<'_>, _key: u64, _interest: Interest) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn remove(&self, _fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// As the kernel does when a descriptor changes.
    pub(crate) fn fire(&self, event: Event) {
        self.state.lock().unwrap().fired.push(event);
        self.changed.notify_one();
    }

    /// Without a time-out it ends with an event or a notification, as in the kernel; with one it may also end at once.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<bool> {
        events.0.clear();
        let mut state = self.state.lock().unwrap();
        while timeout.is_none() && state.fired.is_empty() && !state.notified {
            match wait_on(&self.changed, state, None) {
                Some(guard) => state = guard,
                None => unreachable!("a wait without a limit ends with the lock"),
            }
        }
        std::mem::swap(&mut events.0, &mut state.fired);
        Ok(std::mem::take(&mut state.notified))
    }

    pub(crate) fn notify(&self) -> io::Result<()> {
        self.state.lock().unwrap().notified = true;
        self.changed.notify_one();
        Ok(())
    }
}

impl Events {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().copied()
    }
}
