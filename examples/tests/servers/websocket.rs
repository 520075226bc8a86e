//! The chat over WebSocket, with clients over sockets of std.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use crate::server::Server;

/// A member of the chat.
struct Member {
    socket: WebSocket<TcpStream>,
    address: SocketAddr,
}

impl Member {
    /// Enters a room where there are so many.
    fn enter(server: &Server, others: usize) -> Self {
        let stream = TcpStream::connect(&server.address).unwrap();
        let address = stream.local_addr().unwrap();
        let (socket, _) = tungstenite::client(format!("ws://{}/", server.address), stream).unwrap();
        let mut member = Member { socket, address };
        assert_eq!(member.hear(), format!("hello, others here: {others}"));
        member
    }

    fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    fn hear(&mut self) -> String {
        self.socket.read().unwrap().into_text().unwrap().to_string()
    }
}

#[test]
fn websocket_chat_tells_each_what_the_other_says() {
    let server = Server::start("websocket_chat");
    let mut one = Member::enter(&server, 0);
    let mut other = Member::enter(&server, 1);
    one.say("good day");
    assert_eq!(other.hear(), format!("{}: good day", one.address));
    other.say("hello");
    assert_eq!(one.hear(), format!("{}: hello", other.address));
    let ping = Message::Ping("anybody?".into());
    one.socket.send(ping).unwrap();
    assert_eq!(one.socket.read().unwrap(), Message::Pong("anybody?".into()));

    // Who says more than there is room for is let go, and nobody else.
    let mut endless = Member::enter(&server, 2);
    endless.say(&"blah".repeat(1025));
    let _ = endless.socket.get_mut().read_to_end(&mut Vec::new());
    one.say("still here");
    assert_eq!(other.hear(), format!("{}: still here", one.address));
}

#[test]
fn websocket_chat_tells_a_member_what_others_say_in_the_middle_of_its_own_message() {
    let server = Server::start("websocket_chat");
    let mut slow = Member::enter(&server, 0);
    let mut other = Member::enter(&server, 1);
    // A text of nine bytes, of one frame, masked with zeros.
    let frame = b"\x81\x89\0\0\0\0at length";
    for byte in 0..frame.len() {
        slow.socket.get_mut().write_all(&frame[byte..=byte]).unwrap();
        other.say(&format!("{byte}"));
        assert_eq!(slow.hear(), format!("{}: {byte}", other.address));
    }
    assert_eq!(other.hear(), format!("{}: at length", slow.address));
}

#[test]
fn websocket_chat_says_farewell_to_its_members_when_it_is_interrupted() {
    let mut server = Server::start("websocket_chat");
    let mut members: Vec<_> = (0..3).map(|others| Member::enter(&server, others)).collect();
    // One that is in the middle of a message, and others that have not come in, who are not waited for.
    members[1].socket.get_mut().write_all(b"\x81\x89\0").unwrap();
    let mut silent = TcpStream::connect(&server.address).unwrap();
    let mut gone = TcpStream::connect(&server.address).unwrap();
    gone.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    gone.shutdown(Shutdown::Write).unwrap();
    gone.read_to_end(&mut Vec::new()).unwrap();
    server.signal("-INT");
    assert_eq!(server.line(), "stopping, members left: 3");
    TcpStream::connect(&server.address).unwrap_err();
    for member in [0, 2] {
        let socket = &mut members[member].socket;
        let Message::Close(Some(frame)) = socket.read().unwrap() else {
            panic!("a farewell was expected");
        };
        assert_eq!(frame.code, CloseCode::Away);
        assert!(matches!(socket.read().unwrap_err(), Error::ConnectionClosed));
    }
    // The third one only hangs up.
    drop(members);
    assert_eq!(server.end(), "stopped, members cut off: 0\n");
    let _ = silent.read_to_end(&mut Vec::new());
}

/// Whether the server has closed the connection, or does so within a second.
fn is_over(socket: &mut TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    match socket.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn websocket_chat_lets_go_who_enters_byte_by_byte() {
    let server = Server::start("websocket_chat");
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    // Each byte comes well within the time for which the server waits.
    let is_let_go = (0..10).any(|_| is_over(&mut slow) || slow.write_all(b"a").is_err());
    assert!(is_let_go, "the server still waits after 10 seconds");
}

#[test]
fn websocket_chat_lets_go_who_pings_and_does_not_read() {
    let server = Server::start("websocket_chat");
    let mut deaf = Member::enter(&server, 0);
    let socket = deaf.socket.get_mut();
    socket.set_write_timeout(Some(Duration::from_secs(15))).unwrap();
    // 125 bytes, masked with zeros: all that a ping may have.
    let ping = [b"\x89\xfd\0\0\0\0".as_slice(), &[b'x'; 125]].concat();
    let pings = ping.repeat(512);
    let error = loop {
        if let Err(error) = socket.write_all(&pings) {
            break error;
        }
    };
    assert_ne!(
        error.kind(),
        ErrorKind::WouldBlock,
        "the server neither reads nor hangs up"
    );
}

#[test]
fn websocket_chat_says_farewell_though_nobody_hears_what_it_prints() {
    let mut server = Server::start("websocket_chat");
    let mut member = Member::enter(&server, 0);
    server.hear_no_more();
    server.signal("-INT");
    assert!(matches!(member.socket.read().unwrap(), Message::Close(Some(_))));
    assert!(matches!(member.socket.read().unwrap_err(), Error::ConnectionClosed));
    server.end();
}
