//! Memory: small pieces as cache lines, large ones through caches and memory channels.
//!
//! A piece of up to one line behaves as a line: its last writer has it, readers fetch it, writes queue up. A larger one
//! is in at most one last-level cache at a time, with as many bytes as were touched there and fit; the rest comes from
//! the node where it was touched first, whose channels all readers share.

use quadrille_policy::{LlcId, Nanos, NodeId, WorkerId};

use crate::cost::Cost;
use crate::line::{Line, When};
use crate::space::Space;
use crate::workload::MemorySpec;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// One piece of memory.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: u64,
    line: Line,
    home: Option<NodeId>,
    /// Where it is cached, and how many bytes of it.
    cached: (LlcId, u64),
}

/// The memory channels of one node: a queue of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Channels {
    free_at: Nanos,
}

/// What an access needs to know of the machine.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) now: Nanos,
    pub(crate) by: WorkerId,
    pub(crate) bytes: u64,
    pub(crate) write: bool,
    pub(crate) space: &'a Space,
    pub(crate) cost: &'a Cost,
    /// Capacity of the accessing worker's last-level cache.
    pub(crate) capacity: u64,
}

impl Memory {
    pub(crate) fn new(spec: MemorySpec) -> Self {
        Self {
            bytes: spec.bytes,
            line: Line::default(),
            home: None,
            cached: (LlcId(0), 0),
        }
    }

    /// Reads or writes; returns what that took.
    pub(crate) fn touch(&mut self, access: &Access<'_>, nodes: &mut [Channels]) -> Nanos {
        let Access {
            now, by, space, cost, ..
        } = *access;
        if self.bytes <= LINE {
            return if access.write {
                self.line.write(When { event: now, own: now }, by, space, cost)
            } else {
                self.line.read(by, space, cost)
            };
        }
        let node = space.node(by);
        let home = *self.home.get_or_insert(node);
        let llc = space.llc(by);
        if self.cached.0 != llc {
            // What others have cached comes from them at the price of lines; here it counts as not there.
            self.cached = (llc, 0);
        }
        // Of what is touched, as large a share is there as of the whole.
        let hit = access.bytes * self.cached.1.min(self.bytes) / self.bytes;
        let missed = access.bytes - hit;
        self.cached.1 = (self.cached.1 + missed).min(self.bytes).min(access.capacity);
        if self.bytes > access.capacity {
            // Streaming through more than fits leaves nothing that is of use the next time.
            self.cached.1 = 0;
        }
        let from_cache = hit * 1024 / cost.cache_bandwidth.max(1);
        let alone = missed * 1024 / cost.thread_bandwidth.max(1);
        let far = if home == node { 0 } else { alone / 2 };
        let channels = &mut nodes[home.index()];
        let start = now.max(channels.free_at);
        channels.free_at = Nanos(start.0 + missed * 1024 / cost.node_bandwidth.max(1));
        let shared = channels.free_at.since(now).0;
        Nanos(from_cache + shared.max(alone + far))
    }
}
