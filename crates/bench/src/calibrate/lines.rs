//! Cache lines on their way: one at a time, under a lock, and a working set at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use super::places::Places;
use super::{Effort, Measured, each, least, pause, pinned, pinned_pair};

/// A word with two lines of its own, so that fetching the neighbouring line disturbs nobody.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

/// A line from one thread to another, at each distance there is.
pub fn transfers(places: &Places, effort: Effort) -> Vec<Measured> {
    let kinds = [
        (
            "line_core",
            places.core,
            "two threads of one core",
            "there is one thread a core",
        ),
        ("line_l2", places.l2, "two cores of one L2", "no two cores share an L2"),
        (
            "line_llc",
            places.llc,
            "two cores of one LLC",
            "no two cores with L2s of their own share an LLC",
        ),
        ("line_node", places.node, "two LLCs of one node", "no node has two LLCs"),
        ("line_remote", places.remote, "two nodes", "there is one node"),
    ];
    let measured = kinds.map(|(name, cpus, between, missing)| {
        let value = cpus
            .ok_or_else(|| missing.to_owned())
            .and_then(|cpus| transfer(cpus, effort));
        Measured::cost(name, value, format!("a modified line between {between}, ns"))
    });
    measured.into()
}

/// Two threads write a word in turn; each time its line changes hands.
fn transfer(cpus: [u32; 2], effort: Effort) -> Result<u64, String> {
    let word = Alone(AtomicU64::new(0));
    let rounds = u64::from(effort.operations) * u64::from(effort.batches);
    let turn = |wanted: u64| {
        let mut waited = 0;
        // Ordering: Acquire; pairs with the Release store below, so that turns cannot overlap.
        while word.0.load(Ordering::Acquire) != wanted {
            pause(&mut waited);
        }
        // Ordering: Release; see above.
        word.0.store(wanted + 1, Ordering::Release);
    };
    let partner = || (0..rounds).for_each(|round| turn(2 * round + 1));
    let mut round = 0;
    let leader = || {
        least(effort, 2 * effort.operations, || {
            for _ in 0..effort.operations {
                turn(2 * round);
                round += 1;
            }
        })
    };
    pinned_pair(cpus, leader, partner)
}

/// A lock that serves in order of arrival; all its waiters read one word.
#[derive(Debug, Default)]
struct TicketLock {
    next: Alone<AtomicU32>,
    serving: Alone<AtomicU32>,
}

impl TicketLock {
    fn pass(&self) {
        // Ordering: Relaxed; the ticket orders nothing, `serving` does.
        let ticket = self.next.0.fetch_add(1, Ordering::Relaxed);
        let mut waited = 0;
        // Ordering: Acquire; pairs with the Release store below: the section before has ended.
        while self.serving.0.load(Ordering::Acquire) != ticket {
            pause(&mut waited);
        }
        // Ordering: Release; see above.
        self.serving.0.store(ticket.wrapping_add(1), Ordering::Release);
    }
}

/// What each waiter beyond the first adds to the hand-over of a lock.
pub fn lock_waiter(places: &Places, effort: Effort) -> Measured {
    let cpus = &places.cores_of_llc;
    let value = if cpus.len() < 3 {
        Err(format!("it takes three cores of one LLC, there are {}", cpus.len()))
    } else {
        contended(&cpus[..2], effort).and_then(|two| {
            let all = contended(cpus, effort)?;
            Ok(all.saturating_sub(two) / (cpus.len() as u64 - 2))
        })
    };
    Measured::cost(
        "lock_waiter",
        value,
        "a lock's hand-over, more for each waiter beyond the first, ns",
    )
}

/// What one passage takes while one thread on each CPU wants the lock.
fn contended(cpus: &[u32], effort: Effort) -> Result<u64, String> {
    for &cpu in cpus {
        pinned(cpu, || ())?;
    }
    let lock = TicketLock::default();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for &cpu in cpus {
            let lock = &lock;
            scope.spawn(move || pinned_passes(cpu, lock, effort.operations));
        }
    });
    let passes = effort
        .operations
        .saturating_mul(u32::try_from(cpus.len()).unwrap_or(u32::MAX));
    Ok(each(start.elapsed(), passes))
}

fn pinned_passes(cpu: u32, lock: &TicketLock, passes: u32) {
    // It was possible a moment ago; if it no longer is, the figure is wrong and nothing worse.
    let _ = quadrille_topology::pin_current_thread(cpu);
    (0..passes).for_each(|_| lock.pass());
}

/// By how much a thread slows down while its sibling works, in 1/1024.
pub fn smt_slowdown(places: &Places, effort: Effort) -> Measured {
    let how = "time of a loop beside one on the same core, 1024 is no difference";
    let Some([first, second]) = places.core else {
        return Measured::cost("smt_slowdown", Err("there is one thread a core".to_owned()), how);
    };
    let work = || least(effort, 1, || black_box_work(effort.operations));
    let value = pinned(first, work).and_then(|alone| {
        let done = AtomicBool::new(false);
        let beside = || {
            let time = work();
            // Ordering: Relaxed; nothing but the flag is read.
            done.store(true, Ordering::Relaxed);
            time
        };
        let sibling = || {
            // Ordering: Relaxed; see above.
            while !done.load(Ordering::Relaxed) {
                black_box_work(1000);
            }
        };
        let together = pinned_pair([first, second], beside, sibling)?;
        // Less is noise, and no cost that the simulator takes.
        Ok((together * 1024 / alone.max(1)).max(1024))
    });
    Measured::cost("smt_slowdown", value, how)
}

/// Arithmetic with some parallelism in it, as most programs have.
fn black_box_work(rounds: u32) {
    let (mut a, mut b) = (black_box(1_u64), black_box(3_u64));
    for round in 0..u64::from(rounds) {
        a = a.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(round);
        b = (b ^ (b >> 7)).wrapping_add(a >> 60);
    }
    black_box((a, b));
}

/// Sizes of working sets that are fetched again.
const REFILL_BYTES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, 1 << 20];

/// What a working set costs that another thread has written, by size; and from the smallest, how many of its lines are
/// on their way at once.
pub fn refills(places: &Places, effort: Effort) -> Vec<Measured> {
    let missing = || Err("it takes two hardware threads".to_owned());
    let mut all = Vec::new();
    for bytes in REFILL_BYTES {
        let value = places
            .nearest_two()
            .map_or_else(missing, |cpus| refill(cpus, bytes, effort));
        if bytes == REFILL_BYTES[0] {
            let overlap = value.clone().and_then(|time| {
                let cpus = places.nearest_two().unwrap_or_default();
                let lines = (bytes / LINE) as u64;
                Ok((lines * transfer(cpus, effort)? / time.max(1)).max(1))
            });
            let how = "lines on their way at once, from the smallest of the refills below";
            all.push(Measured::cost("cold_overlap", overlap, how));
        }
        let how = "reading as many bytes as another core has written, ns";
        all.push(Measured::note(format!("refill_{}k", bytes >> 10), value, how));
    }
    all
}

const LINE: usize = 64;

fn refill(cpus: [u32; 2], bytes: usize, effort: Effort) -> Result<u64, String> {
    let words: Vec<AtomicU64> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
    let turn = Alone(AtomicU64::new(0));
    let await_turn = |wanted: u64| {
        let mut waited = 0;
        // Ordering: Acquire; pairs with the Release store below: what the other has written is there.
        while turn.0.load(Ordering::Acquire) != wanted {
            pause(&mut waited);
        }
    };
    // Ordering: Release; see above.
    let end_turn = |next: u64| turn.0.store(next, Ordering::Release);
    let rounds = u64::from(effort.batches.max(1));
    let write = || {
        for round in 0..rounds {
            await_turn(2 * round);
            // Ordering: Relaxed; the turn publishes them.
            words
                .iter()
                .step_by(LINE / 8)
                .for_each(|word| word.store(round, Ordering::Relaxed));
            end_turn(2 * round + 1);
        }
    };
    let read = || {
        let mut least = u64::MAX;
        for round in 0..rounds {
            await_turn(2 * round + 1);
            let start = Instant::now();
            // Ordering: Relaxed; the turn made them visible.
            let sum: u64 = words
                .iter()
                .step_by(LINE / 8)
                .map(|word| word.load(Ordering::Relaxed))
                .sum();
            black_box(sum);
            least = least.min(each(start.elapsed(), 1));
            end_turn(2 * round + 2);
        }
        least
    };
    pinned_pair(cpus, read, write)
}
