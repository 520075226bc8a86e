//! Very many threads that all sleep at the same time, and are all woken.
//!
//! `cargo run --release --example sleeping_threads -- [THREADS]`; 20,000 by default, and 1,000,000 is a fair number. A
//! sleeping thread costs what its stack has been used for, a page or so: the rest of it is only an address.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quadrille::sync::mpmc::{self, Receiver};
use quadrille::{Wait, thread};

/// Enough for what runs here, without optimizations too.
const STACK_SIZE: usize = 32 * 1024;

/// What a sleeper does, and what it returns when it has been woken.
fn sleeper(number: u64, asleep: &AtomicU64, alarm: &Receiver<()>) -> u64 {
    // Relaxed: a count for the report, nothing is published with it.
    asleep.fetch_add(1, Ordering::Relaxed);
    // The alarm is that the channel closes.
    alarm.recv().wait().expect_err("nothing is ever sent");
    number
}

/// Makes `count` threads, lets them all sleep at once, and wakes them. The sum of their numbers.
fn put_to_sleep(count: u64) -> io::Result<u64> {
    let asleep = Arc::new(AtomicU64::new(0));
    let (clock, alarm) = mpmc::bounded::<()>(1);

    let begin = Instant::now();
    let mut threads = Vec::new();
    for number in 0..count {
        let (asleep, alarm) = (Arc::clone(&asleep), alarm.clone());
        // An error if there is no memory, or if the kernel allows no more mappings.
        let thread = thread::Builder::new()
            .stack_size(STACK_SIZE)
            .spawn(move || sleeper(number, &asleep, &alarm))?;
        threads.push(thread);
    }
    // Relaxed: as above.
    while asleep.load(Ordering::Relaxed) < count {
        thread::yield_now();
    }
    println!("{count} threads made in {:.2} s", begin.elapsed().as_secs_f64());
    thread::sleep(Duration::from_millis(10));
    assert!(threads.iter().all(|thread| !thread.is_finished()));

    let begin = Instant::now();
    clock.close();
    let mut sum = 0;
    for thread in threads {
        sum += thread.join().expect("no sleeper panics");
    }
    println!("all woken and joined in {:.2} s", begin.elapsed().as_secs_f64());
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let runtime = quadrille::Runtime::new()?;
    // A thread makes them, so that a count which is not complete is waited for by giving way.
    let root = runtime.spawn_thread(move || put_to_sleep(count));
    let sum = root.join().expect("it does not panic")?;
    assert_eq!(sum, count * count.saturating_sub(1) / 2, "each was woken");
    Ok(())
}
