//! Latency and bandwidth of memory.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use quadrille_topology::{Topology, pin_current_thread};

use super::places::Places;
use super::{Effort, Measured, each, pinned};

const WORD: usize = size_of::<usize>();
const LINE: usize = 64;
/// Bytes that all threads of a node stream through together, at most.
const NODE_BYTES_MAX: usize = 1 << 30;

/// Four times the last-level cache, or as much as the effort allows.
fn working_set(machine: &Topology, effort: Effort) -> usize {
    const UNKNOWN_LLC: u64 = 32 << 20;
    let llc = machine.llcs()[0].size_bytes.unwrap_or(UNKNOWN_LLC);
    usize::try_from(llc.saturating_mul(4))
        .unwrap_or(usize::MAX)
        .clamp(1 << 20, effort.bytes_max)
}

/// A line from memory: each load says where the next one goes, so that none can be begun early.
pub fn latency(machine: &Topology, places: &Places, effort: Effort) -> Measured {
    let bytes = working_set(machine, effort);
    let value = pinned(places.first, || {
        let chain = chain(bytes / LINE);
        let mut place = 0;
        super::least(effort, effort.operations, || {
            for _ in 0..effort.operations {
                place = chain[place * (LINE / WORD)];
            }
            black_box(place);
        })
    });
    let how = format!("a line of {} MiB in an order that cannot be foreseen, ns", bytes >> 20);
    Measured::cost("line_memory", value, how)
}

/// One cycle through all lines in a shuffled order; the first word of a line is the number of the next line.
fn chain(lines: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 0x5EED_u64;
    for index in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (index as u64 + 1)).unwrap_or(0);
        order.swap(index, other);
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
    let bytes = working_set(machine, effort);
    let one = stream(&[places.first], bytes, effort);
    let node = &machine.nodes()[0];
    let cpus: Vec<u32> = machine
        .pus()
        .iter()
        .filter(|pu| pu.node == node.id)
        .map(|pu| pu.os_index)
        .collect();
    let share = bytes.min(NODE_BYTES_MAX / cpus.len()).max(1 << 20);
    let all = stream(&cpus, share, effort);
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
