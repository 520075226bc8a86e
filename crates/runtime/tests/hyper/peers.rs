//! A server and a client that the tests share.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::JoinHandle;
use quadrille::hyper::Timer;
use quadrille::net::{TcpListener, TcpStream};

/// A listener on a port of its own.
pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
pub(crate) async fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen().await;
    let ours = TcpStream::connect(address).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    (ours, theirs)
}

/// Serves one connection to its end.
pub(crate) async fn serve<I, F, A, B>(io: I, answer: F) -> hyper::Result<()>
where
    I: Read + Write + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> A + Send,
    A: Future<Output = Response<B>> + Send,
    B: Body + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .timer(Timer)
        .serve_connection(io, service)
        .with_upgrades()
        .await
}

/// A client over `io`; its connection is a task.
pub(crate) async fn client<I, B>(io: I) -> SendRequest<B>
where
    I: Read + Write + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    client_and_connection(io).await.0
}

/// The same, with the task.
///
/// Who asks although the server has closed the connection waits for the task first: a request that is sent at the
/// moment at which hyper's connection ends may stay in its channel, neither answered nor refused, for as long as the
/// client lives (hyper's issue 4122).
pub(crate) async fn client_and_connection<I, B>(io: I) -> (SendRequest<B>, JoinHandle<hyper::Result<()>>)
where
    I: Read + Write + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    (client, quadrille::spawn(connection.with_upgrades()))
}

/// Sends a request when the connection is ready for it. That it has given the last answer to its end doesn't say so.
pub(crate) async fn ask(client: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Response<Incoming> {
    client.ready().await.unwrap();
    client.send_request(request).await.unwrap()
}

/// A request without a body.
pub(crate) fn get(path: &str) -> Request<Full<Bytes>> {
    post(path, Bytes::new())
}

/// A request with one.
pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "localhost");
    request.body(Full::new(body.into())).unwrap()
}

/// The whole body.
pub(crate) async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Bytes without a period that a buffer could have.
pub(crate) fn noise(length: usize) -> Bytes {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}
