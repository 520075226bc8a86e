//! Where the threads of this process may run, and waiting for it: they name and pin themselves.

use std::thread;
use std::time::{Duration, Instant};

use quadrille::topology::PuSet;

/// Far longer than it takes on any machine, an emulated one too.
const LIMIT: Duration = Duration::from_secs(120);

/// The CPUs that the thread called `name` may use, once there is one.
pub(crate) fn cpus_of(name: &str) -> Option<PuSet> {
    let thread = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name))?;
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Some(cpus.unwrap().trim().parse().unwrap())
}

/// Looks until `get` gives a value that `wanted` accepts, at most for two minutes; then whatever it gives.
pub(crate) fn wait_for<T>(get: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let value = get();
        if wanted(&value) || start.elapsed() > LIMIT {
            return value;
        }
        // Out of the way of the workers; nothing depends on how long it is.
        thread::park_timeout(Duration::from_millis(10));
    }
}
