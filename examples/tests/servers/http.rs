//! Those over HTTP, asked by curl and loaded by wrk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::server::{Server, program};
use crate::tool::{curl, run};

/// The body and, on a last line, the status.
fn ask(address: &str, method: &str, path: &str, body: &str) -> String {
    let url = format!("http://{address}{path}");
    let json = "content-type: application/json";
    curl(&["-X", method, "-H", json, "-d", body, "-w", "\n%{http_code}", &url])
        .unwrap_or_else(|| ask_plainly(address, method, path, body))
}

/// The same without curl.
fn ask_plainly(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).unwrap();
    status_and_body(socket)
}

/// Reads an answer to the end of the connection: the body and, on a last line, the status.
fn status_and_body(mut socket: TcpStream) -> String {
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    format!("{body}\n{status}")
}

#[test]
fn http_hello_says_hello() {
    let server = Server::start("http_hello");
    assert_eq!(ask(&server.address, "GET", "/", ""), "Hello, world!\n\n200");
    assert_eq!(ask_plainly(&server.address, "GET", "/", ""), "Hello, world!\n\n200");
}

#[test]
fn http_hello_says_hello_through_the_proxy() {
    let server = Server::start("http_hello");
    let proxy = Server::start_with("proxy", &[&server.address]);
    assert_eq!(ask(&proxy.address, "GET", "/", ""), "Hello, world!\n\n200");
}

/// How many requests wrk has had answered over 16 connections in so many seconds, all of them well.
fn load(address: &str, seconds: u32) -> Option<u64> {
    let (duration, url) = (format!("{seconds}s"), format!("http://{address}/"));
    let report = run(
        "wrk",
        &["-t", "1", "-c", "16", "-d", &duration, "--timeout", "300s", &url],
    )?;
    assert!(
        !report.contains("Socket errors") && !report.contains("Non-2xx"),
        "{report}"
    );
    let (before, _) = report
        .split_once(" requests in ")
        .unwrap_or_else(|| panic!("no number of requests: {report}"));
    let count = before.rsplit(char::is_whitespace).next().expect("a last word");
    Some(count.parse().unwrap_or_else(|_| panic!("{count:?} requests: {report}")))
}

/// wrk's part where there is none: so many requests over one connection, in pieces of two at a time.
fn load_plainly(address: &str, pairs: usize) {
    let mut socket = TcpStream::connect(address).unwrap();
    for _ in 0..pairs {
        let request = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        socket.write_all(request.repeat(2).as_bytes()).unwrap();
        let mut answers = Vec::new();
        while answers.windows(13).filter(|window| window == b"Hello, world!").count() < 2 {
            let mut buffer = [0; 1024];
            let count = socket.read(&mut buffer).unwrap();
            assert!(count > 0, "it hangs up after {:?}", String::from_utf8_lossy(&answers));
            answers.extend_from_slice(&buffer[..count]);
        }
    }
}

#[test]
fn http_hello_answers_many_at_a_time() {
    let server = Server::start("http_hello");
    // On a machine that is busy with other things a second may be too short for a single answer.
    for seconds in [1, 10, 100] {
        match load(&server.address, seconds) {
            None => return load_plainly(&server.address, 100),
            Some(0) => {}
            Some(_) => return,
        }
    }
    panic!("no answer in 111 seconds");
}

#[test]
fn json_service_keeps_notes_and_ends_gently() {
    let mut server = Server::start_with("json_service", &["3600"]);
    let address = server.address.clone();
    let written = ask(&address, "POST", "/notes", r#"{"text":"one"}"#);
    assert_eq!(written, "{\"number\":0,\"text\":\"one\"}\n201");
    assert_eq!(
        ask(&address, "GET", "/notes/0", ""),
        "{\"number\":0,\"text\":\"one\"}\n200"
    );
    assert!(ask(&address, "GET", "/notes/1", "").ends_with("\n404"));
    assert!(ask(&address, "POST", "/notes", "nonsense").ends_with("\n400"));
    let page = ask(&address, "GET", "/metrics", "");
    assert!(
        page.contains("# TYPE quadrille_polls_total counter\nquadrille_polls_total "),
        "{page}"
    );
    assert!(page.contains("\nnotes 1\n"), "{page}");

    // A connection that is kept and idle, which the server closes when it ends.
    let mut idle = TcpStream::connect(&address).unwrap();
    idle.write_all(b"GET /notes/0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    idle.read_exact(&mut [0; 15]).unwrap();
    server.signal("-INT");
    assert!(server.line().starts_with("stopping, connections left: "));
    assert_eq!(server.end(), "served 6 connections, 0 of them cut off\n");
    idle.read_to_end(&mut Vec::new()).unwrap();
}

const SLOW_BODY: &str = r#"{"text":"slow"}"#;

/// A request to the service of notes that has begun: the service has said that it waits for the body.
fn begin(address: &str) -> TcpStream {
    let mut slow = TcpStream::connect(address).unwrap();
    let length = SLOW_BODY.len();
    let head = format!(
        "POST /notes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).unwrap();
    let mut told = [0; 25];
    slow.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    slow
}

#[test]
fn json_service_finishes_what_has_begun_when_it_is_terminated() {
    let mut server = Server::start_with("json_service", &["3600"]);
    let mut slow = begin(&server.address);
    server.signal("-TERM");
    assert_eq!(server.line(), "stopping, connections left: 1");
    TcpStream::connect(&server.address).unwrap_err();
    slow.write_all(SLOW_BODY.as_bytes()).unwrap();
    assert_eq!(status_and_body(slow), "{\"number\":0,\"text\":\"slow\"}\n201");
    assert_eq!(server.end(), "served 1 connections, 0 of them cut off\n");
}

#[test]
fn json_service_is_not_held_by_a_client_who_never_goes_on() {
    let mut server = Server::start_with("json_service", &["0.2"]);
    let mut slow = begin(&server.address);
    server.signal("-TERM");
    assert_eq!(server.line(), "stopping, connections left: 1");
    assert_eq!(server.end(), "served 1 connections, 1 of them cut off\n");
    // The end, and no answer.
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn json_service_says_what_patience_is() {
    let output = Command::new(program("json_service"))
        .args(["127.0.0.1:0", "-1"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("as patience: expected seconds, such as 10 or 0.5"),
        "{errors}"
    );
    assert!(errors.contains("-1"), "{errors}");
}

#[test]
fn https_hello_says_hello_over_tls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("https-hello-{}.pem", std::process::id()));
    let certificate = file.to_str().unwrap();
    let server = Server::start_with("https_hello", &[certificate]);
    let url = format!("https://{}/", server.address);
    let answer = curl(&["--cacert", certificate, &url]).unwrap_or_else(|| {
        let own = Command::new(program("https_hello")).output().unwrap();
        assert!(own.status.success() && String::from_utf8(own.stdout).unwrap().ends_with("bytes over TLS\n"));
        "Hello, whoever listens!\n".to_owned()
    });
    assert_eq!(answer, "Hello, whoever listens!\n");
    std::fs::remove_file(file).unwrap();
}
