//! When TCP asks whether the other end is still there.

use std::time::Duration;

/// After how long a silence TCP asks the other end for a sign of life, how often, and when it gives up. What isn't set
/// stays as the system has it (Linux: after 2 hours, every 75 s, 9 times).
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use quadrille::net::{TcpKeepalive, TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let stream = TcpStream::connect(listener.local_addr()?).await?;
/// let keepalive = TcpKeepalive::new()
///     .with_time(Duration::from_secs(60))
///     .with_interval(Duration::from_secs(10));
/// stream.set_tcp_keepalive(&keepalive)?;
/// assert!(stream.keepalive()?);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is for `set_tcp_keepalive`"]
pub struct TcpKeepalive(socket2::TcpKeepalive);

impl TcpKeepalive {
    /// All as the system has it.
    pub const fn new() -> Self {
        TcpKeepalive(socket2::TcpKeepalive::new())
    }

    /// Asks after this silence, in whole seconds.
    pub const fn with_time(self, time: Duration) -> Self {
        TcpKeepalive(self.0.with_time(time))
    }

    /// Asks so often when there is no answer, in whole seconds.
    pub const fn with_interval(self, interval: Duration) -> Self {
        TcpKeepalive(self.0.with_interval(interval))
    }

    /// Gives up after so many questions without an answer.
    pub const fn with_retries(self, retries: u32) -> Self {
        TcpKeepalive(self.0.with_retries(retries))
    }

    pub(super) fn as_socket2(&self) -> &socket2::TcpKeepalive {
        &self.0
    }
}

impl Default for TcpKeepalive {
    fn default() -> Self {
        TcpKeepalive::new()
    }
}
