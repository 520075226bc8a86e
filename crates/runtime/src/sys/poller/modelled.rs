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
    sources: Vec<Watched>,
    fired: Vec<Event>,
    notified: bool,
}

/// A descriptor, as the kernel sees it.
#[derive(Debug)]
struct Watched {
    interest: Interest,
    /// What is so now: all that has been fired.
    is: Event,
}

impl State {
    fn source(&mut self, key: u64) -> &mut Watched {
        let source = self.sources.iter_mut().find(|source| source.is.key == key);
        source.expect("it was added")
    }

    /// Tells of what `event` says of the sides that are of interest.
    fn tell(&mut self, event: Event) {
        let interest = self.source(event.key).interest;
        let event = Event {
            readable: event.readable && interest.readable,
            writable: event.writable && interest.writable,
            ..event
        };
        if event.readable || event.writable || event.ended {
            self.fired.push(event);
        }
    }
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

    pub(crate) fn add(&self, _fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let is = Event {
            key,
            readable: false,
            writable: false,
            ended: false,
        };
        self.state.lock().unwrap().sources.push(Watched { interest, is });
        Ok(())
    }

    pub(crate) fn modify(&self, _fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let source = state.source(key);
        source.interest = interest;
        let is = source.is;
        state.tell(is);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// No descriptor is looked at, so none is known by it: no model fires one that it has removed.
    pub(crate) fn remove(&self, _fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// As the kernel does when a descriptor changes.
    pub(crate) fn fire(&self, event: Event) {
        let mut state = self.state.lock().unwrap();
        let is = &mut state.source(event.key).is;
        is.readable |= event.readable;
        is.writable |= event.writable;
        is.ended |= event.ended;
        state.tell(event);
        drop(state);
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
