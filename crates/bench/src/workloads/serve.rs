//! rr_tcp, rr_udp and http: a server on the runtime, and a load generator in a process of its own.
//!
//! - **rr**: netperf's TCP_RR and UDP_RR with many connections: 64 bytes there and back, one request of each on its way.
//! - **http**: a greeting over HTTP/1.1, by hyper where a runtime has it, by Go's net/http.
//!
//! What counts is the server's own process: its processor time a request, its switches; latencies are those that the generator
//! saw. With `spinner`, one task of the server spins 20 ms every 100 ms without yielding, as a handler does that computes too long.
//! Verified: every answer, by the generator.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::adapters::servers::Servers;
use crate::generate::{Order, Seen};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::{Serve, Service};
use crate::workloads::fairness::work;

/// The body of every HTTP answer.
pub const GREETING: &str = "Hello, world!";

/// Names the program to start as generator, for servers that are not that program.
pub const GENERATOR: &str = "QUADRILLE_GENERATOR";

/// What the spinner does, and then how long it sleeps.
const SPIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(80));

/// Runs it once, on the calling thread: the server on `runtime`, the load from another process.
///
/// # Errors
/// [`Stop::Unsupported`] if the runtime has no such server; [`Stop::Failed`] if an answer was wrong or missing.
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
    let mut generator = Generator::start(&Order { address, serve })?;
    generator.expect("begin")?;
    let meter = Meter::start(&runtime);
    generator.go()?;
    let line = generator.line()?;
    let mut measured = meter.stop(&runtime, 0);
    let seen: Seen = serde_json::from_str(&line).map_err(|_| generator.failure(&line))?;
    measured.ops = seen.requests;
    measured.wall_ns = seen.wall_ns;
    measured.longest_wait_ns = Some(seen.longest_ns);
    measured.counters.extend(seen.counters);
    Ok(measured)
}

fn start<R: Servers>(runtime: R, workers: usize, service: Service) -> Result<SocketAddr, Stop> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let refused = |error: std::io::Error| Stop::failed(format!("the server cannot listen: {error}"));
    if service == Service::UdpEcho {
        let socket = UdpSocket::bind(any).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        runtime.echo_udp(socket, workers)?;
        return Ok(address);
    }
    let listener = TcpListener::bind(any).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    if service == Service::Http {
        runtime.http(listener)?;
    } else {
        runtime.echo_tcp(listener)?;
    }
    Ok(address)
}

/// The other process.
struct Generator {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Generator {
    fn start(order: &Order) -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::failed(format!("cannot start the load generator: {error}"));
        let program = match std::env::var_os(GENERATOR) {
            Some(program) => PathBuf::from(program),
            None => std::env::current_exe().map_err(failed)?,
        };
        let json = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        let mut child = Command::new(program)
            .arg("generate")
            .arg(json)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        match child.stdout.take() {
            Some(stdout) => Ok(Self {
                child,
                lines: BufReader::new(stdout),
            }),
            None => Err(Stop::failed("the load generator has no output")),
        }
    }

    fn line(&mut self) -> Result<String, Stop> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .map_err(|error| Stop::failed(format!("cannot hear the load generator: {error}")))?;
        Ok(line.trim().to_owned())
    }

    fn expect(&mut self, expected: &str) -> Result<(), Stop> {
        let line = self.line()?;
        if line == expected {
            Ok(())
        } else {
            Err(self.failure(&line))
        }
    }

    fn failure(&self, line: &str) -> Stop {
        let said = if line.is_empty() {
            "nothing; stderr has the reason"
        } else {
            line
        };
        Stop::failed(format!("the load generator said {said}"))
    }

    /// Lets it send what counts.
    fn go(&mut self) -> Result<(), Stop> {
        let told = self.child.stdin.take().map(|mut input| writeln!(input, "go"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(Stop::failed("the load generator does not listen")),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // It may have ended; a process that lives on would disturb the next run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
