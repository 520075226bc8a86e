//! What a ring can be asked for, with all that the kernel uses meanwhile.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use socket2::{SockAddr, SockAddrStorage};

use crate::uring::{BufResult, IoBuf};

/// Most bytes of one read or write, as the system has it.
const LENGTH_MAX: usize = 0x7fff_f000;

/// An entry, not yet in a ring.
pub(crate) struct Entry(squeue::Entry);

impl Entry {
    pub(super) fn new(entry: squeue::Entry) -> Self {
        Self(entry)
    }

    /// An entry that does nothing, and has a result at once.
    pub(crate) fn nothing() -> Self {
        Self(opcode::Nop::new().build())
    }

    pub(super) fn as_raw(&self) -> &squeue::Entry {
        &self.0
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entry").field(&self.0.get_opcode()).finish()
    }
}

/// An operation: what to ask for, what that needs, and what becomes of the result.
///
/// # Safety
///
/// `entry` names only memory and descriptors that `self` keeps valid and leaves alone from then on until it is dropped
/// or `finish` is called, however it is moved meanwhile.
pub(crate) unsafe trait Request: std::marker::Send + 'static {
    /// What whoever asked gets.
    type Output;

    /// Whether it ends soon whatever anybody else does: operations on files. A clock that stands doesn't jump over
    /// those. Others may wait for a peer for ever.
    const ENDS_BY_ITSELF: bool;

    /// What to ask for. Called again only after there was a result.
    fn entry(&mut self) -> Entry;

    /// The kernel is done with it, or was never asked.
    fn finish(self, result: io::Result<u32>) -> Self::Output;
}

/// Receives from a socket.
#[derive(Debug)]
pub(crate) struct Recv {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) buffer: Vec<u8>,
}

/// Sends by a socket.
#[derive(Debug)]
pub(crate) struct Send<B> {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) buffer: B,
    /// Where in the buffer to begin.
    pub(crate) from: usize,
}

/// Reads from a file at an offset.
#[derive(Debug)]
pub(crate) struct ReadAt {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) offset: u64,
}

/// Writes to a file at an offset.
#[derive(Debug)]
pub(crate) struct WriteAt<B> {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) buffer: B,
    /// Where in the buffer to begin.
    pub(crate) from: usize,
    pub(crate) offset: u64,
}

/// Waits until the disk has what was written.
#[derive(Debug)]
pub(crate) struct Fsync {
    pub(crate) fd: Arc<OwnedFd>,
    /// Without the metadata that reading does not need.
    pub(crate) only_data: bool,
}

/// Takes a connection from the queue of a socket that listens. It is closed on `exec`, and blocks, as rings have it.
pub(crate) struct Accept {
    fd: Arc<OwnedFd>,
    /// One. In a vector, because what that points to may be written behind its back.
    peer: Vec<Peer>,
}

/// Where the kernel writes who has connected.
#[repr(C)]
struct Peer {
    address: SockAddrStorage,
    length: libc::socklen_t,
}

impl Peer {
    fn new() -> Self {
        let address = SockAddrStorage::zeroed();
        let length = address.size_of();
        Peer { address, length }
    }
}

impl Accept {
    pub(crate) fn new(fd: Arc<OwnedFd>) -> Self {
        Accept { fd, peer: Vec::new() }
    }
}

impl std::fmt::Debug for Accept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accept").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// The number that names a descriptor in an entry.
fn number(fd: &OwnedFd) -> Fd {
    Fd(fd.as_raw_fd())
}

/// So many bytes as a request can say.
fn limited(length: usize) -> u32 {
    u32::try_from(length.min(LENGTH_MAX)).expect("it is below 2^31")
}

/// Makes the bytes that the kernel has read part of `buffer`, which was empty.
fn received(mut buffer: Vec<u8>, result: io::Result<u32>) -> BufResult<usize, Vec<u8>> {
    let result = result.map(|count| count as usize);
    if let Ok(count) = result {
        assert!(count <= buffer.capacity(), "no more is read than there is room for");
        // SAFETY: the room is there, as asserted, and the kernel says that it has written so many bytes from its
        // beginning.
        unsafe { buffer.set_len(count) };
    }
    (result, buffer)
}

/// The bytes of `buffer` from `from` on, as a request names them.
fn rest<B: IoBuf>(buffer: &B, from: usize) -> (*const u8, u32) {
    let rest = &buffer.bytes()[from..];
    (rest.as_ptr(), limited(rest.len()))
}

// SAFETY: the memory is the vector's, on the heap: it stays where it is when the vector is moved, nobody else can reach
// it, and `finish` alone touches it. The descriptor is open as long as there is a reference.
unsafe impl Request for Recv {
    type Output = BufResult<usize, Vec<u8>>;

    const ENDS_BY_ITSELF: bool = false;

    fn entry(&mut self) -> Entry {
        self.buffer.clear();
        let length = limited(self.buffer.capacity());
        Entry(opcode::Recv::new(number(&self.fd), self.buffer.as_mut_ptr(), length).build())
    }

    fn finish(self, result: io::Result<u32>) -> Self::Output {
        received(self.buffer, result)
    }
}

// SAFETY: by the contract of `IoBuf` the bytes stay where they are and as they are while the buffer lives, which `self`
// owns. The descriptor as above.
unsafe impl<B: IoBuf> Request for Send<B> {
    type Output = BufResult<usize, B>;

    const ENDS_BY_ITSELF: bool = false;

    fn entry(&mut self) -> Entry {
        let (start, length) = rest(&self.buffer, self.from);
        let send = opcode::Send::new(number(&self.fd), start, length);
        Entry(send.flags(libc::MSG_NOSIGNAL).build())
    }

    fn finish(self, result: io::Result<u32>) -> Self::Output {
        (result.map(|count| count as usize), self.buffer)
    }
}

// SAFETY: as for `Recv`.
unsafe impl Request for ReadAt {
    type Output = BufResult<usize, Vec<u8>>;

    const ENDS_BY_ITSELF: bool = true;

    fn entry(&mut self) -> Entry {
        self.buffer.clear();
        let length = limited(self.buffer.capacity());
        let read = opcode::Read::new(number(&self.fd), self.buffer.as_mut_ptr(), length);
        Entry(read.offset(self.offset).build())
    }

    fn finish(self, result: io::Result<u32>) -> Self::Output {
        received(self.buffer, result)
    }
}

// SAFETY: as for `Send`.
unsafe impl<B: IoBuf> Request for WriteAt<B> {
    type Output = BufResult<usize, B>;

    const ENDS_BY_ITSELF: bool = true;

    fn entry(&mut self) -> Entry {
        let (start, length) = rest(&self.buffer, self.from);
        let write = opcode::Write::new(number(&self.fd), start, length);
        Entry(write.offset(self.offset).build())
    }

    fn finish(self, result: io::Result<u32>) -> Self::Output {
        (result.map(|count| count as usize), self.buffer)
    }
}

// SAFETY: it names no memory; the descriptor as above.
unsafe impl Request for Fsync {
    type Output = io::Result<()>;

    const ENDS_BY_ITSELF: bool = true;

    fn entry(&mut self) -> Entry {
        let flags = if self.only_data {
            FsyncFlags::DATASYNC
        } else {
            FsyncFlags::empty()
        };
        Entry(opcode::Fsync::new(number(&self.fd)).flags(flags).build())
    }

    fn finish(self, result: io::Result<u32>) -> Self::Output {
        result.map(drop)
    }
}

// SAFETY: the address is in the vector's memory, as for `Recv`.
unsafe impl Request for Accept {
    type Output = io::Result<(OwnedFd, SocketAddr)>;

    const ENDS_BY_ITSELF: bool = false;

    fn entry(&mut self) -> Entry {
        self.peer.clear();
        self.peer.push(Peer::new());
        let peer = self.peer.as_mut_ptr();
        // Offsets by hand: a reference to a field would be one to memory that the kernel writes later.
        let address = peer.wrapping_byte_add(std::mem::offset_of!(Peer, address));
        let length = peer.wrapping_byte_add(std::mem::offset_of!(Peer, length));
        let accept = opcode::Accept::new(number(&self.fd), address.cast(), length.cast());
        Entry(accept.flags(libc::SOCK_CLOEXEC).build())
    }

    fn finish(mut self, result: io::Result<u32>) -> Self::Output {
        let fd = i32::try_from(result?).expect("descriptors are positive");
        // SAFETY: the kernel has made it for this request, and told nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let peer = self.peer.pop().expect("it was put there by `entry`");
        // SAFETY: the request has succeeded, so that the kernel has written an address and its length; the rest of the
        // storage is zero.
        let address = unsafe { SockAddr::new(peer.address, peer.length) };
        let address = address.as_socket().ok_or(rustix::io::Errno::AFNOSUPPORT)?;
        Ok((fd, address))
    }
}
