//! How far a long run is: senders tick, a thread prints the fraction now and then.
//!
//! Only on demand: the thread wakes four times a second, which a measurement need not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Ticks a sender gives in the whole run.
const TICKS_PER_SENDER: usize = 64;

/// Shared by the senders of a run; without effect unless asked for.
#[derive(Clone, Debug, Default)]
pub struct Progress(Option<Arc<AtomicU64>>);

impl Progress {
    /// Starts to report, for `senders` senders, lines such as `progress 320 1280` on stderr.
    #[must_use]
    pub fn start(wanted: bool, senders: usize) -> Self {
        if !wanted {
            return Self(None);
        }
        let ticks = Arc::new(AtomicU64::new(0));
        let all = (senders * TICKS_PER_SENDER) as u64;
        let seen = Arc::clone(&ticks);
        thread::spawn(move || report(&seen, all));
        Self(Some(ticks))
    }

    /// To be called by a sender before its loop number `index` of `loops`.
    pub fn before_loop(&self, index: usize, loops: usize) {
        if let Some(ticks) = &self.0
            && index.is_multiple_of(loops.div_ceil(TICKS_PER_SENDER))
        {
            // Relaxed: a count for the eye, nothing is published with it.
            ticks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "stderr of a child is where its parent looks for progress"
)]
fn report(ticks: &AtomicU64, all: u64) {
    loop {
        // Relaxed: as above.
        let seen = ticks.load(Ordering::Relaxed).min(all);
        // The first one says that the run begins: the warm-up was not reported.
        eprintln!("progress {seen} {all}");
        if seen == all {
            return;
        }
        thread::sleep(Duration::from_millis(250));
    }
}
