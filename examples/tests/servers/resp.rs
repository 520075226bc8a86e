//! The one that speaks the protocol of Redis, with Redis' own clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::server::Server;
use crate::tool::run;

/// Command, what `redis-cli` says of the answer where it isn't a terminal, and the answer itself.
const CONVERSATION: [(&str, &str, &str); 8] = [
    ("PING", "PONG\n", "+PONG\r\n"),
    ("PING hello", "hello\n", "$5\r\nhello\r\n"),
    ("GET word", "\n", "$-1\r\n"),
    ("SET word seven", "OK\n", "+OK\r\n"),
    ("GET word", "seven\n", "$5\r\nseven\r\n"),
    ("INCR number", "1\n", ":1\r\n"),
    ("INCR number", "2\n", ":2\r\n"),
    (
        "INCR word",
        "ERR value is not an integer or out of range\n\n",
        "-ERR value is not an integer or out of range\r\n",
    ),
];

#[test]
fn resp_server_answers_redis_cli() {
    let server = Server::start("resp_server");
    let mut socket = TcpStream::connect(&server.address).unwrap();
    for (command, said, answer) in CONVERSATION {
        let arguments: Vec<&str> = ["-p", server.port()].into_iter().chain(command.split(' ')).collect();
        if let Some(output) = run("redis-cli", &arguments) {
            assert_eq!(output, said, "{command}");
            continue;
        }
        socket.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut received = vec![0; answer.len()];
        socket.read_exact(&mut received).unwrap();
        assert_eq!(String::from_utf8_lossy(&received), answer, "{command}");
    }
}

#[test]
fn resp_server_stands_redis_benchmark() {
    const REQUESTS: usize = 3200;
    let server = Server::start("resp_server");
    let options = "-t ping,set,get,incr -n 3200 -c 20 -P 16 --csv -p";
    let arguments: Vec<&str> = options.split(' ').chain([server.port()]).collect();
    let Some(report) = run("redis-benchmark", &arguments) else {
        return load_plainly(&server, REQUESTS);
    };
    // A line for each kind, with requests a second; an error in an answer ends the program with a status.
    for kind in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"] {
        let line = report
            .lines()
            .find_map(|line| line.strip_prefix(&format!("\"{kind}\",\"")));
        let rate = line.and_then(|line| line.split('"').next()?.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{kind}: {report}");
    }
    // It has counted up one key by each INCR.
    let mut socket = TcpStream::connect(&server.address).unwrap();
    socket.write_all(b"INCR counter:__rand_int__\r\n").unwrap();
    let expected = format!(":{}\r\n", REQUESTS + 1);
    let mut received = vec![0; expected.len()];
    socket.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), expected);
}

/// The same number of requests where there is no Redis: 16 at once over each of 20 connections.
fn load_plainly(server: &Server, requests: usize) {
    let mut sockets: Vec<_> = (0..20).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    for _ in 0..requests / 320 {
        for socket in &mut sockets {
            socket
                .write_all("*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n".repeat(16).as_bytes())
                .unwrap();
        }
        for socket in &mut sockets {
            let expected = "$2\r\nhi\r\n".repeat(16);
            let mut received = vec![0; expected.len()];
            socket.read_exact(&mut received).unwrap();
            assert_eq!(String::from_utf8_lossy(&received), expected);
        }
    }
}
