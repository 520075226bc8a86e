//! Pipes and context switches of the kernel. One CPU is enough for all of it.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use super::places::Places;
use super::{Effort, Measured, least, pinned, pinned_pair};

/// A message, as hackbench sends it.
const MESSAGE: usize = 100;
/// Messages that are written before they are read; they fit into any pipe.
const BATCH: u32 = 32;

/// Writing and reading 100 bytes, and a switch between two threads of one CPU.
pub fn measure(places: &Places, effort: Effort) -> Vec<Measured> {
    let pipes = pinned(places.first, || write_and_read(effort))
        .and_then(|times| times.map_err(|error| format!("pipes: {error}")));
    let switch = pipes.clone().and_then(|[write, read]| {
        let hop = hop(places.first, effort)?;
        Ok(hop.saturating_sub(write + read))
    });
    let of_pipes = |index: usize| pipes.clone().map(|times| times[index]);
    vec![
        Measured::cost(
            "pipe_write",
            of_pipes(0),
            "writing 100 bytes into a pipe that nobody waits at, ns",
        ),
        Measured::cost("pipe_read", of_pipes(1), "reading them, ns"),
        Measured::cost(
            "kernel_switch",
            switch,
            "a byte to another thread of the same CPU, less its write and read, ns",
        ),
    ]
}

fn write_and_read(effort: Effort) -> io::Result<[u64; 2]> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut message = [0; MESSAGE];
    let batches = (effort.operations / BATCH / 10).max(1);
    let mut best = [u64::MAX; 2];
    let once = Effort { batches: 1, ..effort };
    let mut failed = None;
    for _ in 0..batches {
        let mut all = |result: io::Result<()>| failed = failed.take().or(result.err());
        let write = least(once, BATCH, || (0..BATCH).for_each(|_| all(writer.write_all(&message))));
        let read = least(once, BATCH, || {
            (0..BATCH).for_each(|_| all(reader.read_exact(&mut message)))
        });
        best = [best[0].min(write), best[1].min(read)];
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(best)
}

/// Half of a round trip of one byte between two threads of one CPU.
fn hop(cpu: u32, effort: Effort) -> Result<u64, String> {
    let pipe = || io::pipe().map_err(|error| format!("pipes: {error}"));
    let ((there_reader, there_writer), (back_reader, back_writer)) = (pipe()?, pipe()?);
    let rounds = effort.long_operations();
    let leader = move || {
        let (mut from, mut to) = (back_reader, there_writer);
        // The pipes of this end close with it, which ends the partner.
        least(effort, 2 * rounds, || {
            for _ in 0..rounds {
                if to.write_all(&[0]).and_then(|()| from.read_exact(&mut [0])).is_err() {
                    return;
                }
            }
        })
    };
    pinned_pair([cpu, cpu], leader, move || echo(there_reader, back_writer))
}

/// Returns each byte until the other end is closed.
fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).and_then(|()| to.write_all(&byte)).is_ok() {}
}
