//! A worker that is pinned to a CPU which others want. In a program of its own: the test needs the machine to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quadrille::topology::{PuSet, set_current_affinity};
use quadrille::{Runtime, task};

/// The CPUs of the thread of this process that is called `name`.
fn cpus_of(name: &str) -> String {
    let thread = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .unwrap();
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus.unwrap().trim().to_owned()
}

#[test]
fn a_worker_leaves_a_crowded_cpu() {
    let runtime = Runtime::builder().thread_name("crowd").build().unwrap();
    let before = cpus_of("crowd-0");
    let pinned = runtime.handle().report().contains("pinned one to one");
    let has_neighbours = runtime.handle().worker_count() > 1;
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").is_ok();
    if !pinned || !has_neighbours || !counted {
        assert_eq!(runtime.metrics().total().pin_fallbacks, 0);
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let cpu: PuSet = before.parse().unwrap();
    assert_eq!(cpu.len(), 1, "one to one: {before}");
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
    let start = Instant::now();
    while runtime.metrics().workers[0].pin_fallbacks == 0 && start.elapsed() < Duration::from_secs(20) {
        // Not in the way of the workers, and nothing depends on how long it is.
        thread::park_timeout(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(
        runtime.metrics().workers[0].pin_fallbacks,
        1,
        "after {:?}",
        start.elapsed()
    );
    let after: PuSet = cpus_of("crowd-0").parse().unwrap();
    assert!(after.len() > 1, "{before} before, {after} after");
}
