//! A server over QUIC: quinn as it is, on quadrille's tasks, timers and UDP sockets; `quic/runtime.rs` is all that it
//! takes.
//!
//! `cargo run --example quic_hello -- 127.0.0.1:4433 cert.der` writes its certificate there and serves until Ctrl-C
//! (`SIGINT`) or `SIGTERM`, then lets its clients know. Without arguments it asks itself, over one connection by
//! several streams at a time, and ends.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

#[path = "quic/runtime.rs"]
mod runtime;

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use futures_rustls::rustls::RootCertStore;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quadrille::JoinSet;
use quadrille::signal;
use quadrille::task::TaskTracker;
use quadrille::time::{Duration, timeout};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig};

use runtime::Runtime;

type Failure = Box<dyn Error + Send + Sync>;

/// A longer name is not greeted.
const NAME_MAX: usize = 64;

const STREAMS: u32 = 10;

/// Clients that don't answer to the end are left then.
const PATIENCE: Duration = Duration::from_secs(2);

fn endpoint(address: &str, server: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    let socket = UdpSocket::bind(address)?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(Runtime),
    )?)
}

/// One question: a name, to the end of its stream.
async fn greet(mut answer: SendStream, mut question: RecvStream) -> Result<(), Failure> {
    let name = question.read_to_end(NAME_MAX).await?;
    answer.write_all(b"Hello, ").await?;
    answer.write_all(&name).await?;
    answer.write_all(b"!\n").await?;
    answer.finish()?;
    Ok(())
}

/// One client: each of its streams is a task.
async fn converse(incoming: Incoming) -> Result<(), Failure> {
    let connection = incoming.await?;
    loop {
        let (answer, question) = connection.accept_bi().await?;
        quadrille::spawn(greet(answer, question));
    }
}

/// Ends when the endpoint is closed; so do the clients' tasks then.
async fn serve(endpoint: Endpoint) {
    let clients = TaskTracker::new();
    while let Some(incoming) = endpoint.accept().await {
        clients.spawn(converse(incoming));
    }
    clients.close();
    clients.wait().await;
}

async fn ask(connection: Connection, name: String) -> Result<String, Failure> {
    let (mut question, mut answer) = connection.open_bi().await?;
    question.write_all(name.as_bytes()).await?;
    question.finish()?;
    Ok(String::from_utf8(answer.read_to_end(2 * NAME_MAX).await?)?)
}

/// Asks by several streams at a time.
async fn client(server: SocketAddr, certificate: CertificateDer<'static>) -> Result<(), Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let endpoint = endpoint("127.0.0.1:0", None)?;
    let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = endpoint.connect_with(config, server, "localhost")?.await?;
    let mut answers = JoinSet::new();
    for number in 0..STREAMS {
        answers.spawn(ask(connection.clone(), format!("stream {number}")));
    }
    let mut greeted = answers.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    greeted.sort();
    assert_eq!(greeted[0], "Hello, stream 0!\n");
    println!("{} answers over QUIC", greeted.len());
    connection.close(0_u32.into(), b"done");
    timeout(PATIENCE, endpoint.wait_idle()).await?;
    Ok(())
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (argument, file) = (arguments.next(), arguments.next());
    let termination = signal::termination()?;
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = identity.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
    if let Some(file) = file {
        std::fs::write(file, &certificate)?;
    }

    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    let endpoint = endpoint(argument.as_deref().unwrap_or("127.0.0.1:0"), Some(config))?;
    let address = endpoint.local_addr()?;
    println!("listening on {address}");
    let server = quadrille::spawn(serve(endpoint.clone()));
    if argument.is_some() {
        termination.await;
    } else {
        client(address, certificate).await?;
    }
    endpoint.close(0_u32.into(), b"the server ends");
    let _ = timeout(PATIENCE, endpoint.wait_idle()).await;
    server.await?;
    println!("closed");
    Ok(())
}
