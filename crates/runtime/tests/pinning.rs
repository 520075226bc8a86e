//! A worker that is pinned to a CPU which others want. In a program of its own: the test needs the machine to itself.

mod cpus;
#[path = "../src/skipped.rs"]
mod skipped;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use quadrille::policy::{Config, Mode};
use quadrille::topology::set_current_affinity;
use quadrille::{Runtime, task};

use cpus::{cpus_of, wait_for};
use skipped::skipped;

#[test]
fn a_worker_leaves_a_crowded_cpu() {
    let mut config = Config::default();
    config.wake_groups.mode = Mode::On;
    config.pin.few = 0;
    let runtime = Runtime::builder().thread_name("crowd").config(config).build().unwrap();
    let pinned = runtime.handle().report().contains("pinned one to one");
    let has_neighbours = runtime.handle().worker_count() > 1;
    // A kernel that does not count says that this thread never had a time slice.
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").is_ok_and(|counts| {
        counts
            .split_ascii_whitespace()
            .nth(2)
            .is_some_and(|slices| slices != "0")
    });
    if !pinned || !has_neighbours || !counted {
        assert_eq!(runtime.metrics().total().pin_fallbacks, 0);
        let count = if counted {
            ""
        } else {
            ", and the kernel does not count who waits for a CPU"
        };
        return skipped(&format!("{}{count}", runtime.handle().report()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    // A worker names and pins itself.
    let before = || cpus_of("crowd-0").filter(|cpus| cpus.len() == 1);
    let cpu = wait_for(before, Option::is_some).expect("pinned one to one");
    let others: Vec<_> = (0..3)
        .map(|_| {
            let (stop, cpu) = (stop.clone(), cpu.clone());
            thread::spawn(move || {
                set_current_affinity(&cpu).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    for _ in 0..runtime.handle().worker_count() {
        let stop = stop.clone();
        drop(runtime.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                task::yield_now().await;
            }
        }));
    }
    let fallbacks = wait_for(|| runtime.metrics().workers[0].pin_fallbacks, |count| *count > 0);
    stop.store(true, Ordering::Relaxed);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(fallbacks, 1);
    // A listing of threads may end early while those end.
    let after = wait_for(|| cpus_of("crowd-0"), Option::is_some).expect("it lives");
    assert!(after.len() > 1, "{cpu} before, {after} after");
}
