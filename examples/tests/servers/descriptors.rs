//! What all that accept do when no descriptor is left.

use std::io::Read;
use std::net::{Shutdown, TcpStream};

use crate::server::{Server, read_line};

/// A crowd of clients takes all descriptors. Once it has gone, the next client is served: its end is answered by an
/// end.
fn survives_a_crowd(name: &str) {
    const DESCRIPTORS: usize = 64;
    let (server, mut errors) = Server::start_limited(name, DESCRIPTORS);
    let crowd: Vec<_> = (0..DESCRIPTORS)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    let said = read_line(&mut errors);
    assert!(said.starts_with("cannot accept a connection: "), "{name}: {said:?}");
    drop(crowd);
    let mut next = TcpStream::connect(&server.address).unwrap();
    next.shutdown(Shutdown::Write).unwrap();
    next.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn http_hello_survives_a_crowd() {
    survives_a_crowd("http_hello");
}

#[test]
fn https_hello_survives_a_crowd() {
    survives_a_crowd("https_hello");
}

#[test]
fn json_service_survives_a_crowd() {
    survives_a_crowd("json_service");
}

#[test]
fn resp_server_survives_a_crowd() {
    survives_a_crowd("resp_server");
}

#[test]
fn tcp_echo_survives_a_crowd() {
    survives_a_crowd("tcp_echo");
}

#[test]
fn echo_server_survives_a_crowd() {
    survives_a_crowd("echo_server");
}

#[test]
fn chat_survives_a_crowd() {
    survives_a_crowd("chat");
}

#[test]
fn websocket_chat_survives_a_crowd() {
    survives_a_crowd("websocket_chat");
}
