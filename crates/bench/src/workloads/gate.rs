//! The start barrier: every task reports ready, waits, and all go at once.
//!
//! Creation is so excluded from the time. Nothing in it belongs to one runtime: the reports and the signal are
//! async-channels, and the signal is that the second one closes.

use std::convert::Infallible;

use async_channel::{Receiver, Sender};

use crate::outcome::Stop;

/// What a task waits at.
#[derive(Clone, Debug)]
pub struct Gate {
    ready: Sender<()>,
    go: Receiver<Infallible>,
}

/// What opens the gate.
#[derive(Debug)]
pub struct Opener {
    ready: Receiver<()>,
    go: Sender<Infallible>,
}

/// Makes a closed gate.
#[must_use]
pub fn gate() -> (Opener, Gate) {
    let (ready_sender, ready) = async_channel::unbounded();
    let (go, go_receiver) = async_channel::bounded(1);
    (
        Opener { ready, go },
        Gate {
            ready: ready_sender,
            go: go_receiver,
        },
    )
}

impl Gate {
    /// Reports ready and waits until the gate opens.
    pub async fn pass(self) {
        // An error would mean that the opener is gone, which opens the gate too.
        let _ = self.ready.send(()).await;
        let _ = self.go.recv().await;
    }
}

impl Opener {
    /// Waits until `tasks` tasks have reported.
    ///
    /// # Errors
    /// [`Stop::Failed`] if a task ended before it reported.
    pub async fn all_ready(&self, tasks: usize) -> Result<(), Stop> {
        for arrived in 0..tasks {
            if self.ready.recv().await.is_err() {
                return Err(Stop::failed(format!(
                    "only {arrived} of {tasks} tasks came to the start"
                )));
            }
        }
        Ok(())
    }

    /// Lets everybody go.
    pub fn open(self) {
        self.go.close();
    }
}
