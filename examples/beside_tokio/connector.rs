//! Connections of quadrille for clients that take a `tower` service in place of a connector of their own.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use quadrille::net::TcpStream;
use tower_service::Service;

/// Connects to where a URI points, without TLS.
#[derive(Clone)]
pub(crate) struct Connector;

impl Service<Uri> for Connector {
    type Response = Plain;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Plain>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(async move {
            if uri.scheme_str() != Some("http") {
                return Err(io::Error::other(format!("{uri}: there is no TLS here")));
            }
            let host = uri.host().expect("a URI with a scheme has a host");
            // An address of IPv6 has brackets in a URI, and in no other place.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
            stream.set_nodelay(true)?;
            Ok(Plain(stream))
        })
    }
}

/// A stream of quadrille that says what hyper-util's pool asks of a connection, which is for a type of one's own to
/// say.
pub(crate) struct Plain(TcpStream);

impl Connection for Plain {
    /// Who is asked over it finds our address among the extensions of an answer.
    fn connected(&self) -> Connected {
        match self.0.local_addr() {
            Ok(address) => Connected::new().extra(address),
            Err(_) => Connected::new(),
        }
    }
}

impl Read for Plain {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Read::poll_read(Pin::new(&mut self.0), cx, buffer)
    }
}

impl Write for Plain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Write::poll_write(Pin::new(&mut self.0), cx, buffer)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.0)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Write::poll_write_vectored(Pin::new(&mut self.0), cx, buffers)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_flush(Pin::new(&mut self.0), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.0), cx)
    }
}
