//! quadrille by io_uring: an accept loop and a task a connection, whose buffer goes to the kernel and comes back.

use std::io;
use std::net::TcpListener;

use quadrille::Handle;
use quadrille::uring::{self, Backend, TcpStream};

use super::{BUFFER, refused};
use crate::adapters::Runtime;
use crate::adapters::quadrille::Quadrille;
use crate::outcome::Stop;

/// Sends back what comes, on every connection.
pub(super) fn echo_tcp(runtime: Quadrille, listener: TcpListener) -> Result<(), Stop> {
    let listener = {
        let _inside = runtime.inside();
        if let Backend::Fallback { why } = Handle::current().io_backend() {
            return Err(Stop::unsupported(format!("no io_uring here: {why}")));
        }
        uring::TcpListener::from_std(listener).map_err(|error| refused(&error))?
    };
    runtime.spawn_outside(async move {
        while let Ok((stream, _)) = listener.accept().await {
            quadrille::spawn(echo(stream));
        }
    });
    Ok(())
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        let (length, heard) = stream.read(buffer).await;
        if length? == 0 {
            return Ok(());
        }
        let (sent, again) = stream.write_all(heard).await;
        sent?;
        buffer = again;
    }
}
