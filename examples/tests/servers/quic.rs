//! The server over QUIC.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, program};

/// Of the system's clients few speak QUIC, but any may ask which versions are spoken (RFC 9000, section 6): by a first
/// packet of one that nobody does.
#[test]
fn quic_hello_says_its_versions_and_ends_by_a_signal() {
    const UNKNOWN: u32 = 0x1a2a_3a4a;
    const OURS: [u8; 8] = *b"the-test";
    const THEIRS: [u8; 8] = *b"a-server";
    let mut server = Server::start("quic_hello");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&server.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();

    let mut packet = vec![0xc0];
    packet.extend(UNKNOWN.to_be_bytes());
    for id in [THEIRS, OURS] {
        packet.push(8);
        packet.extend(id);
    }
    packet.resize(1200, 0);
    socket.send(&packet).unwrap();

    let mut answer = [0; 1500];
    let length = socket.recv(&mut answer).unwrap();
    let answer = &answer[..length];
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]), "{answer:x?}");
    assert_eq!((answer[5], &answer[6..14]), (8, &OURS[..]));
    assert_eq!((answer[14], &answer[15..23]), (8, &THEIRS[..]));
    let versions = answer[23..]
        .chunks(4)
        .map(|version| u32::from_be_bytes(version.try_into().unwrap()));
    assert!(versions.into_iter().any(|version| version == 1), "{answer:x?}");

    server.signal("-INT");
    assert_eq!(server.line(), "closed");
    assert_eq!(server.end(), "");
}

#[test]
fn quic_hello_asks_itself() {
    let own = Command::new(program("quic_hello")).output().unwrap();
    let said = String::from_utf8(own.stdout).unwrap();
    let lines: Vec<&str> = said.lines().skip(1).collect();
    assert_eq!(
        (own.status.success(), &lines[..]),
        (true, &["10 answers over QUIC", "closed"][..]),
        "{said}"
    );
}
