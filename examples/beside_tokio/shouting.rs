//! The server that is asked: hyper over quadrille, which shouts back what it is told.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::hyper::Timer;
use quadrille::net::TcpListener;
use quadrille::time::{Duration, sleep};

/// Until the next attempt to accept, after one that has failed: mostly no descriptor is left, and connections that end give some back.
const PAUSE: Duration = Duration::from_millis(10);

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let word = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::from(word.to_ascii_uppercase())))
}

/// Serves until it is dropped.
pub(crate) async fn shout(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        // Where that fails the client is gone already, as the first read will say.
        let _ = stream.set_nodelay(true);
        quadrille::spawn(
            http1::Builder::new()
                .timer(Timer)
                .serve_connection(stream, service_fn(answer)),
        );
    }
}
