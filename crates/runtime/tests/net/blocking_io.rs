//! std's `Read` and `Write` on user-level threads.

use std::future::poll_fn;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, IoSlice, IoSliceMut, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::net::{Shutdown, TcpStream as StdStream};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::AsyncRead;
use quadrille::fs::File;
use quadrille::net::{TcpListener, UnixStream};
use quadrille::thread::{self, BlockingIo};
use quadrille::time::{Elapsed, Instant};
use quadrille::{Runtime, Wait as _};

use crate::temporary::Folder;
use crate::watched::watched;

/// One worker: a call that blocked it would keep its partner from running.
fn runtime() -> Runtime {
    Runtime::builder().worker_threads(1).build().unwrap()
}

/// Runs `test` on a user-level thread.
fn on_thread(test: impl FnOnce() + Send + 'static) {
    watched(|| {
        let runtime = runtime();
        runtime.spawn_thread(test).join().unwrap();
    });
}

/// A server in blocking style: each line back, in capitals, until the client has ended its side.
fn answer_lines(listener: &TcpListener, clients: usize) {
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (stream, _) = listener.accept().wait().unwrap();
            thread::spawn(move || {
                for line in BufReader::new(BlockingIo::new(&stream)).lines() {
                    writeln!(BlockingIo::new(&stream), "{}", line?.to_uppercase())?;
                }
                io::Result::Ok(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}

#[test]
fn threads_serve_lines_to_clients_that_wait_for_one_another() {
    watched(|| {
        const CLIENTS: usize = 8;
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = runtime.spawn_thread(move || answer_lines(&listener, CLIENTS));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| StdStream::connect(address).unwrap()).collect();
        // All have asked before any has its answer.
        for (number, client) in clients.iter_mut().enumerate() {
            write!(client, "first of {number}\nand sec").unwrap();
        }
        for (number, mut client) in clients.into_iter().enumerate().rev() {
            client.write_all(b"ond\n").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, format!("FIRST OF {number}\nAND SECOND\n"));
        }
        server.join().unwrap();
    });
}

#[test]
fn several_buffers_move_by_one_call() {
    on_thread(|| {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut far) = (BlockingIo::new(near), BlockingIo::new(far));
        let written = near
            .write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cde")])
            .unwrap();
        near.flush().unwrap();
        assert_eq!(written, 5);
        let (mut first, mut second) = ([0; 1], [0; 8]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(far.read_vectored(&mut buffers).unwrap(), 5);
        assert_eq!((&first[..], &second[..4]), (&b"a"[..], &b"bcde"[..]));
        drop(near.into_inner());
        assert_eq!(
            far.get_mut().read(&mut first).wait().unwrap(),
            0,
            "the other end is gone"
        );
        assert_eq!(io::copy(&mut far, &mut io::sink()).unwrap(), 0);
    });
}

#[test]
fn a_file_is_read_again_from_its_middle() {
    let folder = Folder::new();
    let path = folder.join("hello");
    std::fs::write(&path, b"hello, world").unwrap();
    on_thread(move || {
        let mut file = BlockingIo::new(File::open(path).wait().unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(file.seek(SeekFrom::Start(7)).unwrap(), 7);
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello, worldworld");
    });
}

#[test]
fn an_ordinary_thread_blocks_and_a_task_must_not() {
    watched(|| {
        let runtime = runtime();
        let (near, far) = runtime.block_on(async { UnixStream::pair() }).unwrap();
        let reader = std::thread::spawn(move || {
            let mut answer = String::new();
            BlockingIo::new(near).read_to_string(&mut answer).map(|_| answer)
        });
        let mut far = BlockingIo::new(far);
        far.write_all(b"hello").unwrap();
        let task = runtime.spawn(async move { far.write(b"again") });
        let error = runtime.block_on(task).unwrap_err();
        assert!(error.is_panic(), "a task has no stack to be suspended");
        assert_eq!(
            reader.join().unwrap().unwrap(),
            "hello",
            "the task's panic has dropped the other end"
        );
    });
}

/// Runs `operation` on four threads, and `event` when all of them wait; what they come back with.
fn at_once<T: Send>(operation: impl Fn() -> T + Sync, event: impl FnOnce()) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(&operation)).collect();
        // They have begun before, and wait.
        thread::yield_now();
        event();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn all_threads_that_read_one_stream_are_told_of_bytes_and_of_the_end() {
    on_thread(|| {
        let (near, far) = UnixStream::pair().unwrap();
        let mut writer = BlockingIo::new(&far);
        let read = || BlockingIo::new(&near).read(&mut [0]).unwrap();
        let counts = at_once(read, || {
            for _ in 0..4 {
                writer.write_all(b"x").unwrap();
                thread::yield_now();
            }
        });
        assert_eq!(counts, [1; 4], "a byte for each");
        assert_eq!(at_once(read, || far.shutdown(Shutdown::Write).unwrap()), [0; 4]);
    });
}

/// By the traits of futures-io, without a future of the stream's.
#[test]
fn all_threads_that_poll_one_stream_are_told() {
    on_thread(|| {
        let (near, far) = UnixStream::pair().unwrap();
        let read = || poll_fn(|cx| near.poll_read(cx, &mut [0])).wait().unwrap();
        assert_eq!(at_once(read, || far.shutdown(Shutdown::Write).unwrap()), [0; 4]);
    });
}

#[test]
fn all_threads_that_write_to_one_full_stream_are_told_of_room() {
    on_thread(|| {
        let (near, far) = UnixStream::pair().unwrap();
        fill(&near);
        let write = || BlockingIo::new(&near).write(b"!").unwrap();
        let reader = thread::spawn(move || {
            thread::park();
            let mut received = String::new();
            BlockingIo::new(far).read_to_string(&mut received).map(|_| received)
        });
        assert_eq!(at_once(write, || reader.thread().unpark()), [1; 4]);
        drop(near);
        assert!(reader.join().unwrap().unwrap().ends_with(".!!!!"));
    });
}

/// A stream that does something when a read has to wait, before it says so.
struct Pending<'a, F> {
    stream: &'a UnixStream,
    then: F,
}

impl<F: FnMut() + Unpin> AsyncRead for Pending<'_, F> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let poll = self.stream.poll_read(cx, buffer);
        if poll.is_pending() {
            (self.then)();
        }
        poll
    }
}

#[test]
fn who_is_suspended_in_the_middle_of_a_poll_lends_its_turn_to_nobody() {
    on_thread(|| {
        let (near, far) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let stream = Pending {
                stream: &near,
                then: thread::yield_now,
            };
            let reader = scope.spawn(move || BlockingIo::new(stream).read(&mut [0]).unwrap());
            // It polls once, while the other is in its poll, and ends.
            let other = scope.spawn(|| poll_fn(|cx| Poll::Ready(near.poll_read(cx, &mut [0]).is_pending())).wait());
            assert!(other.join().unwrap());
            thread::yield_now();
            BlockingIo::new(&far).write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
        });
    });
}

#[test]
fn ordinary_threads_that_read_one_stream_are_all_told() {
    watched(|| {
        let runtime = runtime();
        let (near, far) = runtime.block_on(async { UnixStream::pair() }).unwrap();
        let (waits, waiting) = mpsc::channel();
        let then = || waits.send(()).unwrap();
        std::thread::scope(|scope| {
            let read = || BlockingIo::new(Pending { stream: &near, then }).read(&mut [0]).unwrap();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
            for () in waiting.iter().take(4) {}
            for _ in 0..4 {
                runtime.block_on(far.write_all(b"x")).unwrap();
            }
            threads
                .into_iter()
                .for_each(|thread| assert_eq!(thread.join().unwrap(), 1));
        });
    });
}

#[test]
fn who_has_waited_too_long_takes_no_turn_of_another_who_reads() {
    on_thread_with_paused_clock(|| {
        let (near, far) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let patient = scope.spawn(|| BlockingIo::new(&near).read(&mut [0]).unwrap());
            thread::yield_now();
            let mut impatient = BlockingIo::new(&near);
            impatient.set_read_timeout(Some(HOUR)).unwrap();
            check_elapses(HOUR, || impatient.read(&mut [0]));
            BlockingIo::new(&far).write_all(b"x").unwrap();
            assert_eq!(patient.join().unwrap(), 1);
        });
    });
}

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `test` on a user-level thread whose hours pass as soon as nobody has anything to do.
fn on_thread_with_paused_clock(test: impl FnOnce() + Send + 'static) {
    watched(|| {
        let runtime = Runtime::builder().start_paused(true).build().unwrap();
        runtime.spawn_thread(test).join().unwrap();
    });
}

/// `operation` fails as std's sockets do when the time for it has passed, after `limit`.
#[track_caller]
fn check_elapses<T: std::fmt::Debug>(limit: Duration, operation: impl FnOnce() -> io::Result<T>) {
    let start = Instant::now();
    let error = operation().unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::WouldBlock, limit));
    assert!(error.get_ref().is_some_and(|inner| inner.is::<Elapsed>()), "{error:?}");
}

#[test]
fn a_read_ends_after_its_time_and_the_next_one_gets_what_came_too_late() {
    on_thread_with_paused_clock(|| {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut far) = (BlockingIo::new(near), BlockingIo::new(far));
        near.set_read_timeout(Some(HOUR)).unwrap();
        assert_eq!((near.read_timeout(), near.write_timeout()), (Some(HOUR), None));
        let mut buffer = [0; 8];
        check_elapses(HOUR, || near.read(&mut buffer));
        check_elapses(HOUR, || near.read_vectored(&mut [IoSliceMut::new(&mut buffer)]));
        far.write_all(b"late").unwrap();
        assert_eq!(near.read(&mut buffer).unwrap(), 4);

        // Time enough: who reads is woken by what comes, and not by a timer.
        let start = Instant::now();
        let writer = thread::spawn(move || {
            thread::sleep(HOUR / 2);
            far.write_all(b"in time")?;
            thread::sleep(2 * HOUR);
            io::Result::Ok(())
        });
        assert_eq!(near.read(&mut buffer).unwrap(), 7);
        assert_eq!(start.elapsed(), HOUR / 2);
        near.set_read_timeout(None).unwrap();
        assert_eq!(
            near.read(&mut buffer).unwrap(),
            0,
            "it waits until the other end is gone"
        );
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn a_write_that_finds_no_room_ends_after_its_time() {
    on_thread_with_paused_clock(|| {
        let (near, mut far) = UnixStream::pair().unwrap();
        fill(&near);
        let mut near = BlockingIo::new(near);
        near.set_write_timeout(Some(HOUR)).unwrap();
        assert_eq!((near.read_timeout(), near.write_timeout()), (None, Some(HOUR)));
        check_elapses(HOUR, || near.write(b"!"));
        check_elapses(HOUR, || near.write_vectored(&[IoSlice::new(b"!")]));
        near.set_write_timeout(None).unwrap();
        let reader = thread::spawn(move || {
            thread::sleep(2 * HOUR);
            let mut received = String::new();
            BlockingIo::new(&mut far)
                .read_to_string(&mut received)
                .map(|_| received)
        });
        near.write_all(b"!").unwrap();
        drop(near);
        assert!(reader.join().unwrap().unwrap().ends_with(".!"));
    });
}

#[test]
fn no_time_at_all_is_refused_and_copies_have_the_same_limits() {
    let mut io = BlockingIo::new(());
    io.set_read_timeout(Some(HOUR)).unwrap();
    io.set_write_timeout(Some(2 * HOUR)).unwrap();
    for set in [BlockingIo::set_read_timeout, BlockingIo::set_write_timeout] {
        let error = set(&mut io, Some(Duration::ZERO)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    let copy = io;
    assert_eq!(
        (copy.read_timeout(), copy.write_timeout()),
        (Some(HOUR), Some(2 * HOUR))
    );
    assert_ne!(copy, BlockingIo::new(()), "one without limits is another one");
}

#[test]
fn an_ordinary_thread_waits_no_longer_either() {
    watched(|| {
        let runtime = runtime();
        let (near, far) = runtime.block_on(async { UnixStream::pair() }).unwrap();
        let mut near = BlockingIo::new(near);
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        runtime.block_on(far.write_all(b"!")).unwrap();
        near.set_read_timeout(Some(HOUR)).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 1);
    });
}

/// Leaves no room for a byte.
fn fill(stream: &UnixStream) {
    for length in [1 << 16, 1] {
        while stream.try_write(&vec![b'.'; length]).is_ok() {}
    }
}

/// Says, when it is dropped, what writing a byte comes to.
struct WritesAtTheEnd<'a>(&'a UnixStream, mpsc::Sender<io::Result<usize>>);

impl Drop for WritesAtTheEnd<'_> {
    fn drop(&mut self) {
        self.1.send(BlockingIo::new(self.0).write(b"!")).unwrap();
    }
}

/// std's `BufWriter` writes what it has when it is dropped, where a thread that is unwound can't wait.
#[test]
fn what_cannot_be_written_soon_is_given_up_where_a_thread_is_unwound() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum By {
        Panic,
        Abort,
        End,
    }
    fn check(by: By, has_room: bool) {
        let runtime = runtime();
        let (near, mut far) = runtime.block_on(async { UnixStream::pair() }).unwrap();
        let (says, said) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let thread = runtime.spawn_thread(move || {
            if !has_room {
                fill(&near);
            }
            let _writes = WritesAtTheEnd(&near, says);
            let mut buffered = BufWriter::new(BlockingIo::new(&near));
            buffered.write_all(b"hello").unwrap();
            begins.send(()).unwrap();
            if by == By::Panic {
                panic!("on purpose");
            }
            thread::park();
        });
        begun.recv().unwrap();
        if by == By::Abort {
            thread.abort();
        }
        if by == By::End {
            drop(runtime);
        }
        thread.join().unwrap_err();
        match said.recv().unwrap() {
            Ok(length) => assert!(has_room && length == 1),
            Err(_) if by == By::End => {}
            Err(error) => {
                let message = "a user-level thread can't wait for long while it is unwound";
                assert_eq!((has_room, error.to_string().as_str()), (false, message));
            }
        }
        if by != By::End {
            let mut received = String::new();
            BlockingIo::new(&mut far).read_to_string(&mut received).unwrap();
            let ending = if has_room { "hello!" } else { "" };
            assert_eq!(received.trim_start_matches('.'), ending, "{by:?}");
        }
    }
    // At the same time: who has no room waits for about a second.
    let checks = [By::Panic, By::Abort, By::End]
        .map(|by| [true, false].map(|has_room| std::thread::spawn(move || watched(move || check(by, has_room)))));
    for check in checks.into_iter().flatten() {
        check.join().unwrap();
    }
}

/// What writing a byte comes to where a thread is unwound, while somebody reads what has left no room, and what is read
/// after that.
fn write_where_there_is_room_soon() -> (io::Result<usize>, String) {
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let (near, far) = runtime.block_on(async { UnixStream::pair() }).unwrap();
    let (says, said) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let thread = runtime.spawn_thread(move || {
        fill(&near);
        let _writes = WritesAtTheEnd(&near, says);
        begins.send(()).unwrap();
        panic!("on purpose");
    });
    begun.recv().unwrap();
    let mut received = String::new();
    BlockingIo::new(far).read_to_string(&mut received).unwrap();
    thread.join().unwrap_err();
    (said.recv().unwrap(), received.trim_start_matches('.').to_owned())
}

/// Room that comes soon is waited for, as a lock is. It takes another worker, which hears of it, and which a machine
/// may keep from the CPU for the second after which that is given up: hence not once only.
#[test]
fn what_finds_room_soon_is_written_where_a_thread_is_unwound() {
    watched(|| {
        let mut attempts = std::iter::repeat_with(write_where_there_is_room_soon).take(3);
        let (written, received) = attempts.find(|(written, _)| written.is_ok()).expect("room is soon");
        assert_eq!((written.unwrap(), received.as_str()), (1, "!"));
    });
}
