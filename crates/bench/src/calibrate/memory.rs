//! Latency and bandwidth of memory.
//!
//! What is read must not come out of the last-level cache, so it is four times as large, or at least twice. Where that
//! would be more memory than there is to spare, or than the effort allows, nothing is measured.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use quadrille_topology::{Llc, Topology, pin_current_thread};

use super::places::Places;
use super::{Effort, Measured, each, pinned};
use crate::process::available_bytes;

const WORD: usize = size_of::<usize>();
const LINE: usize = 64;
/// Bytes that all threads of a node stream through together, where that is enough to get past their caches.
const NODE_BYTES: usize = 1 << 30;

/// A last-level cache, and how many threads read past it at once.
struct Readers {
    llc_bytes: u64,
    threads: usize,
}

impl Readers {
    fn of(llc: &Llc, threads: usize) -> Self {
        const UNKNOWN_LLC: u64 = 32 << 20;
        let llc_bytes = llc.size_bytes.unwrap_or(UNKNOWN_LLC);
        Self { llc_bytes, threads }
    }

    /// What each has to read for all of them to read twice the cache.
    fn share_min(&self) -> usize {
        let share = self.llc_bytes.saturating_mul(2).div_ceil(self.threads as u64);
        usize::try_from(share).unwrap_or(usize::MAX)
    }
}

/// Bytes that one thread reads. `available` is the memory that may be had, if that is known.
fn working_set(machine: &Topology, effort: Effort, available: Option<u64>) -> Result<usize, String> {
    share(&[Readers::of(&machine.llcs()[0], 1)], effort, available)
}

/// Bytes that each thread of the first node reads, while all of them do.
fn node_share(machine: &Topology, effort: Effort, available: Option<u64>) -> Result<usize, String> {
    let node = machine.nodes()[0].id;
    let llcs = machine.llcs().iter().filter(|llc| llc.node == node);
    let readers: Vec<Readers> = llcs.map(|llc| Readers::of(llc, llc.pus.len())).collect();
    share(&readers, effort, available)
}

/// Four times the largest cache for each thread, or as much as the effort allows; more if that is no twice of a cache,
/// and there is the memory.
fn share(readers: &[Readers], effort: Effort, available: Option<u64>) -> Result<usize, String> {
    let threads = readers.iter().map(|readers| readers.threads).sum::<usize>().max(1);
    let llc_bytes = readers.iter().map(|readers| readers.llc_bytes).max().unwrap_or(0);
    let usual = usize::try_from(llc_bytes.saturating_mul(4))
        .unwrap_or(usize::MAX)
        .min(effort.bytes_max)
        .min(NODE_BYTES / threads)
        .max(1 << 20);
    let share_min = readers.iter().map(Readers::share_min).max().unwrap_or(0);
    if share_min <= usual {
        return Ok(usual);
    }
    let needed = share_min.saturating_mul(threads);
    let spare = usize::try_from(available.unwrap_or(0) / 4).unwrap_or(usize::MAX);
    if needed <= spare.min(effort.bytes_max_past_llc) {
        return Ok(share_min);
    }
    let limit = if effort.bytes_max_past_llc < needed {
        format!("this effort reads {} MiB at most", (usual * threads) >> 20)
    } else if let Some(bytes) = available {
        format!("a quarter of the {} MiB of memory available is less", bytes >> 20)
    } else {
        "how much memory is available is not known".to_owned()
    };
    Err(format!(
        "it takes {} MiB to get past a last-level cache of {} MiB, and {limit}",
        needed >> 20,
        llc_bytes >> 20
    ))
}

/// A line from memory: each load says where the next one goes, so that none can be begun early.
pub fn latency(machine: &Topology, places: &Places, effort: Effort) -> Measured {
    let bytes = working_set(machine, effort, available_bytes().ok());
    let size = bytes
        .as_ref()
        .map_or_else(|_| "memory".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let value = bytes.and_then(|bytes| chase(places.first, bytes, effort));
    let how = format!("a line of {size} in an order that cannot be foreseen, ns");
    Measured::cost("line_memory", value, how)
}

/// The least time of a load from a chain of so many bytes.
fn chase(cpu: u32, bytes: usize, effort: Effort) -> Result<u64, String> {
    pinned(cpu, || {
        let chain = chain(bytes / LINE);
        let mut place = 0;
        super::least(effort, effort.operations, || {
            for _ in 0..effort.operations {
                place = chain[place * (LINE / WORD)];
            }
            black_box(place);
        })
    })
}

/// One cycle through all lines in a shuffled order; the first word of a line is the number of the next line.
///
/// It begins with line 0 and is written in its own order, so that who follows it from there comes first to lines that
/// were written longest ago: those written last are in the cache.
fn chain(lines: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 0x5EED_u64;
    for index in (2..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % index as u64).unwrap_or(0);
        order.swap(index, 1 + other);
    }
    let mut chain = vec![0; lines * (LINE / WORD)];
    for pair in order.windows(2) {
        chain[pair[0] * (LINE / WORD)] = pair[1];
    }
    if let (Some(&first), Some(&last)) = (order.first(), order.last()) {
        chain[last * (LINE / WORD)] = first;
    }
    chain
}

/// Reading from memory, one thread and all threads of a node; bytes in 1024 ns.
pub fn bandwidths(machine: &Topology, places: &Places, effort: Effort) -> [Measured; 2] {
    let one =
        working_set(machine, effort, available_bytes().ok()).and_then(|bytes| stream(&[places.first], bytes, effort));
    let node = &machine.nodes()[0];
    let cpus: Vec<u32> = machine
        .pus()
        .iter()
        .filter(|pu| pu.node == node.id)
        .map(|pu| pu.os_index)
        .collect();
    let all = node_share(machine, effort, available_bytes().ok()).and_then(|share| stream(&cpus, share, effort));
    [
        Measured::cost(
            "node_bandwidth",
            all,
            "reading by all threads of the first node, bytes in 1024 ns",
        ),
        Measured::cost("thread_bandwidth", one, "reading by one thread, bytes in 1024 ns"),
    ]
}

/// The best round in which every thread reads an array of its own.
fn stream(cpus: &[u32], bytes: usize, effort: Effort) -> Result<u64, String> {
    for &cpu in cpus {
        pinned(cpu, || ())?;
    }
    let rounds = effort.batches.clamp(2, 8);
    let start_line = Barrier::new(cpus.len());
    let slowest: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                let start_line = &start_line;
                scope.spawn(move || read_rounds(cpu, bytes, rounds, start_line))
            })
            .collect();
        let times: Vec<Vec<u64>> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        let rounds = 0..usize::try_from(rounds).unwrap_or(0);
        // Touched for the first time in the first round, which says nothing.
        let of_all = |round: usize| times.iter().filter_map(|times| times.get(round)).max().copied();
        rounds.skip(1).filter_map(of_all).collect()
    });
    let best = slowest.into_iter().min().ok_or("a reading thread panicked")?;
    let total = (bytes * cpus.len()) as u64;
    Ok(total * 1024 / best.max(1))
}

fn read_rounds(cpu: u32, bytes: usize, rounds: u32, start_line: &Barrier) -> Vec<u64> {
    // It was possible a moment ago; if it no longer is, the figure is wrong and nothing worse.
    let _ = pin_current_thread(cpu);
    let array = vec![1_u64; bytes / 8];
    let mut times = Vec::new();
    for _ in 0..rounds {
        start_line.wait();
        let start = Instant::now();
        black_box(black_box(&array).iter().sum::<u64>());
        times.push(each(start.elapsed(), 1));
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Compares a working set, in MiB, or how the reason for none ends.
    #[track_caller]
    fn check(bytes: Result<usize, String>, expected: Result<u64, &str>) {
        match (bytes, expected) {
            (Ok(bytes), Ok(mib)) => assert_eq!(bytes as u64, mib * MIB),
            (Err(missing), Err(end)) => assert!(missing.ends_with(end), "{missing}\ndoes not end with\n{end}"),
            (bytes, expected) => panic!("{bytes:?} in place of {expected:?}"),
        }
    }

    #[test]
    fn a_working_set_is_larger_than_the_cache_or_there_is_none() {
        #[track_caller]
        fn one(machine: &str, effort: Effort, available: Option<u64>, expected: Result<u64, &str>) {
            check(working_set(&machine.parse().unwrap(), effort, available), expected);
        }
        let (full, quick) = (Effort::FULL, Effort::QUICK);
        let large = "core:2 llc-size:272629760";
        let takes = "it takes 520 MiB to get past a last-level cache of 260 MiB, and ";
        one(large, full, Some(2080 * MIB), Ok(520));
        let missing = format!("{takes}a quarter of the 2079 MiB of memory available is less");
        one(large, full, Some(2080 * MIB - 1), Err(&missing));
        let missing = format!("{takes}how much memory is available is not known");
        one(large, full, None, Err(&missing));
        let missing = format!("{takes}this effort reads 4 MiB at most");
        one(large, quick, Some(1 << 40), Err(&missing));
        // What the effort allows is enough.
        one("core:2 llc-size:134217728", full, None, Ok(256));
        one("core:2 llc-size:33554432", full, None, Ok(128));
        one("core:2", full, None, Ok(128));
        one("core:2 llc-size:131072", full, None, Ok(1));
        one("core:2 llc-size:2097152", quick, None, Ok(4));
    }

    #[test]
    fn the_threads_of_a_node_read_more_than_their_caches_or_nothing() {
        #[track_caller]
        fn node(machine: &str, effort: Effort, available: Option<u64>, expected: Result<u64, &str>) {
            check(node_share(&machine.parse().unwrap(), effort, available), expected);
        }
        let (full, quick) = (Effort::FULL, Effort::QUICK);
        let large = "core:2 llc-size:272629760";
        node(large, full, Some(2080 * MIB), Ok(260));
        let missing = "it takes 520 MiB to get past a last-level cache of 260 MiB, and this effort reads 8 MiB at most";
        node(large, quick, Some(1 << 40), Err(missing));
        // 1 GiB is enough for 96 threads behind one cache, but not for 12 caches of 96 MiB.
        node("core:128 llc-size:272629760", full, None, Ok(8));
        let many = "llc:12 core:16 llc-size:100663296";
        node(many, full, Some(64 << 30), Ok(12));
        let missing = "it takes 2304 MiB to get past a last-level cache of 96 MiB, \
            and a quarter of the 8192 MiB of memory available is less";
        node(many, full, Some(8 << 30), Err(missing));
        // The thread that is alone behind a cache decides.
        node("llc:[core:8, core:1] llc-size:134217728", full, Some(1 << 40), Ok(256));
        // Of the other node there is nothing to know.
        node(
            "node:[core:2, core:1] llc-size:33554432,4294967296",
            full,
            None,
            Ok(128),
        );
        node("core:16 llc-size:33554432", quick, None, Ok(4));
    }

    /// With `--quick` nothing else calls them where the caches are large.
    #[test]
    fn a_small_set_is_chased_and_streamed() {
        let machine = quadrille_topology::discover().topology;
        let cpus: Vec<u32> = machine.pus().iter().map(|pu| pu.os_index).take(2).collect();
        chase(cpus[0], 1 << 20, Effort::QUICK).unwrap();
        assert!(stream(&cpus, 1 << 20, Effort::QUICK).unwrap() > 0);
    }

    #[test]
    fn a_chain_visits_every_line_once() {
        let lines = 1000;
        let chain = chain(lines);
        let mut seen = vec![false; lines];
        let mut place = 0;
        for _ in 0..lines {
            assert!(!seen[place], "line {place} twice");
            seen[place] = true;
            place = chain[place * (LINE / WORD)];
        }
        assert_eq!(place, 0);
    }
}
