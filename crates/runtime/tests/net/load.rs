//! Clients of every bad habit at once: no task is lost, and no descriptor.

use std::io::{Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use quadrille::net::{TcpListener, TcpStream};
use quadrille::{JoinSet, Runtime};

use crate::descriptors::{in_a_process, wait_for_workers};

const THREADS: u64 = 8;

/// Connections of each thread; more by `QUADRILLE_NET_LOAD=100000 cargo test -p quadrille --test net load`.
fn connections() -> usize {
    let number = std::env::var("QUADRILLE_NET_LOAD");
    number.map_or(60, |number| number.parse().expect("QUADRILLE_NET_LOAD is a number"))
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Sends back what comes, as far as the client lets it.
async fn echo(stream: TcpStream) {
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
}

fn client(address: SocketAddr, random: &mut Random) -> std::io::Result<()> {
    let mut stream = net::TcpStream::connect(address)?;
    let length = usize::try_from(random.below(20_000)).expect("it is small");
    let sent = vec![7; length];
    let habit = random.below(6);
    match habit {
        // Leaves at once, or with a reset.
        0 => {}
        1 => socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?,
        // Sends, and doesn't listen; or leaves in the middle.
        2 => stream.write_all(&sent)?,
        3 => {
            stream.write_all(&sent)?;
            let mut buffer = vec![0; length / 2];
            stream.read_exact(&mut buffer)?;
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        // Says when it has sent everything, and reads to the end: fast, or bit by bit.
        _ => {
            let mut writer = stream.try_clone()?;
            let write = thread::spawn(move || {
                writer.write_all(&sent)?;
                writer.shutdown(Shutdown::Write)
            });
            let mut buffer = vec![0; if habit == 4 { 4096 } else { 7 }];
            let mut received = 0;
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    count => received += count,
                }
            }
            write.join().expect("the writer doesn't panic")?;
            assert_eq!(received, length, "everything comes back");
        }
    }
    Ok(())
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_is_lost() {
    in_a_process("load::nothing_is_lost", || {
        let config = "lazy=on".parse().unwrap();
        let runtime = Runtime::builder().worker_threads(2).config(config).build().unwrap();
        // The first connection makes what a runtime keeps, and each worker keeps a descriptor.
        serve(&runtime, 1, 1);
        wait_for_workers(&runtime);
        let before = descriptors();
        serve(&runtime, THREADS, connections());
        assert_eq!(descriptors(), before, "descriptors that are open");
        // Workers tell it before they park, which they do.
        let told = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            runtime.metrics().live_tasks == Some(0)
        });
        assert!(told, "{:?} tasks are left", runtime.metrics().live_tasks);
        assert!(runtime.metrics().total().spawned > 0);
    });
}

/// Serves so many connections, to their ends.
fn serve(runtime: &Runtime, threads: u64, connections: usize) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let clients: Vec<_> = (1..=threads)
        .map(|seed| {
            thread::spawn(move || {
                let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                for number in 0..connections {
                    if let Err(error) = client(address, &mut random) {
                        panic!("seed {seed}, connection {number}: {error}");
                    }
                }
            })
        })
        .collect();
    runtime.block_on(async {
        let acceptor = quadrille::spawn(async move {
            let mut served = JoinSet::new();
            for _ in 0..usize::try_from(threads).expect("it is small") * connections {
                let (stream, _) = listener.accept().await.unwrap();
                served.spawn(echo(stream));
            }
            served.join_all().await.len()
        });
        let served = acceptor.await.unwrap();
        assert_eq!(served, usize::try_from(threads).expect("it is small") * connections);
    });
    for client in clients {
        client.join().unwrap();
    }
}
