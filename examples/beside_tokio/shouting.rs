//! The server that is asked: hyper over quadrille, which shouts back what it is told.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::hyper::Timer;
use quadrille::net::{Server, TcpListener};

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let word = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::from(word.to_ascii_uppercase())))
}

/// Serves until it is dropped.
pub(crate) async fn shout(listener: TcpListener) -> io::Result<()> {
    listener.set_nodelay(true)?;
    let mut http = http1::Builder::new();
    http.timer(Timer);
    let server = Server::new(listener);
    server
        .serve(|stream, _| http.serve_connection(stream, service_fn(answer)))
        .await?;
    Ok(())
}
