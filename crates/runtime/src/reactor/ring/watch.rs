//! Hearing of results: a ring's descriptor as a source of its cache's shard.

use std::io;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::Rings;
use crate::reactor::{Registration, Side, wake_each};

/// What waits for a ring's descriptor in place of a task: called, it takes the results out and waits again.
#[derive(Debug)]
pub(super) struct Watch {
    rings: Weak<Rings>,
    index: usize,
    registration: Registration,
}

impl Watch {
    /// Waits for the results of ring `index`, whose descriptor is registered.
    pub(super) fn begin(rings: &Arc<Rings>, index: usize, registration: Registration) -> Arc<Self> {
        let watch = Arc::new(Self {
            rings: Arc::downgrade(rings),
            index,
            registration,
        });
        Arc::clone(&watch).wake();
        watch
    }

    fn look(self: &Arc<Self>, rings: &Rings) -> io::Result<()> {
        let ring = &rings.rings[self.index];
        let waker = Waker::from(Arc::clone(self));
        let mut wakers = Vec::new();
        let outcome = loop {
            // As whoever meets `WouldBlock`: the tick before the look, so that results which come after it are an event
            // of their own.
            let tick = self.registration.tick(Side::Read);
            ring.reap(&mut wakers);
            self.registration.clear_readiness(Side::Read, tick);
            match self.registration.enlist_reader(&waker) {
                Ok(false) => break Ok(()),
                Ok(true) => {}
                Err(closed) => break Err(closed),
            }
        };
        wake_each(&mut wakers);
        outcome
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        if let Some(rings) = self.rings.upgrade() {
            // Closed: the runtime has shut down, and whoever does that takes the rest out.
            let _ = self.look(&rings);
        }
    }
}
