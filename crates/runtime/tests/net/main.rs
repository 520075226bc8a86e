//! Sockets, through the public API alone. The other side of a connection is mostly a socket of std on a thread of its
//! own.
//!
//! Nothing here waits by sleeping for a while: both sides meet in what they send, and every test runs under a watchdog,
//! so that a lost wake-up fails and doesn't hang.

#[cfg(target_os = "linux")]
mod async_fd;
mod blocking_io;
mod broken;
mod budget;
#[cfg(feature = "bytes")]
mod buf;
mod buffers;
mod cancelled;
mod copy;
mod descriptors;
mod duplicates;
mod endings;
#[path = "../behaviour/greedy.rs"]
mod greedy;
#[cfg(target_os = "linux")]
mod interrupted;
mod load;
mod nothing;
mod pipe;
mod runtimes;
mod server;
mod server_script;
mod shared;
#[cfg(target_os = "linux")]
#[path = "../../src/skipped.rs"]
mod skipped;
mod tcp;
mod tcp_halves;
mod tcp_options;
mod tcp_socket;
mod temporary;
mod udp;
mod unix_datagram;
mod unix_stream;
mod watched;
