//! Ending well: Ctrl-C stops what comes in, what was accepted is finished, and the runtime ends within bounded time.
//!
//! Nobody sits at the keyboard of a test, so a child process sends the signal. With `--by-hand` it is you: press
//! Ctrl-C.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quadrille::process::Command;
use quadrille::signal::unix::{SignalKind, signal};
use quadrille::sync::mpmc;
use quadrille::time::{sleep, timeout};
use quadrille::{JoinSet, Runtime};

const WORKERS: usize = 4;

/// Longer than any job takes: whoever is not done by then is left behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// Accepts jobs without an end, and counts those that were accepted.
async fn accept(jobs: mpmc::Sender<u64>, accepted: Arc<AtomicU64>) {
    for number in 0.. {
        if jobs.send(number).await.is_err() {
            break;
        }
        accepted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does jobs until there is none and nobody will send one; how many.
async fn work(jobs: mpmc::Receiver<u64>) -> u64 {
    let mut done = 0;
    while jobs.recv().await.is_ok() {
        sleep(Duration::from_micros(100)).await;
        done += 1;
    }
    done
}

/// Serves until Ctrl-C, then finishes what was accepted. How many jobs were accepted, and done.
async fn serve(by_hand: bool) -> io::Result<(u64, u64)> {
    // First of all: a signal that comes before the first listener ends the process.
    let mut ctrl_c = signal(SignalKind::interrupt())?;
    let (sender, receiver) = mpmc::bounded(64);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(receiver.clone()));
    }
    let accepted = Arc::new(AtomicU64::new(0));
    let source = quadrille::spawn(accept(sender, Arc::clone(&accepted)));
    if !by_hand {
        sleep(Duration::from_millis(20)).await;
        Command::new("sh").args(["-c", "kill -INT $PPID"]).status().await?;
    }

    ctrl_c.recv().await;
    // No more jobs: the sender goes with its task, and the workers come to the end of the channel.
    source.abort();
    let done = timeout(PATIENCE, workers.join_all()).await?;
    Ok((accepted.load(Ordering::Relaxed), done.into_iter().sum()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let by_hand = std::env::args().any(|argument| argument == "--by-hand");
    let runtime = Runtime::new()?;
    let (accepted, done) = runtime.block_on(serve(by_hand))?;
    assert_eq!(accepted, done, "nothing that was accepted is lost");
    let left = runtime.shutdown_timeout(PATIENCE);
    assert!(left.is_empty(), "nothing is left: {left}");
    println!("interrupted: {accepted} jobs accepted, {done} done");
    Ok(())
}
