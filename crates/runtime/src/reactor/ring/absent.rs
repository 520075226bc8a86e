//! Where there is no io_uring: no ring is ever made.

use std::task::Waker;

/// The rings of a runtime: never any.
#[derive(Debug)]
pub(crate) enum Rings {}

/// A worker's ring: never one.
#[derive(Debug)]
pub(crate) enum Ring {}

impl Rings {
    pub(crate) fn of(&self, _worker: usize) -> &Ring {
        match *self {}
    }

    pub(crate) fn any_queued(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }

    pub(crate) fn drain(&self) {
        match *self {}
    }
}

impl Ring {
    pub(crate) fn has_queued(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_busy(&self) -> bool {
        match *self {}
    }

    pub(crate) fn submit(&self, _wakers: &mut Vec<Waker>) {
        match *self {}
    }

    pub(crate) fn try_submit(&self, _wakers: &mut Vec<Waker>) {
        match *self {}
    }

    pub(crate) fn reap(&self, _wakers: &mut Vec<Waker>) {
        match *self {}
    }
}
