//! A client over HTTP that keeps its connections: hyper-util's, and no runtime of tokio's.
//!
//! Watch: the pool wants a connector, an executor and a timer, and quadrille has them.
//! `hyper_util::client::legacy::Client` is what reqwest has inside; it is the latter's connector and timeouts that need
//! tokio.
#![expect(clippy::print_stdout, reason = "a program prints")]

mod connector;
mod shouting;

use std::collections::HashSet;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use quadrille::JoinSet;
use quadrille::hyper::{Executor, Timer};
use quadrille::net::TcpListener;
use quadrille::time::{Duration, timeout};

use crate::connector::Connector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CLIENTS: usize = 8;
const REQUESTS: usize = 50;
/// Connections that the pool keeps for a host while nobody asks by them, and how long.
const IDLE_MAX: usize = CLIENTS;
const IDLE: Duration = Duration::from_secs(10);
/// What a request may take: the pool itself has no limit for that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the server to shout a word. By which connection it was asked.
async fn ask(client: &Client<Connector, Full<Bytes>>, server: SocketAddr, word: &str) -> Result<SocketAddr, Failure> {
    let request = Request::post(format!("http://{server}/")).body(Full::from(word.to_owned()))?;
    let response = client.request(request).await?;
    assert!(response.status().is_success());
    let connection = *response.extensions().get().ok_or("the connector has put it there")?;
    let body = response.into_body().collect().await?.to_bytes();
    assert_eq!(body, word.to_uppercase());
    Ok(connection)
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    drop(quadrille::spawn(shouting::shout(listener)));

    let client = Client::builder(Executor)
        // Both, or what is idle is closed by nobody before it is asked for.
        .timer(Timer)
        .pool_timer(Timer)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_MAX)
        .build(Connector);
    let mut clients = JoinSet::new();
    for i in 0..CLIENTS {
        let client = client.clone();
        clients.spawn(async move {
            let mut connections = HashSet::new();
            for j in 0..REQUESTS {
                connections.insert(timeout(PATIENCE, ask(&client, server, &format!("{i} asks {j}"))).await??);
            }
            Ok::<_, Failure>(connections)
        });
    }
    let mut connections = HashSet::new();
    for outcome in clients.join_all().await {
        connections.extend(outcome?);
    }
    let (answers, connections) = (CLIENTS * REQUESTS, connections.len());
    // Rarely more than there are clients: one is opened when none is idle at the moment.
    assert!(connections < answers / 4, "{connections} for {answers} answers");
    println!("{answers} answers over {connections} connections");
    Ok(())
}
