//! How the servers here let clients in.

use quadrille::net::{TcpListener, TcpStream};
use quadrille::time::{Duration, sleep};

/// Until the next attempt to accept, after one that has failed: mostly no descriptor is left, and connections that end
/// give some back.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits for the next connection.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // Where that fails the client is gone already, as the first read will say.
            let _ = stream.set_nodelay(true);
            return stream;
        }
        sleep(PAUSE).await;
    }
}
