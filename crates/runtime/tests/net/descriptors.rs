//! A process that has no descriptor left. The limit holds for all of a process, so each test here runs in one of its
//! own.

use std::fs::File;
use std::net;
use std::process::{Command, Stdio};

use quadrille::Runtime;
use quadrille::net::{TcpListener, TcpStream, UdpSocket, pipe};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::watched::{forking, watched};

/// Set in the process that a test starts.
const CHILD: &str = "QUADRILLE_NET_TEST_CHILD";

/// Runs `body` in a process of its own, which runs the test `name` alone.
pub(crate) fn in_a_process(name: &str, body: impl FnOnce() + Send + 'static) {
    if std::env::var_os(CHILD).is_some() {
        watched(body);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = forking(|| child.spawn()).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Waits until every worker has begun: from then on it keeps a descriptor.
pub(crate) fn wait_for_workers(runtime: &Runtime) {
    // Counted before its first sleep, from which it need never get up.
    while runtime.metrics().workers.iter().any(|worker| worker.searches == 0) {
        std::thread::yield_now();
    }
}

/// Opens files until that fails.
fn use_all_descriptors() -> Vec<File> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(128);
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    files
}

fn is_emfile(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

#[test]
fn more_listeners_than_descriptors_are_an_error() {
    in_a_process("descriptors::more_listeners_than_descriptors_are_an_error", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        wait_for_workers(&runtime);
        drop(use_all_descriptors());
        let several = runtime.block_on(TcpListener::bind_several("127.0.0.1:0", usize::MAX));
        assert!(is_emfile(&several.unwrap_err()));
    });
}

#[test]
fn a_listener_goes_on_when_there_are_descriptors_again() {
    in_a_process(
        "descriptors::a_listener_goes_on_when_there_are_descriptors_again",
        || {
            let runtime = Runtime::builder().worker_threads(2).build().unwrap();
            wait_for_workers(&runtime);
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let clients: Vec<_> = (0..3).map(|_| net::TcpStream::connect(address).unwrap()).collect();
                let mut files = use_all_descriptors();
                for client in &clients {
                    for _ in 0..3 {
                        // At once each time, and none of those who wait is lost.
                        assert!(is_emfile(&listener.accept().await.unwrap_err()));
                    }
                    files.pop();
                    let (stream, from) = listener.accept().await.unwrap();
                    assert_eq!(from, client.local_addr().unwrap());
                    // It keeps its descriptor.
                    std::mem::forget(stream);
                }
            });
        },
    );
}

#[test]
fn everything_else_says_so() {
    in_a_process("descriptors::everything_else_says_so", || {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        wait_for_workers(&runtime);
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let files = use_all_descriptors();
            assert!(is_emfile(&TcpStream::connect(address).await.unwrap_err()));
            assert!(is_emfile(&TcpListener::bind("127.0.0.1:0").await.unwrap_err()));
            assert!(is_emfile(&UdpSocket::bind("127.0.0.1:0").await.unwrap_err()));
            assert!(is_emfile(&pipe().unwrap_err()));
            drop(files);
            let client = TcpStream::connect(address).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            server.write_all(b"as before").await.unwrap();
            client.read_exact(&mut [0; 9]).await.unwrap();
        });
    });
}
