//! thread_rr_tcp and thread_tbench: servers with a thread a connection; see [`serve`](crate::workloads::serve).

use crate::adapters::servers::Echo;
use crate::adapters::servers::blocking::{ThreadServers, start};
use crate::outcome::{Measured, Stop};
use crate::spec::{Serve, Service};
use crate::workloads::serve::load;
use crate::workloads::tbench::Files;

/// Runs it once, on the calling thread: the server on `runtime`, the load from another process.
///
/// # Errors
/// [`Stop::Failed`] if an answer was wrong or missing, or there is no such server of threads; [`Stop::Unsupported`] if
/// the kernel's limits are too low for such requests.
pub fn run<R: ThreadServers>(runtime: R, serve: Serve) -> Result<Measured, Stop> {
    if serve.spinner {
        return Err(Stop::failed("a server of threads runs without a task that spins"));
    }
    let address = match serve.service {
        Service::TcpEcho => start::<R, Echo>(runtime)?,
        Service::Tbench => start::<R, Files>(runtime)?,
        Service::UdpEcho | Service::Http => {
            return Err(Stop::failed(format!("{:?} is served by tasks alone", serve.service)));
        }
    };
    load(&runtime, address, serve)
}
