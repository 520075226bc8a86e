//! The examples that are servers, asked by curl; where there is none, by a socket of std, or by their own client over TLS.
//!
//! `cargo test` builds the examples before it runs this.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where cargo puts the program of an example.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let build = test.ancestors().nth(2).expect("a test is in a folder of the build's");
    build.join("examples").join(name)
}

/// A running example; it is ended when this is dropped.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    /// Starts the example on a port of its own, with these arguments behind the address, and waits until it listens.
    fn start(name: &str, arguments: &[&Path]) -> Self {
        let mut child = Command::new(program(name))
            .arg("127.0.0.1:0")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("example {name}: {error}"));
        let mut output = BufReader::new(child.stdout.take().expect("piped above"));
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .expect("it says where")
            .to_owned();
        Server { child, output, address }
    }

    /// Interrupts it, and lets it end by itself; what it says last.
    fn interrupt(mut self) -> String {
        let process = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &process])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What curl says with these arguments, or nothing where it isn't installed.
fn curl(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(arguments);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("curl: {error}"),
    };
    assert!(
        output.status.success(),
        "curl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

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
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    format!("{body}\n{status}")
}

#[test]
fn http_hello_says_hello() {
    let server = Server::start("http_hello", &[]);
    assert_eq!(ask(&server.address, "GET", "/", ""), "Hello, world!\n\n200");
    assert_eq!(ask_plainly(&server.address, "GET", "/", ""), "Hello, world!\n\n200");
}

#[test]
fn json_service_keeps_notes_and_ends_gently() {
    let server = Server::start("json_service", &[]);
    let address = server.address.as_str();
    let written = ask(address, "POST", "/notes", r#"{"text":"one"}"#);
    assert_eq!(written, "{\"number\":0,\"text\":\"one\"}\n201");
    assert_eq!(
        ask(address, "GET", "/notes/0", ""),
        "{\"number\":0,\"text\":\"one\"}\n200"
    );
    assert!(ask(address, "GET", "/notes/1", "").ends_with("\n404"));
    assert!(ask(address, "POST", "/notes", "nonsense").ends_with("\n400"));
    let page = ask(address, "GET", "/metrics", "");
    assert!(
        page.contains("# TYPE quadrille_polls_total counter\nquadrille_polls_total "),
        "{page}"
    );
    assert!(page.contains("\nnotes 1\n"), "{page}");

    // A connection that is kept and idle, which the server closes when it ends.
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"GET /notes/0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    idle.read_exact(&mut [0; 15]).unwrap();
    assert!(
        server
            .interrupt()
            .ends_with("\nserved 6 connections, 0 of them cut off\n")
    );
    idle.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn https_hello_says_hello_over_tls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("https-hello-{}.pem", std::process::id()));
    let server = Server::start("https_hello", &[&file]);
    let url = format!("https://{}/", server.address);
    let certificate = file.to_str().unwrap();
    let answer = curl(&["--cacert", certificate, &url]).unwrap_or_else(|| {
        let own = Command::new(program("https_hello")).output().unwrap();
        assert!(own.status.success() && String::from_utf8(own.stdout).unwrap().ends_with("bytes over TLS\n"));
        "Hello, whoever listens!\n".to_owned()
    });
    assert_eq!(answer, "Hello, whoever listens!\n");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn there_is_no_runtime_of_tokio_below_them() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", env!("CARGO_PKG_NAME")])
        .args(["--edges", "normal,dev,features", "--invert", "tokio", "--depth", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    // Each line that names one says which package asks for it.
    let features: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_once("tokio feature "))
        .map(|(_, name)| name.trim())
        .collect();
    assert_eq!(features, ["\"default\"", "\"sync\""], "{tree}");
}
