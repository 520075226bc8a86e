//! rr_tcp, rr_udp, tbench and http: a server on the runtime, and a load generator in a process of its own.
//!
//! - **rr**: netperf's TCP_RR and UDP_RR with many connections: 64 bytes there and back, one request of each on its
//!   way.
//! - **tbench**: requests and answers of a file server, of mixed sizes; see [`tbench`](super::tbench).
//! - **http**: a greeting over HTTP/1.1, by hyper where a runtime has it, by Go's net/http.
//!
//! What counts is the server's own process: its processor time a request, its switches; latencies are those that the
//! generator saw. With `spinner`, one task of the server spins 20 ms every 100 ms without yielding, as a handler does
//! that computes too long. Verified: every answer, by the generator.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use crate::adapters::Counts;
use crate::adapters::servers::bare::{self, Greeter};
use crate::adapters::servers::{Echo, Servers};
use crate::generate::{Order, Seen};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::peer::Peer;
use crate::spec::{Serve, Service};
use crate::workloads::fairness::work;
use crate::workloads::tbench::Files;

/// The body of every HTTP answer.
pub const GREETING: &str = "Hello, world!";

/// Any port of the loopback.
const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// What the spinner does, and then how long it sleeps.
const SPIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(80));

/// Runs it once, on the calling thread: the server on `runtime`, the load from another process.
///
/// # Errors
/// [`Stop::Unsupported`] if the runtime has no such server, or the kernel's limits are too low for such requests;
/// [`Stop::Failed`] if an answer was wrong or missing.
pub fn run<R: Servers>(runtime: R, workers: usize, serve: Serve) -> Result<Measured, Stop> {
    let address = start(runtime, workers, serve.service)?;
    if serve.spinner {
        runtime.spawn_outside(async move {
            loop {
                work(SPIN.0);
                R::sleep(SPIN.1).await;
            }
        });
    }
    load(&runtime, address, serve)
}

/// The same without a runtime: one thread that serves and, if asked for, one that spins.
///
/// # Errors
/// [`Stop::Unsupported`] for datagrams; [`Stop::Failed`] if an answer was wrong or missing.
pub(super) fn without_runtime(counts: &impl Counts, serve: Serve) -> Result<Measured, Stop> {
    let start = match serve.service {
        Service::TcpEcho => bare::start::<Echo>,
        Service::Tbench => bare::start::<Files>,
        Service::Http => bare::start::<Greeter>,
        Service::UdpEcho => return Err(Stop::unsupported("without a runtime there are servers of streams only")),
    };
    let (listener, address) = listen()?;
    start(listener)?;
    if serve.spinner {
        let spins = || loop {
            work(SPIN.0);
            std::thread::sleep(SPIN.1);
        };
        let spawned = std::thread::Builder::new().spawn(spins);
        spawned.map_err(|error| Stop::failed(format!("no thread for what spins: {error}")))?;
    }
    load(counts, address, serve)
}

/// Lets a generator load the server at `address`, and measures this process meanwhile.
///
/// # Errors
/// [`Stop::Failed`] if an answer was wrong or missing; [`Stop::Unsupported`] if the kernel's limits are too low for
/// such requests.
pub(super) fn load(runtime: &impl Counts, address: SocketAddr, serve: Serve) -> Result<Measured, Stop> {
    let mut generator = Peer::start("generate", &Order { address, serve })?;
    generator.expect("begin")?;
    let meter = Meter::start(runtime);
    generator.go()?;
    let line = generator.line()?;
    let mut measured = meter.stop(runtime, 0);
    let seen: Seen = generator.parse(&line)?;
    measured.ops = seen.requests;
    measured.wall_ns = seen.wall_ns;
    measured.longest_wait_ns = Some(seen.longest_ns);
    measured.counters.extend(seen.counters);
    Ok(measured)
}

/// Starts the server of `service`, and returns where it is.
pub(super) fn start<R: Servers>(runtime: R, workers: usize, service: Service) -> Result<SocketAddr, Stop> {
    if service == Service::UdpEcho {
        let socket = UdpSocket::bind(ANY).map_err(cannot_listen)?;
        let address = socket.local_addr().map_err(cannot_listen)?;
        runtime.echo_udp(socket, workers)?;
        return Ok(address);
    }
    let (listener, address) = listen()?;
    match service {
        Service::Http => runtime.http(listener)?,
        Service::Tbench => runtime.serve_tcp::<Files>(listener)?,
        Service::TcpEcho | Service::UdpEcho => runtime.echo_tcp(listener)?,
    }
    Ok(address)
}

fn listen() -> Result<(TcpListener, SocketAddr), Stop> {
    let listener = TcpListener::bind(ANY).map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, address))
}

fn cannot_listen(error: std::io::Error) -> Stop {
    Stop::failed(format!("the server cannot listen: {error}"))
}
