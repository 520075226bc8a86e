//! Those with a protocol of their own, or none: echo and chat, over sockets of std, and by socat.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, program, read_line};
use crate::tool::{Socat, socat};

/// More than the connection holds both ways, so that the server must read while it writes.
const BYTES: usize = 8 << 20;

/// Sends bytes, says that this was all, and gets every one of them back; on two connections at a time, and then socat.
fn echoes(server: &Server) {
    let sent: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(BYTES).collect();
    let converse = || {
        let mut connection = TcpStream::connect(&server.address).unwrap();
        let mut writer = connection.try_clone().unwrap();
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&sent).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            connection.read_to_end(&mut received).unwrap();
        });
        assert!(
            received == sent,
            "{} of {BYTES} bytes came back, or others",
            received.len()
        );
    };
    std::thread::scope(|scope| {
        scope.spawn(converse);
        scope.spawn(converse);
    });
    // It reads and writes in turn, so no more than the connection holds.
    let sent = &sent[..64 << 10];
    if let Some(received) = socat(&format!("TCP:{}", server.address), sent, 300) {
        let (length, all) = (received.len(), sent.len());
        assert!(
            received == sent,
            "{length} of {all} bytes came back to socat, or others"
        );
    }
}

#[test]
fn tcp_echo_gives_every_byte_back() {
    echoes(&Server::start("tcp_echo"));
}

#[test]
fn echo_server_gives_every_byte_back() {
    echoes(&Server::start("echo_server"));
}

#[test]
fn proxy_gives_every_byte_back_from_an_echo() {
    let echo = Server::start("tcp_echo");
    echoes(&Server::start_with("proxy", &[&echo.address]));
}

/// A connection through the proxy: its two ends.
fn through_the_proxy() -> (Server, TcpStream, TcpStream) {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Server::start_with("proxy", &[&target.local_addr().unwrap().to_string()]);
    let client = TcpStream::connect(&proxy.address).unwrap();
    let (server, _) = target.accept().unwrap();
    (proxy, client, server)
}

/// One end of a connection ends its writing, the other hears of it, and goes on to write until it ends, too.
fn ends_one_way(mut first: &TcpStream, mut other: &TcpStream) {
    first.write_all(b"a question").unwrap();
    first.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    other.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "a question");
    for word in [b"one", b"two"] {
        other.write_all(word).unwrap();
        let mut heard = [0; 3];
        first.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, word);
    }
    other.shutdown(Shutdown::Write).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
}

#[test]
fn proxy_passes_the_end_of_one_direction_on() {
    let (_proxy, client, server) = through_the_proxy();
    ends_one_way(&client, &server);
    let (_proxy, client, server) = through_the_proxy();
    ends_one_way(&server, &client);
}

#[test]
fn proxy_hangs_up_where_nobody_listens() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap().to_string();
    let proxy = Server::start_with("proxy", &[&address]);
    drop(target);
    let mut client = TcpStream::connect(&proxy.address).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn udp_echo_gives_datagrams_back() {
    let server = Server::start("udp_echo");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let large: Vec<u8> = (0..=255).cycle().take(8192).collect();
    for datagram in [b"hello".as_slice(), b"", &large] {
        let mut buffer = vec![0; 65536];
        // A datagram may be lost: then it is sent again. What was asked before may be answered twice.
        let answered = (0..100).any(|_| {
            socket.send(datagram).unwrap();
            matches!(socket.recv(&mut buffer), Ok(length) if buffer[..length] == *datagram)
        });
        assert!(answered, "no answer to {} bytes, sent 100 times", datagram.len());
    }
}

#[test]
fn udp_echo_gives_socat_its_datagrams_back() {
    let server = Server::start("udp_echo");
    let address = format!("UDP:{}", server.address);
    // The large one is as much as a pipe passes on in one piece, of which socat makes one datagram.
    for datagram in [b"hello\n".as_slice(), &[b'x'; 4096]] {
        // As above; nothing tells socat that there is no more to come, so it waits a second for that.
        let answered = (0..100).any(|_| socat(&address, datagram, 1).is_none_or(|answer| answer == datagram));
        assert!(answered, "no answer to {} bytes, sent 100 times", datagram.len());
    }
}

/// A member of the chat.
struct Member {
    connection: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Member {
    fn enter(server: &Server) -> Self {
        let connection = TcpStream::connect(&server.address).unwrap();
        let address = connection.local_addr().unwrap();
        let connection = BufReader::new(connection);
        Member { connection, address }
    }

    fn say(&mut self, text: &str) {
        self.connection.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        read_line(&mut self.connection)
    }
}

#[test]
fn chat_tells_each_what_the_other_says() {
    let server = Server::start("chat");
    let mut one = Member::enter(&server);
    let mut other = Member::enter(&server);
    assert_eq!(one.hear(), format!("{} is here", other.address));
    other.say("hello\nand ");
    assert_eq!(one.hear(), format!("{}: hello", other.address));
    one.say("good day\n");
    assert_eq!(other.hear(), format!("{}: good day", one.address));
    other.say("good bye\n");
    assert_eq!(one.hear(), format!("{}: and good bye", other.address));

    // Who has no end is shown out, and nobody else.
    let mut endless = Member::enter(&server);
    assert_eq!(one.hear(), format!("{} is here", endless.address));
    endless.say(&"blah".repeat(1025));
    let _ = endless.connection.read_to_end(&mut Vec::new());
    one.say("still here\n");
    assert_eq!(other.hear(), format!("{} is here", endless.address));
    assert_eq!(other.hear(), format!("{}: still here", one.address));
}

#[test]
fn chat_tells_members_by_socat_what_others_say() {
    let server = Server::start("chat");
    let mut one = Member::enter(&server);
    let mut enters = || {
        let newcomer = Socat::connect(&server.address)?;
        let said = one.hear();
        let address = said.strip_suffix(" is here").unwrap_or_else(|| panic!("{said:?}"));
        Some((newcomer, address.to_owned()))
    };
    let Some((mut first, its_address)) = enters() else {
        return;
    };
    let (mut second, other_address) = enters().expect("there was one before");
    assert_eq!(first.hear(), format!("{other_address} is here"));
    one.say("good day\n");
    assert_eq!(first.hear(), format!("{}: good day", one.address));
    assert_eq!(second.hear(), format!("{}: good day", one.address));
    second.say("hello\nand ");
    assert_eq!(first.hear(), format!("{other_address}: hello"));
    assert_eq!(one.hear(), format!("{other_address}: hello"));
    // Its end is the connection's.
    assert_eq!(first.end(), "");
    second.say("good bye\n");
    assert_eq!(one.hear(), format!("{other_address}: and good bye"));
    one.say(&format!("{its_address} has gone\n"));
    assert_eq!(second.hear(), format!("{}: {its_address} has gone", one.address));
    assert_eq!(second.end(), "");
}

#[test]
fn chat_tells_a_slow_member_what_it_missed() {
    // Its own members check that nothing is unaccounted for.
    let output = Command::new(program("chat")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("8 members heard 1120 lines\n"), "{said}");
    assert!(said.ends_with(" that it missed\n"), "{said}");
}
