//! The servers: echo and HTTP on quadrille, as a program has them that must not stop, and what is counted of them.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quadrille::net::TcpStream;
use rustix::net::sockopt;

use super::PATIENCE;
use crate::adapters::Runtime as _;
use crate::adapters::quadrille::Quadrille;
use crate::adapters::servers::Echo;
use crate::adapters::servers::quadrille::{greet_over, talk};
use crate::outcome::Stop;
use crate::process::{open_descriptors, resident_bytes};

/// Room for what a client has not read, in bytes: little, so that writes have to wait.
const ROOM: usize = 16_384;

/// How long a listener waits after an error, which is most often that there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(10);

/// How often one looks whether the last task has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The servers, on one runtime.
#[derive(Debug)]
pub struct Servers {
    runtime: Quadrille,
    /// Where the echo server is.
    pub echo: SocketAddr,
    /// Where the HTTP server is.
    pub http: SocketAddr,
    panics: Arc<AtomicU64>,
}

/// What is there of a server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Tasks that wait, and are not finished.
    pub tasks: usize,
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

impl Servers {
    /// Starts both.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the kernel or the runtime refuses a listener.
    pub fn start(runtime: Quadrille) -> Result<Self, Stop> {
        let panics = Arc::new(AtomicU64::new(0));
        Ok(Self {
            runtime,
            echo: listen(runtime, &panics, |stream| async {
                // An error is a connection that has broken off.
                let _ = talk::<Echo>(stream).await;
            })?,
            http: listen(runtime, &panics, greet_over)?,
            panics,
        })
    }

    /// Tasks that have panicked so far.
    #[must_use]
    pub fn panics(&self) -> u64 {
        // Ordering: Relaxed; a count.
        self.panics.load(Ordering::Relaxed)
    }

    /// What is there now.
    ///
    /// # Errors
    /// [`Stop::Failed`] if there is no /proc.
    pub fn look(&self) -> Result<Look, Stop> {
        Ok(Look {
            tasks: self.runtime.pending_tasks(),
            descriptors: open_descriptors().map_err(Stop::failed)?,
            resident_bytes: resident_bytes().map_err(Stop::failed)?,
        })
    }

    /// Looks until there are as many tasks and descriptors as `before`, or nobody has the patience any more.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_when_all_ended(&self, before: Look) -> Result<Look, Stop> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let look = self.look()?;
            let is_over = (look.tasks, look.descriptors) == (before.tasks, before.descriptors);
            if is_over || Instant::now() >= deadline {
                return Ok(look);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Serves every connection with `serve`, in a task each, for ever.
fn listen<F, S>(runtime: Quadrille, panics: &Arc<AtomicU64>, serve: F) -> Result<SocketAddr, Stop>
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let refused = |error: std::io::Error| Stop::failed(format!("the server cannot listen: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
    // Connections inherit it.
    sockopt::set_socket_send_buffer_size(&listener, ROOM).map_err(|error| refused(error.into()))?;
    let address = listener.local_addr().map_err(refused)?;
    let listener = runtime.listen(listener)?;
    let panics = Arc::clone(panics);
    runtime.spawn_outside(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let served = serve(stream);
                    let panics = Panics(Arc::clone(&panics));
                    runtime.spawn_detached(async move {
                        let _panics = panics;
                        served.await;
                    });
                }
                Err(_) => Quadrille::sleep(PAUSE).await,
            }
        }
    });
    Ok(address)
}

/// Counts a panic that goes through its scope.
struct Panics(Arc<AtomicU64>);

impl Drop for Panics {
    fn drop(&mut self) {
        if thread::panicking() {
            // Ordering: Relaxed; a count.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
