//! quinn's runtime, on quadrille: tasks, timers and UDP sockets by quinn's three traits.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{self, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use pin_project_lite::pin_project;
use quadrille::io::Interest;
use quadrille::net::UdpSocket;
use quadrille::time::{self, Sleep, sleep_until};
use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, UdpPoller};

/// For [`quinn::Endpoint::new`], called in a task of quadrille or in `block_on`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime;

impl quinn::Runtime for Runtime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(sleep_until(deadline.into())))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        quadrille::spawn(future);
    }

    fn wrap_udp_socket(&self, socket: net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket {
            state: UdpSocketState::new((&socket).into())?,
            socket: UdpSocket::from_std(socket)?,
        }))
    }

    /// That of the timers: in a test which pauses the clock, quinn's time stands, too.
    fn now(&self) -> Instant {
        time::Instant::now().into_std()
    }
}

#[derive(Debug)]
struct Timer(Sleep);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset(deadline.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    /// What the system can do, such as several datagrams in a call.
    state: UdpSocketState,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room {
            wait: move || {
                let this = Arc::clone(&self);
                async move { this.socket.writable().await }
            },
            waits: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.send((&self.socket).into(), transmit);
        self.socket.try_io(Interest::WRITABLE, send)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            let receive = || self.state.recv((&self.socket).into(), buffers, meta);
            // As quinn's own for tokio it tries again whatever the error is: passed on, most would end all connections.
            if let Ok(count) = self.socket.try_io(Interest::READABLE, receive) {
                return Poll::Ready(Ok(count));
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

pin_project! {
    /// Waits until there is room to send: each connection has one of its own.
    struct Room<W, F> {
        wait: W,
        // `None` while nobody waits.
        #[pin]
        waits: Option<F>,
    }
}

impl<W, F> UdpPoller for Room<W, F>
where
    W: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + Sync + 'static,
{
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        if this.waits.is_none() {
            this.waits.set(Some((this.wait)()));
        }
        let waits = this.waits.as_mut().as_pin_mut().expect("made above");
        let room = ready!(waits.poll(cx));
        this.waits.set(None);
        Poll::Ready(room)
    }
}

impl<W, F> fmt::Debug for Room<W, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}
