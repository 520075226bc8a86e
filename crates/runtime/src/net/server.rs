//! Serving each connection of a listener by a task, or a user-level thread, of its own, to a gentle end.

use std::fmt;
use std::future::{Future, IntoFuture, Pending, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::Listener;
use crate::coop;
use crate::join_set::JoinSet;
use crate::panics::quietly;
use crate::runtime::Handle;
use crate::sys::socket;
use crate::task::JoinError;
use crate::thread;
use crate::time::{Sleep, sleep, timeout};

/// Until the next attempt to let somebody in, after one that has failed, unless a connection ends before: mostly no
/// descriptor is left, and connections that end give some back.
const PAUSE: Duration = Duration::from_millis(10);

/// Lets clients in, and has each connection served by a task or a user-level thread of its own.
///
/// What every server has to see to, and few do: if no descriptor is left it tries again (every 10 ms, and when a
/// connection ends); it lets in no more than it is told to at a time; when it is told to end, it stops listening, and
/// gives the connections time to end, too. What serves the connections belongs to it, and is aborted when its future
/// is dropped. What that spawns, or gives a connection away to, does not: hyper's tasks for requests over HTTP/2, and
/// who takes over a connection that was upgraded. A [`TaskTracker`](crate::task::TaskTracker) counts those.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
///
/// use quadrille::net::{Server, TcpListener, TcpStream};
/// use quadrille::sync::CancellationToken;
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr()?;
/// let stop = CancellationToken::new();
/// let server = Server::new(listener)
///     .max_connections(10_000)
///     .graceful_shutdown(stop.clone())
///     .shutdown_timeout(Duration::from_secs(10))
///     .on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
/// let server = quadrille::spawn(server.serve(|stream: TcpStream, _| async move {
///     let mut buffer = [0; 1024];
///     loop {
///         match stream.read(&mut buffer).await? {
///             0 => return std::io::Result::Ok(()),
///             count => stream.write_all(&buffer[..count]).await?,
///         }
///     }
/// }));
///
/// let client = TcpStream::connect(address).await?;
/// client.write_all(b"echo").await?;
/// let mut buffer = [0; 4];
/// client.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b"echo");
/// drop(client);
///
/// stop.cancel();
/// let served = server.await.unwrap()?;
/// assert_eq!((served.connections, served.cut_off), (1, 0));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[must_use = "a server does nothing until `serve` is awaited"]
pub struct Server<L, S = Pending<()>> {
    listener: L,
    signal: S,
    max_connections: usize,
    shutdown_timeout: Option<Duration>,
    on_shutdown: Option<OnShutdown>,
    on_accept_error: Option<OnError>,
}

type OnShutdown = Box<dyn FnOnce(usize) + Send>;
type OnError = Box<dyn FnMut(&io::Error) + Send>;

/// What a [`Server`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Connections that were let in.
    pub connections: u64,
    /// Those among them whose task or thread has panicked.
    pub panicked: u64,
    /// Those among them that took longer than [`shutdown_timeout`](Server::shutdown_timeout), and were aborted.
    pub cut_off: u64,
}

impl<L: Listener> Server<L> {
    /// A server of `listener` with any number of connections at a time, which no signal ends.
    pub fn new(listener: L) -> Self {
        Server {
            listener,
            signal: pending(),
            max_connections: usize::MAX,
            shutdown_timeout: None,
            on_shutdown: None,
            on_accept_error: None,
        }
    }
}

impl<L: Listener, S: Future> Server<L, S> {
    /// Has at most `limit` connections at a time, at least one. Further clients wait in the queue of the listener until
    /// one has ended. By default there is no limit.
    pub fn max_connections(mut self, limit: usize) -> Self {
        self.max_connections = limit.max(1);
        self
    }

    /// Ends once `signal` is ready, such as a [`CancellationToken`](crate::sync::CancellationToken), or a
    /// [`Termination`](crate::signal::Termination): then nobody is let in any more; listener, signal and handler are
    /// dropped (one that threads run, with the last of them); and the connections go on until they have ended. They
    /// hear nothing of it: what serves them asks the same token, between two requests for example. By default nothing
    /// ends a server.
    ///
    /// Clients in the queue of the listener, which have connected and were not let in yet, see theirs reset.
    pub fn graceful_shutdown<T: IntoFuture>(self, signal: T) -> Server<L, T::IntoFuture> {
        Server {
            listener: self.listener,
            signal: signal.into_future(),
            max_connections: self.max_connections,
            shutdown_timeout: self.shutdown_timeout,
            on_shutdown: self.on_shutdown,
            on_accept_error: self.on_accept_error,
        }
    }

    /// How long after the signal connections may take to end. What is left then is aborted, and counted in
    /// [`Served::cut_off`]; nobody waits until it has gone. By default they may take for ever.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = Some(limit);
        self
    }

    /// Calls `say` after the signal, when the listener has been dropped, with how many connections are left. If it
    /// panics the server goes on.
    pub fn on_shutdown(mut self, say: impl FnOnce(usize) + Send + 'static) -> Self {
        self.on_shutdown = Some(Box::new(say));
        self
    }

    /// Calls `say` when nobody can be let in, with the reason: mostly no descriptor is left, or, where threads serve,
    /// no memory for a stack. Once, until somebody has been let in, or nobody waits to be, again. If it panics the
    /// server goes on.
    pub fn on_accept_error(mut self, say: impl FnMut(&io::Error) + Send + 'static) -> Self {
        self.on_accept_error = Some(Box::new(say));
        self
    }

    /// Lets clients in until the signal, and has each served by a task that runs what `handler` makes of its
    /// connection. What the tasks return is dropped in them, errors, too: who wants to know of those says so there.
    ///
    /// `handler` is called between two clients, by the server: it should make a future and no more.
    ///
    /// # Errors
    ///
    /// The listener has failed in a way that does not pass: it does not listen any more, or its runtime ends. The
    /// connections are aborted.
    ///
    /// # Panics
    ///
    /// Outside of a runtime; if `handler` panics.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the listener is dropped, and the connections are aborted.
    pub fn serve<F>(self, mut handler: impl FnMut(L::Io, L::Addr) -> F) -> impl Future<Output = io::Result<Served>>
    where
        F: Future + Send + 'static,
    {
        self.run(move |connections, handle, io, from| {
            let future = handler(io, from);
            connections.spawn_on(Discarding { future }, handle);
            Ok(())
        })
    }

    /// Lets clients in until the signal, and has each served by a user-level thread that runs `handler`. What it
    /// returns is dropped there. A thread that is aborted unwinds; see [`thread::JoinHandle::abort`]. The threads share
    /// `handler`, which goes with the last of them: what they wait for the end of, such as a channel, must not be in
    /// it.
    ///
    /// A client is let go at once where there is no memory for another stack. Small messages that are written in
    /// several pieces wait for one another by default: [`TcpListener::set_nodelay`](super::TcpListener::set_nodelay).
    ///
    /// ```
    /// # use quadrille::net::{Server, TcpListener, TcpStream};
    /// # async fn echo(listener: TcpListener) -> std::io::Result<()> {
    /// use quadrille::Wait as _;
    ///
    /// let served = Server::new(listener).serve_threads(|stream, _| {
    ///     let mut buffer = [0; 1024];
    ///     while let Ok(count @ 1..) = stream.read(&mut buffer).wait() {
    ///         if stream.write_all(&buffer[..count]).wait().is_err() {
    ///             break;
    ///         }
    ///     }
    /// });
    /// println!("{:?}", served.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the listener is dropped, and the connections are aborted.
    pub fn serve_threads<T>(
        self,
        handler: impl Fn(L::Io, L::Addr) -> T + Send + Sync + 'static,
    ) -> impl Future<Output = io::Result<Served>>
    where
        L::Io: Send + 'static,
        L::Addr: Send + 'static,
    {
        self.serve_threads_with(|_| thread::Builder::new(), handler)
    }

    /// As [`serve_threads`](Self::serve_threads), with a name, a stack or a group for the thread of each connection, by
    /// where that comes from.
    ///
    /// ```
    /// # use quadrille::net::{Server, TcpListener, TcpStream};
    /// # async fn serve(listener: TcpListener, talk: fn(TcpStream)) -> std::io::Result<()> {
    /// use quadrille::thread::Builder;
    ///
    /// let builder = |from: &std::net::SocketAddr| Builder::new().name(from.to_string()).stack_size(64 * 1024);
    /// Server::new(listener).serve_threads_with(builder, move |stream, _| talk(stream)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    ///
    /// # Panics
    ///
    /// Outside of a runtime; if `builder` panics.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the listener is dropped, and the connections are aborted.
    pub fn serve_threads_with<T>(
        self,
        mut builder: impl FnMut(&L::Addr) -> thread::Builder,
        handler: impl Fn(L::Io, L::Addr) -> T + Send + Sync + 'static,
    ) -> impl Future<Output = io::Result<Served>>
    where
        L::Io: Send + 'static,
        L::Addr: Send + 'static,
    {
        let handler = Arc::new(handler);
        self.run(move |connections, handle, io, from| {
            let (handler, builder) = (Arc::clone(&handler), builder(&from));
            let thread = builder.spawn_on(move || drop(handler(io, from)), handle)?;
            connections.insert_thread(thread);
            Ok(())
        })
    }

    /// `spawn` has one connection served.
    async fn run(
        self,
        mut spawn: impl FnMut(&mut JoinSet<()>, &Handle, L::Io, L::Addr) -> io::Result<()>,
    ) -> io::Result<Served> {
        let handle = Handle::current();
        let mut door = Door {
            connections: JoinSet::new(),
            served: Served::default(),
            max_connections: self.max_connections,
            pause: None,
            on_accept_error: self.on_accept_error,
            is_failing: false,
        };
        {
            let (mut listener, mut signal) = (self.listener, pin!(self.signal));
            poll_fn(|cx| {
                door.poll_open(cx, &mut listener, signal.as_mut(), |connections, io, from| {
                    spawn(connections, &handle, io, from)
                })
            })
            .await?;
        }
        // It may have what connections wait for the end of, a channel for example.
        drop(spawn);
        door.reap();
        if let Some(say) = self.on_shutdown {
            quietly(|| say(door.connections.len()));
        }
        match self.shutdown_timeout {
            // Who does not end by then ends with the set.
            Some(limit) => drop(timeout(limit, door.empty()).await),
            None => door.empty().await,
        }
        // Who has ended by then is not cut off, though there was no time to count.
        door.reap();
        door.served.cut_off = u64::try_from(door.connections.len()).unwrap_or(u64::MAX);
        Ok(door.served)
    }
}

pin_project! {
    /// A future whose output is dropped where it is polled, and neither kept until somebody asks for it nor dropped by
    /// whoever does.
    struct Discarding<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Discarding<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().future.poll(cx).map(drop)
    }
}

impl<L: fmt::Debug, S> fmt::Debug for Server<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("max_connections", &self.max_connections)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .finish_non_exhaustive()
    }
}

/// Who is let in, and who has gone.
struct Door {
    connections: JoinSet<()>,
    served: Served,
    max_connections: usize,
    /// Nobody is let in before that.
    pause: Option<Sleep>,
    on_accept_error: Option<OnError>,
    /// The last attempt has failed, which was said.
    is_failing: bool,
}

impl Door {
    /// Lets clients in until `signal` is ready.
    fn poll_open<L: Listener>(
        &mut self,
        cx: &mut Context<'_>,
        listener: &mut L,
        signal: Pin<&mut impl Future>,
        mut spawn: impl FnMut(&mut JoinSet<()>, L::Io, L::Addr) -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        // By a budget of its own: one that spends all of it, and so is polled again at once, keeps nobody out.
        if coop::with_limit(coop::DEFAULT, || signal.poll(cx)).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            // An empty set would be ready, too, for a unit.
            if !self.connections.is_empty()
                && let Poll::Ready(Some(ended)) = self.connections.poll_ended(cx)
            {
                self.count(ended);
                // What it had may be what was missing.
                self.pause = None;
                continue;
            }
            if self.connections.len() >= self.max_connections {
                return Poll::Pending;
            }
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(cx));
                self.pause = None;
            }
            // By units of this task: a listener of somebody else's may always have one more.
            let let_in = match coop::poll_paid(cx, |cx| listener.poll_accept(cx)) {
                Poll::Pending => {
                    // Without a unit nobody was asked whether somebody waits.
                    self.is_failing &= !coop::has_budget_remaining();
                    return Poll::Pending;
                }
                Poll::Ready(Ok((io, from))) => spawn(&mut self.connections, io, from),
                Poll::Ready(Err(error)) => match Failure::of(&error) {
                    Failure::OfOne => continue,
                    Failure::Passes => Err(error),
                    Failure::Stays => return Poll::Ready(Err(error)),
                },
            };
            match let_in {
                Ok(()) => {
                    self.served.connections += 1;
                    self.is_failing = false;
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    /// Waits for all connections to end.
    async fn empty(&mut self) {
        while let Some(ended) = self.connections.join_next().await {
            self.count(ended);
        }
    }

    /// Takes out who has ended.
    fn reap(&mut self) {
        while let Some(ended) = self.connections.try_join_next() {
            self.count(ended);
        }
    }

    fn count(&mut self, ended: Result<(), JoinError>) {
        if let Err(error) = ended {
            self.served.panicked += u64::from(error.is_panic());
            // The payload's destructor may panic as well.
            quietly(|| drop(error));
        }
    }

    #[cold]
    fn fail(&mut self, error: &io::Error) {
        self.pause = Some(sleep(PAUSE));
        if let Some(say) = self.on_accept_error.as_mut().filter(|_| !self.is_failing) {
            quietly(|| say(error));
        }
        self.is_failing = true;
    }
}

/// What a failed attempt to let somebody in says of the next.
enum Failure {
    /// Nothing: it is of one connection, which has gone.
    OfOne,
    /// It may succeed, a little later.
    Passes,
    /// It will fail, too.
    Stays,
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
            || socket::is_of_one_connection(error)
        {
            Self::OfOne
        } else if error.raw_os_error().is_some() && !socket::is_no_listener(error) {
            Self::Passes
        } else {
            Self::Stays
        }
    }
}
