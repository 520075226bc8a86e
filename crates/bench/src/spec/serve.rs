//! What a server row asks: which service, from how many, how fast.

use serde::{Deserialize, Serialize};

use super::Body;

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Sends back what comes over TCP.
    TcpEcho,
    /// Sends back datagrams.
    UdpEcho,
    /// Answers as a file server does, in lengths alone.
    Tbench,
    /// Greets over HTTP/1.1.
    Http,
}

/// The parameters of a server and its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// What the server does.
    pub service: Service,
    /// Connections, each with at most one request on its way.
    pub connections: usize,
    /// Bytes of an echo, no more than 4096; the other services have messages of their own.
    pub size: usize,
    /// Requests a second that are due, whatever the server does; 0 is the closed loop, which sends as soon as it is
    /// answered.
    pub rate: u32,
    /// Whether a task of the server spins 20 ms every 100 ms.
    pub spinner: bool,
    /// For how long requests are sent, in milliseconds.
    pub millis: u64,
}

impl Serve {
    /// The name of its rows.
    #[must_use]
    pub fn name(&self, body: Body) -> &'static str {
        match (self.service, body) {
            (Service::TcpEcho, Body::Tasks) => "rr_tcp",
            (Service::TcpEcho, Body::Threads) => "thread_rr_tcp",
            (Service::UdpEcho, _) => "rr_udp",
            (Service::Tbench, Body::Tasks) => "tbench",
            (Service::Tbench, Body::Threads) => "thread_tbench",
            (Service::Http, _) => "http",
        }
    }
}
