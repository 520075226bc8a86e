//! Pipes and Unix sockets.
//!
//! All operations take `&self`: one task may read while another writes, and what several tasks read or write at the same
//! time comes in some order.

mod pipe;
mod stream;
mod unix;

pub use self::pipe::{PipeReader, PipeWriter, pipe};
pub use self::unix::UnixStream;
