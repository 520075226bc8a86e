//! A server over TLS: hyper above rustls above a socket of quadrille's, with a certificate that it makes for itself.
//!
//! `cargo run --example https_hello -- 127.0.0.1:8443 cert.pem` writes the certificate there and serves until it is
//! stopped (try `curl --cacert cert.pem https://127.0.0.1:8443/`). Without arguments it asks itself over TLS, and ends.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_rustls::rustls::crypto::{CryptoProvider, ring};
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use futures_rustls::{TlsAcceptor, TlsConnector};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::hyper::{Io, Timer};
use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::time::{Duration, timeout};

type Failure = Box<dyn Error + Send + Sync>;

/// A client that has not shaken hands by then is let go.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn acceptor(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(certificate: CertificateDer<'static>) -> Result<TlsConnector, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, whoever listens!\n")))
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor) -> Result<(), Failure> {
    let tls = timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await??;
    hyper::server::conn::http1::Builder::new()
        .timer(Timer)
        .serve_connection(Io::new(tls), service_fn(hello))
        .await?;
    Ok(())
}

/// Serves until it is dropped.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> Result<(), Failure> {
    listener.set_nodelay(true)?;
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    server.serve(|stream, _| converse(stream, acceptor.clone())).await?;
    Ok(())
}

async fn ask(address: SocketAddr, connector: TlsConnector) -> Result<Bytes, Failure> {
    let stream = TcpStream::connect(address).await?;
    let tls = connector.connect(ServerName::from(address.ip()), stream).await?;
    let (mut client, connection) = hyper::client::conn::http1::handshake(Io::new(tls)).await?;
    quadrille::spawn(connection);
    let request = Request::get("/").header("host", address.to_string());
    let response = client.send_request(request.body(Empty::<Bytes>::new())?).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (argument, file) = (arguments.next(), arguments.next());
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let certificate = identity.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
    if let Some(file) = file {
        std::fs::write(file, identity.cert.pem())?;
    }

    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    let server = quadrille::spawn(serve(listener, acceptor(certificate.clone(), key)?));
    if argument.is_some() {
        return server.await?;
    }
    let answer = ask(address, connector(certificate)?).await?;
    assert_eq!(answer, "Hello, whoever listens!\n");
    println!("{} bytes over TLS", answer.len());
    Ok(())
}
