//! Pipes with a name, and pipes that come from std.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::Runtime;
use quadrille::io::Interest;
use quadrille::net::{PipeReader, PipeWriter, pipe};
#[cfg(target_os = "linux")]
use quadrille::{sync::mpmc, time::timeout};

use crate::temporary::Folder;
use crate::watched::{on_runtimes, watched};

#[test]
fn a_named_pipe_connects_with_anybody() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.fifo();
        assert!(PipeWriter::open(&path).is_err(), "nobody reads");
        let reader = PipeReader::open(&path).unwrap();
        let child = thread::spawn(move || {
            let mut writer = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            writer.write_all(b"from outside").unwrap();
        });
        reader.readable().await.unwrap();
        let mut buffer = [0; 12];
        reader.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"from outside");
        child.join().unwrap();
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn both_ends_of_a_named_pipe() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.fifo();
        let reader = PipeReader::open(&path).unwrap();
        let writer = PipeWriter::open(&path).unwrap();
        let sent = vec![5; 300_000];
        let task = quadrille::spawn({
            let sent = sent.clone();
            async move { writer.write_all(&sent).await }
        });
        let mut received = vec![0; sent.len()];
        reader.read_exact(&mut received).await.unwrap();
        assert!(sent == received);
        task.await.unwrap().unwrap();
    });
}

#[test]
fn other_files_are_refused_by_name() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("file");
        std::fs::write(&path, "").unwrap();
        let error = PipeReader::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("file is no named pipe"), "{error}");
        assert_eq!(
            PipeWriter::open(folder.join("nothing")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn pipes_of_std_and_back() {
    on_runtimes(|| async {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = PipeReader::from_std(reader).unwrap();
        writer.write_all(b"ab").unwrap();
        assert_eq!(reader.try_read(&mut [0]).unwrap(), 1);
        let writer = PipeWriter::from_std(writer).unwrap();
        writer.write_all(b"c").await.unwrap();
        let mut reader = reader.into_std();
        let mut buffer = [0; 2];
        reader.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"bc");
        drop(reader);
        assert_eq!(writer.write(b"d").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(writer.into_std());
    });
}

#[test]
fn a_reader_that_goes_ends_writes_that_wait() {
    on_runtimes(|| async {
        let (reader, writer) = pipe().unwrap();
        while writer.try_write(&[1; 4096]).is_ok() {}
        let mut first = Box::pin(writer.write_all(b"no room"));
        let mut second = Box::pin(writer.write_all(b"none either"));
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        drop(reader);
        for write in [first, second] {
            assert_eq!(write.await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
        // It was told for good, not once.
        for _ in 0..20 {
            assert_eq!(writer.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
        writer.writable().await.unwrap();
    });
}

/// What has no method here is done by the descriptor: each end waits for its side, and forgets it when there was
/// nothing.
#[test]
fn operations_by_the_descriptor_of_a_pipe() {
    on_runtimes(|| async {
        let (reader, writer) = pipe().unwrap();
        assert!(writer.ready(Interest::WRITABLE).await.unwrap().is_writable());
        let read = || {
            let mut byte = [0];
            let mut file = std::fs::File::from(reader.as_fd().try_clone_to_owned()?);
            file.read_exact(&mut byte)?;
            io::Result::Ok(byte[0])
        };
        let nothing = reader.try_io(Interest::READABLE, read).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        let reads = reader.async_io(Interest::READABLE, read);
        let writes = async {
            let write = || std::fs::File::from(writer.as_fd().try_clone_to_owned()?).write_all(b"xy");
            writer.async_io(Interest::WRITABLE, write).await
        };
        let (read_first, written) = quadrille::join!(reads, writes);
        written.unwrap();
        assert_eq!(read_first.unwrap(), b'x');
        assert!(reader.ready(Interest::READABLE).await.unwrap().is_readable());
        assert_eq!(reader.try_io(Interest::READABLE, read).unwrap(), b'y');
    });
}

/// A pipe in packet mode.
#[cfg(target_os = "linux")]
fn packets() -> (OwnedFd, std::fs::File) {
    let (reader, writer) = io::pipe().unwrap();
    // SAFETY: no pointers; the descriptor is open, as `writer` owns it.
    let outcome = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_DIRECT) };
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
    (reader.into(), OwnedFd::from(writer).into())
}

/// A terminal, and who types there. `None`: there are none here.
#[cfg(target_os = "linux")]
fn terminal() -> Option<(OwnedFd, std::fs::File)> {
    let (mut types, mut terminal) = (-1, -1);
    let (name, modes, size) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: writes two numbers to variables that outlive the call; a null pointer asks for nothing.
    if unsafe { libc::openpty(&raw mut types, &raw mut terminal, name, modes, size) } != 0 {
        return None;
    }
    // SAFETY: the call has made both for nobody else.
    let [types, terminal] = [types, terminal].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Some((terminal, types.into()))
}

/// Each read gives one packet, or one line, however much there is: libuv's tests of terminals have found out what comes
/// of the belief that it was all. The second has no event of its own.
#[cfg(target_os = "linux")]
#[test]
fn what_ends_a_read_early_leaves_the_rest_to_be_read() {
    on_runtimes(|| async {
        for (reader, mut writer) in [Some(packets()), terminal()].into_iter().flatten() {
            writer.write_all(b"one\n").unwrap();
            writer.write_all(b"two\n").unwrap();
            // Of a terminal both come after a while.
            while rustix::io::ioctl_fionread(&reader).unwrap() < 8 {
                thread::yield_now();
            }
            let reader = PipeReader::from_std(reader.into()).unwrap();
            reader.readable().await.unwrap();
            let mut buffer = [0; 64];
            for expected in [b"one\n", b"two\n"] {
                let count = reader.read(&mut buffer).await.unwrap();
                assert_eq!(&buffer[..count], expected);
            }
            assert!(poll_once(reader.read(&mut buffer)).await.is_none());
        }
    });
}

/// A terminal answers the second of two who read at a time that there is nothing, whatever there is, and has no event
/// for it when the first has done (`n_tty_read`).
#[cfg(target_os = "linux")]
#[test]
fn who_is_in_another_readers_way_reads_the_rest_of_a_terminal() {
    const LIMIT: Duration = Duration::from_secs(10);
    const LINE: &[u8] = b"and a byte of it at a time is more than they can read without a meeting\n";
    let Some((terminal, mut types)) = terminal() else {
        return;
    };
    watched(move || {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        runtime.block_on(async move {
            let reader = Arc::new(PipeReader::from_std(terminal.into()).unwrap());
            let (told, has_read) = mpmc::unbounded();
            for _ in 0..2 {
                let (reader, told) = (Arc::clone(&reader), told.clone());
                quadrille::spawn(async move {
                    while reader.read(&mut [0]).await.is_ok_and(|count| count > 0) {
                        told.try_send(()).unwrap();
                    }
                });
            }
            for round in 0..200 {
                types.write_all(LINE).unwrap();
                for byte in 0..LINE.len() {
                    let outcome = timeout(LIMIT, has_read.recv()).await;
                    outcome
                        .unwrap_or_else(|_| panic!("round {round}: {byte} of {}", LINE.len()))
                        .unwrap();
                }
            }
        });
    });
}

/// The event is there whenever the one worker has run dry. Yet it is to look at timers, at what comes from outside, and
/// whether it shall end.
#[test]
fn who_never_waits_for_its_pipes_neglects_nothing() {
    watched(|| {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let turns = Arc::new(AtomicUsize::new(0));
        let (there, back) = runtime.block_on(async { (pipe().unwrap(), pipe().unwrap()) });
        runtime.block_on(there.1.write_all(b"!")).unwrap();
        for (reader, writer) in [(there.0, back.1), (back.0, there.1)] {
            let turns = turns.clone();
            drop(runtime.spawn(async move {
                let mut byte = [0];
                loop {
                    reader.read_exact(&mut byte).await.unwrap();
                    turns.fetch_add(1, Ordering::Relaxed);
                    writer.write_all(&byte).await.unwrap();
                }
            }));
        }
        let thread = runtime.handle().spawn_thread(quadrille::thread::park);
        while turns.load(Ordering::Relaxed) < 10_000 {
            let sleep = async { quadrille::time::sleep(Duration::from_millis(1)).await };
            runtime.block_on(runtime.spawn(sleep)).unwrap();
        }
        thread.thread().unpark();
        runtime.block_on(thread).unwrap();
    });
}
