//! A chat over WebSocket with a thread for each member, by the crate `tungstenite` as it is: in blocking style, and
//! without a runtime.
//!
//! Watch how [`Connection`] reads. All that such a library wants is std's `Read` and `Write`, and what a thread waits
//! for in them is any future: here the first of what the member sends, what another one says, and the end of the
//! server. For the latter two it answers `WouldBlock`, after which tungstenite goes on where it was. So one thread does
//! for both directions, in the middle of a message, too: no lock, no second thread, and no limit of time after which it
//! looks around.
//!
//! `cargo run --example websocket_chat -- 127.0.0.1:7007` serves until Ctrl-C (`SIGINT`) or `SIGTERM`; then nobody is
//! let in any more, all members are told that the server goes away, and it ends when they have answered, or after 5
//! seconds. Without an address it talks to itself.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, SocketAddr};

use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::signal;
use quadrille::sync::broadcast::{self, RecvError};
use quadrille::sync::{CancellationToken, oneshot};
use quadrille::task::TaskTracker;
use quadrille::time::{Duration, Instant, timeout, timeout_at};
use quadrille::{Wait, select};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{Message, Utf8Bytes, WebSocket};

type Failure = Box<dyn Error + Send + Sync>;

/// How long a member may keep its thread waiting until it has entered, until there is room for what it is told, and
/// until it has left; and the server, at the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Messages that a member may be behind.
const BEHIND_MAX: usize = 256;
/// Bytes of a message. Whoever sends more is let go.
const MESSAGE_MAX: usize = 4096;

const MEMBERS: usize = 8;
const MESSAGES: usize = 20;

/// What is said in the room.
#[derive(Clone)]
struct Said {
    from: SocketAddr,
    text: Utf8Bytes,
}

type Room = broadcast::Sender<Said>;

/// What comes from elsewhere while a member is waited for.
enum News {
    Said(Said),
    Missed(u64),
    Stop,
}

/// Where news come from.
struct Elsewhere {
    room: broadcast::Receiver<Said>,
    stop: CancellationToken,
}

impl Elsewhere {
    async fn next(&mut self) -> News {
        select! {
            () = self.stop.cancelled() => News::Stop,
            said = self.room.recv() => match said {
                Ok(said) => News::Said(said),
                Err(RecvError::Lagged(missed)) => News::Missed(missed),
                Err(RecvError::Closed) => News::Stop,
            },
        }
    }
}

/// What tungstenite takes for a socket.
struct Connection {
    stream: TcpStream,
    /// Nobody is listened to but the member while there is none: when it enters, and when it leaves.
    elsewhere: Option<Elsewhere>,
    /// Until when that may take, however many bytes come one by one.
    alone_until: Instant,
    /// Why the last read was broken off.
    news: Option<News>,
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(elsewhere) = &mut self.elsewhere else {
            // Also of who sends without a pause.
            if Instant::now() >= self.alone_until {
                return Err(ErrorKind::TimedOut.into());
            }
            return timeout_at(self.alone_until, self.stream.read(buffer)).wait()?;
        };
        let first = async {
            select! {
                read = self.stream.read(buffer) => Ok(read),
                news = elsewhere.next() => Err(news),
            }
        };
        first.wait().unwrap_or_else(|news| {
            self.news = Some(news);
            Err(ErrorKind::WouldBlock.into())
        })
    }
}

impl Write for Connection {
    /// Fails with `TimedOut` where there is no room: after `WouldBlock`, as with a limit of `BlockingIo`'s, tungstenite
    /// would try the answer to a ping again and again.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).wait_timeout(PATIENCE)?
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What all members share.
#[derive(Clone)]
struct Chat {
    room: Room,
    stop: CancellationToken,
    members: TaskTracker,
}

impl Chat {
    fn new() -> Self {
        Self {
            room: Room::new(BEHIND_MAX),
            stop: CancellationToken::new(),
            members: TaskTracker::new(),
        }
    }

    /// Lets members in until the end, which it says by `closed`, and serves them until it is dropped.
    async fn serve(self, listener: TcpListener, closed: oneshot::Sender<()>) -> io::Result<()> {
        listener.set_nodelay(true)?;
        let server = Server::new(listener)
            .on_accept_error(|error| eprintln!("cannot accept a connection: {error}"))
            .graceful_shutdown(self.stop.clone())
            .on_shutdown(|_| {
                let _ = closed.send(());
            });
        server
            .serve_threads(move |stream, member| self.attend(stream, member))
            .await?;
        Ok(())
    }

    /// A member's time in the room: it ends with an error, mostly that the connection was closed.
    fn attend(&self, stream: TcpStream, member: SocketAddr) -> Result<(), Failure> {
        let connection = Connection {
            stream,
            elsewhere: None,
            alone_until: Instant::now() + PATIENCE,
            news: None,
        };
        // Its buffer has 128 KiB else, for each member.
        let config = WebSocketConfig::default()
            .read_buffer_size(MESSAGE_MAX)
            .max_message_size(Some(MESSAGE_MAX))
            .max_frame_size(Some(MESSAGE_MAX));
        // Who hasn't come so far isn't waited for at the end.
        let mut socket =
            tungstenite::accept_with_config(connection, Some(config)).map_err(|error| error.to_string())?;
        let _counted = self.members.token();
        let others = self.room.receiver_count();
        socket.get_mut().elsewhere = Some(Elsewhere {
            room: self.room.subscribe(),
            stop: self.stop.clone(),
        });
        socket.send(Message::text(format!("hello, others here: {others}")))?;
        Ok(self.converse(&mut socket, member)?)
    }

    fn converse(&self, socket: &mut WebSocket<Connection>, member: SocketAddr) -> tungstenite::Result<()> {
        loop {
            let error = match socket.read() {
                Ok(Message::Text(text)) => {
                    let text = format!("{member}: {text}").into();
                    // It hears so itself, and drops it.
                    let _ = self.room.send(Said { from: member, text });
                    continue;
                }
                // Pings are answered by tungstenite.
                Ok(_) => continue,
                Err(error) => error,
            };
            match socket.get_mut().news.take() {
                Some(News::Said(said)) if said.from == member => {}
                Some(News::Said(said)) => socket.send(Message::Text(said.text))?,
                Some(News::Missed(missed)) => {
                    socket.send(Message::text(format!("(you are too slow: {missed} messages missed)")))?;
                }
                Some(News::Stop) => return farewell(socket),
                None => return Err(error),
            }
        }
    }
}

/// Tells the member that the server goes, and waits for its answer: until reading fails.
fn farewell(socket: &mut WebSocket<Connection>) -> tungstenite::Result<()> {
    let connection = socket.get_mut();
    connection.elsewhere = None;
    connection.alone_until = Instant::now() + PATIENCE;
    socket.close(Some(CloseFrame {
        code: CloseCode::Away,
        reason: Utf8Bytes::from_static("the server ends"),
    }))?;
    loop {
        socket.read()?;
    }
}

type Client = WebSocket<net::TcpStream>;

/// Enters as anybody would, by a socket of std, and hears the greeting.
fn enter(address: SocketAddr) -> Client {
    let stream = net::TcpStream::connect(address).expect("the server listens");
    let (mut client, _) = tungstenite::client(format!("ws://{address}/"), stream).expect("the server lets in");
    let greeting = client.read().expect("the server greets");
    assert!(greeting.to_text().is_ok_and(|text| text.starts_with("hello, ")));
    client
}

/// All enter, talk, and hear all others out.
fn all_talk(address: SocketAddr) -> tungstenite::Result<Vec<Client>> {
    let mut clients: Vec<_> = (0..MEMBERS).map(|_| enter(address)).collect();
    for client in &mut clients {
        for number in 0..MESSAGES {
            client.send(Message::text(format!("message {number}")))?;
        }
    }
    for client in &mut clients {
        for _ in 0..(MEMBERS - 1) * MESSAGES {
            assert!(client.read()?.is_text());
        }
    }
    Ok(clients)
}

/// The server has told each that it goes away, and closes the connection after the answer, which `read` sends.
fn all_hear_the_end(clients: Vec<Client>) {
    for mut client in clients {
        let told = client.read().expect("the server says farewell");
        assert!(matches!(told, Message::Close(Some(frame)) if frame.code == CloseCode::Away));
        assert!(matches!(client.read(), Err(tungstenite::Error::ConnectionClosed)));
    }
}

/// Prints a line. That nobody reads any more what the server prints is no reason to end it, as `println!` would.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let argument = std::env::args().nth(1);
    // Before anybody can know of the server: a signal that comes earlier ends the process.
    let termination = signal::termination()?;
    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    let chat = Chat::new();
    let (closed, is_closed) = oneshot::channel();
    let mut server = quadrille::spawn(chat.clone().serve(listener, closed));
    let clients = if argument.is_some() {
        select! {
            () = termination => {}
            failed = &mut server => failed??,
        }
        Vec::new()
    } else {
        let clients = quadrille::spawn_blocking(move || all_talk(address)).await??;
        let heard = MEMBERS * (MEMBERS - 1) * MESSAGES;
        say(&format!("{MEMBERS} members heard {heard} messages of one another"));
        clients
    };

    chat.stop.cancel();
    is_closed.await?;
    chat.members.close();
    say(&format!("stopping, members left: {}", chat.members.len()));
    let hearing = quadrille::spawn_blocking(move || all_hear_the_end(clients));
    let _ = timeout(PATIENCE, chat.members.wait()).await;
    say(&format!("stopped, members cut off: {}", chat.members.len()));
    // Who is late, or hasn't come so far, is unwound from where it waits, and its connection closed.
    server.abort();
    Ok(hearing.await?)
}
