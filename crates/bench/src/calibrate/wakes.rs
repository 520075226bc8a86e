//! Waking a thread that sleeps in the kernel, and one that spins.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{Flags, wait, wake};

use super::places::Places;
use super::{Effort, Measured, each, least, median, pause, pinned, pinned_pair};

/// Values of the word between waker and sleeper.
const RUNNING: u32 = 0;
const ASLEEP: u32 = 1;
const WOKEN: u32 = 2;

/// How long a sleeper has been in the kernel before it is woken, at least.
const ASLEEP_FOR: Duration = Duration::from_micros(50);

/// What waking costs both sides.
pub fn measure(places: &Places, effort: Effort) -> Vec<Measured> {
    let pair = places
        .nearest_two()
        .ok_or_else(|| "it takes two hardware threads".to_owned());
    let parked = pair.clone().and_then(|cpus| wakes(cpus, effort, Sleeper::Parked));
    let spinning = pair.and_then(|cpus| wakes(cpus, effort, Sleeper::Spinning));
    let call = parked.clone().map(|times| times.call);
    let latency = parked.map(|times| times.latency);
    let seen = spinning.map(|times| times.latency);
    vec![
        Measured::cost("unpark_call", call, "futex wake that finds a sleeper, ns"),
        Measured::cost(
            "parked_latency",
            latency,
            "from the end of that call until the sleeper runs, median, ns",
        ),
        Measured::cost(
            "park_call",
            empty_call(places, effort),
            "futex wait that returns at once, ns; sleeping takes more",
        ),
        Measured::note(
            "spinning_latency",
            seen,
            "until a spinning thread has seen a wake-up, median with the clock, ns",
        ),
    ]
}

/// A futex call with nothing to do: the way into the kernel and back.
fn empty_call(places: &Places, effort: Effort) -> Result<u64, String> {
    let word = AtomicU32::new(RUNNING);
    pinned(places.first, || {
        least(effort, effort.operations, || {
            for _ in 0..effort.operations {
                // It returns at once, because the word has another value.
                let _ = wait(&word, Flags::PRIVATE, ASLEEP, None);
            }
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleeper {
    Parked,
    Spinning,
}

#[derive(Clone)]
struct Times {
    call: u64,
    latency: u64,
}

fn wakes(cpus: [u32; 2], effort: Effort, kind: Sleeper) -> Result<Times, String> {
    let rounds = effort.long_operations();
    let word = AtomicU32::new(RUNNING);
    let start = Instant::now();
    // Nanoseconds since `start`, by the sleeper, when it ran again.
    let (sender, receiver) = std::sync::mpsc::channel::<u64>();
    let sleeper = || {
        for _ in 0..rounds {
            // Ordering: Release; the waker sees everything before the sleep as done.
            word.store(ASLEEP, Ordering::Release);
            // Ordering: Acquire; pairs with the waker's Release store.
            while word.load(Ordering::Acquire) != WOKEN {
                if kind == Sleeper::Parked {
                    // Woken, interrupted, or too late to sleep: look again.
                    let _ = wait(&word, Flags::PRIVATE, ASLEEP, None);
                }
            }
            let ran_at = each(start.elapsed(), 1);
            // Ordering: Release; the next round may begin.
            word.store(RUNNING, Ordering::Release);
            if sender.send(ran_at).is_err() {
                return;
            }
        }
    };
    let waker = || {
        let receiver = receiver;
        let (mut calls, mut latencies) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            await_sleep(&word);
            let before = each(start.elapsed(), 1);
            // Ordering: Release; pairs with the sleeper's Acquire load.
            word.store(WOKEN, Ordering::Release);
            if kind == Sleeper::Parked {
                let _ = wake(&word, Flags::PRIVATE, 1);
            }
            let after = each(start.elapsed(), 1);
            let Ok(ran_at) = receiver.recv() else {
                break;
            };
            calls.push(after - before);
            let from = if kind == Sleeper::Parked { after } else { before };
            latencies.push(ran_at.saturating_sub(from));
        }
        Times {
            call: calls.into_iter().min().unwrap_or(0),
            latency: median(latencies),
        }
    };
    pinned_pair(cpus, waker, sleeper)
}

/// Until the sleeper has said that it will sleep, and has had the time to get there.
fn await_sleep(word: &AtomicU32) {
    let mut waited = 0;
    // Ordering: Acquire; pairs with the sleeper's Release store.
    while word.load(Ordering::Acquire) != ASLEEP {
        pause(&mut waited);
    }
    let asleep = Instant::now();
    while asleep.elapsed() < ASLEEP_FOR {
        std::hint::spin_loop();
    }
}
