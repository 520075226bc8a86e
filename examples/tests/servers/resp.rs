//! The one that speaks the protocol of Redis, with Redis' own clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::server::Server;
use crate::tool::run;

/// Command, what `redis-cli` says of the answer where it isn't a terminal, and the answer itself.
const CONVERSATION: [(&str, &str, &str); 12] = [
    ("PING", "PONG\n", "+PONG\r\n"),
    ("PING hello", "hello\n", "$5\r\nhello\r\n"),
    ("GET word", "\n", "$-1\r\n"),
    ("SET word seven", "OK\n", "+OK\r\n"),
    ("GET word", "seven\n", "$5\r\nseven\r\n"),
    ("INCR number", "1\n", ":1\r\n"),
    ("INCR number", "2\n", ":2\r\n"),
    ("INCR word", NO_NUMBER.0, NO_NUMBER.1),
    ("SET word +5", "OK\n", "+OK\r\n"),
    ("INCR word", NO_NUMBER.0, NO_NUMBER.1),
    ("SET word 007", "OK\n", "+OK\r\n"),
    ("INCR word", NO_NUMBER.0, NO_NUMBER.1),
];
const NO_NUMBER: (&str, &str) = (
    "ERR value is not an integer or out of range\n\n",
    "-ERR value is not an integer or out of range\r\n",
);

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(&server.address).unwrap()
}

/// Receives this reply.
fn expect(socket: &mut TcpStream, reply: &[u8]) {
    let mut received = vec![0; reply.len()];
    socket.read_exact(&mut received).unwrap();
    let beginning = received.chunks(80).next().map(String::from_utf8_lossy);
    let expected = reply.chunks(80).next().map(String::from_utf8_lossy);
    assert!(received == reply, "{beginning:?} in place of {expected:?}");
}

/// Sets `word` to a value of so many bytes. What `GET word` is answered then.
fn set(socket: &mut TcpStream, length: usize) -> Vec<u8> {
    let bulk = [format!("${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat();
    socket.write_all(b"*3\r\n$3\r\nSET\r\n$4\r\nword\r\n").unwrap();
    socket.write_all(&bulk).unwrap();
    expect(socket, b"+OK\r\n");
    bulk
}

#[test]
fn resp_server_answers_redis_cli() {
    let server = Server::start("resp_server");
    let mut socket = connect(&server);
    for (command, said, answer) in CONVERSATION {
        let arguments: Vec<&str> = ["-p", server.port()].into_iter().chain(command.split(' ')).collect();
        if let Some(output) = run("redis-cli", &arguments) {
            assert_eq!(output, said, "{command}");
            continue;
        }
        socket.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        expect(&mut socket, answer.as_bytes());
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
    let mut socket = connect(&server);
    socket.write_all(b"INCR counter:__rand_int__\r\n").unwrap();
    expect(&mut socket, format!(":{}\r\n", REQUESTS + 1).as_bytes());
}

/// The same number of requests where there is no Redis: 16 at once over each of 20 connections.
fn load_plainly(server: &Server, requests: usize) {
    let mut sockets: Vec<_> = (0..20).map(|_| connect(server)).collect();
    for _ in 0..requests / 320 {
        for socket in &mut sockets {
            socket
                .write_all("*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n".repeat(16).as_bytes())
                .unwrap();
        }
        for socket in &mut sockets {
            expect(socket, "$2\r\nhi\r\n".repeat(16).as_bytes());
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn resp_server_gathers_few_replies_for_a_client_that_reads_none() {
    const TIMES: usize = 100;
    let server = Server::start("resp_server");
    let mut socket = connect(&server);
    let reply = set(&mut socket, 4 << 20);
    socket.write_all("GET word\r\n".repeat(TIMES).as_bytes()).unwrap();
    for _ in 0..TIMES {
        expect(&mut socket, &reply);
    }
    let peak = server.memory("VmHWM");
    assert!(peak < 96 << 20, "{peak} bytes");
}

#[test]
#[cfg(target_os = "linux")]
fn resp_server_gives_back_what_a_large_value_took() {
    let server = Server::start("resp_server");
    let mut sockets: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    for socket in &mut sockets {
        let reply = set(socket, 48 << 20);
        socket.write_all(b"GET word\r\n").unwrap();
        expect(socket, &reply);
        // Who answers this has done with the one before.
        socket.write_all(b"PING\r\n").unwrap();
        expect(socket, b"+PONG\r\n");
    }
    let memory = server.memory("VmRSS");
    assert!(memory < 96 << 20, "{memory} bytes");
}

/// What is answered to a client that has sent this, and nothing more.
fn answered(server: &Server, requests: &[u8]) -> String {
    let mut socket = connect(server);
    socket.write_all(requests).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn resp_server_refuses_what_is_no_request() {
    let server = Server::start("resp_server");
    let digits = "1".repeat(64 << 10);
    for (request, error) in [
        ("*1\r\n:4\r\nPING\r\n", "expected '$'"),
        ("*+1\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        ("*01\r\n$4\r\nPING\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1025\r\n", "invalid multibulk length"),
        ("*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$99999999\r\n", "invalid bulk length"),
        (&digits, "too big inline request"),
        (&format!("*{digits}"), "too big inline request"),
        (&format!("*1\r\n${digits}"), "too big inline request"),
    ] {
        let answer = answered(&server, format!("PING\r\n{request}").as_bytes());
        let beginning = &request[..request.len().min(40)];
        assert_eq!(answer, format!("+PONG\r\n-ERR {error}\r\n"), "{beginning:?}");
    }
}

#[test]
fn resp_server_passes_over_requests_without_words() {
    let server = Server::start("resp_server");
    assert_eq!(answered(&server, b"*-1\r\n*0\r\n\r\nPING\r\n"), "+PONG\r\n");
}

#[test]
fn resp_server_takes_one_large_value_in_a_request_but_not_two() {
    let server = Server::start("resp_server");
    let value = set(&mut connect(&server), 64 << 20);
    let requests = [b"*3\r\n$3\r\nSET\r\n", value.as_slice(), b"$67108864\r\n"].concat();
    assert_eq!(answered(&server, &requests), "-ERR invalid bulk length\r\n");
}

#[test]
fn resp_server_tells_who_goes_on_to_send_why_it_hangs_up() {
    const REPLIES: &str = "+PONG\r\n-ERR expected '$'\r\n";
    let server = Server::start("resp_server");
    let mut socket = connect(&server);
    // The socket takes it all, so that only the server has to be in time.
    let requests = [b"PING\r\n*1\r\n:\r\n".as_slice(), &[0; 64 << 10]].concat();
    socket.write_all(&requests).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, REPLIES);
    // But it doesn't listen for ever.
    let is_over = (0..1024).any(|_| socket.write_all(&requests).is_err());
    assert!(is_over, "64 MiB are read behind the end");
}

#[test]
fn resp_server_does_not_wait_for_who_has_been_refused_and_stays() {
    const DESCRIPTORS: usize = 64;
    let (server, _errors) = Server::start_limited("resp_server", DESCRIPTORS);
    let mut crowd: Vec<_> = (0..DESCRIPTORS).map(|_| connect(&server)).collect();
    for socket in &mut crowd {
        socket.write_all(b"*1\r\n:\r\n").unwrap();
    }
    // It gets a descriptor of theirs.
    let mut next = connect(&server);
    next.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    next.write_all(b"PING\r\n").unwrap();
    expect(&mut next, b"+PONG\r\n");
}
