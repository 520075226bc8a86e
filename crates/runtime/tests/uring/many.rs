//! More operations at a time than a ring takes at once.

use std::io::{Read, Write};
use std::net;
use std::sync::Arc;
use std::thread;

use quadrille::JoinSet;
use quadrille::uring::File;

use crate::{listen, on_backends};

#[test]
fn thousands_of_reads_each_get_their_own() {
    on_backends(|| async {
        const READS: u32 = 5000;
        let mut file = tempfile();
        for number in 0..READS {
            file.write_all(&number.to_le_bytes()).unwrap();
        }
        let file = Arc::new(File::from_std(file));
        let mut reads = JoinSet::new();
        for number in 0..READS {
            let file = Arc::clone(&file);
            reads.spawn(async move {
                let (count, buffer) = file.read_at(Vec::with_capacity(4), u64::from(number) * 4).await;
                assert!(count.unwrap() >= 4);
                assert_eq!(buffer[..4], number.to_le_bytes());
            });
        }
        let mut done = 0;
        while let Some(read) = reads.join_next().await {
            read.unwrap();
            done += 1;
        }
        assert_eq!(done, READS);
    });
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("quadrille-uring-many-{}", std::process::id()));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Hundreds of connections that all wait, and all have something to say, again and again.
#[test]
fn hundreds_of_connections_are_served() {
    const CONNECTIONS: usize = 300;
    on_backends(|| async {
        let (listener, address) = listen().await;
        let clients = thread::spawn(move || {
            let mut streams: Vec<_> = (0..CONNECTIONS)
                .map(|_| net::TcpStream::connect(address).unwrap())
                .collect();
            for round in 0..10_u8 {
                for stream in &mut streams {
                    stream.write_all(&[round; 100]).unwrap();
                }
                for stream in &mut streams {
                    let mut heard = [0; 100];
                    stream.read_exact(&mut heard).unwrap();
                    assert_eq!(heard, [round; 100]);
                }
            }
        });
        let mut serving = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await.unwrap();
            serving.spawn(async move {
                let mut buffer = Vec::with_capacity(256);
                loop {
                    let (count, heard) = stream.read(buffer).await;
                    if count.unwrap() == 0 {
                        return;
                    }
                    let (sent, again) = stream.write_all(heard).await;
                    sent.unwrap();
                    buffer = again;
                }
            });
        }
        while let Some(served) = serving.join_next().await {
            served.unwrap();
        }
        quadrille::spawn_blocking(move || clients.join().unwrap())
            .await
            .unwrap();
    });
}
