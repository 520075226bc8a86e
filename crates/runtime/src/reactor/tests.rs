//! A runtime's reactor as its registrations meet it.

use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use futures_lite::future::block_on;

use super::*;
use crate::Runtime;
use crate::net::TcpListener;
use crate::panics::tests::Bomb;

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

fn register(runtime: &Runtime, socket: &UnixStream) -> std::io::Result<Registration> {
    runtime.handle().shared.register(socket.as_fd(), Interests::Both)
}

/// Two ends that don't block.
fn pair() -> (UnixStream, UnixStream) {
    let (left, right) = UnixStream::pair().unwrap();
    left.set_nonblocking(true).unwrap();
    right.set_nonblocking(true).unwrap();
    (left, right)
}

/// Calls a closure when woken.
struct Call<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Reads one byte as tasks do: tries when it is ready, and waits when there was nothing.
fn read_byte(registration: &Registration, mut socket: &UnixStream) -> u8 {
    let mut byte = [0];
    loop {
        let tick = block_on(registration.ready(socket.as_fd(), Side::Read, false)).unwrap();
        match socket.read(&mut byte) {
            Ok(1) => return byte[0],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                registration.clear_readiness(Side::Read, tick);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn readiness_comes_with_data_and_goes_with_would_block() {
    let runtime = runtime();
    let (left, mut right) = pair();
    let registration = register(&runtime, &left).unwrap();
    for round in 0..100_u8 {
        right.write_all(&[round]).unwrap();
        assert_eq!(read_byte(&registration, &left), round);
    }
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn several_tasks_may_wait_for_one_side() {
    let runtime = runtime();
    let (left, mut right) = pair();
    let registration = register(&runtime, &left).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap());
        }
        right.write_all(b"x").unwrap();
    });
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn a_hang_up_makes_both_sides_ready() {
    let runtime = runtime();
    let (left, right) = pair();
    let registration = register(&runtime, &left).unwrap();
    drop(right);
    block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap();
    block_on(registration.ready(left.as_fd(), Side::Write, false)).unwrap();
    registration.deregister(left.as_fd()).unwrap();
}

/// A stream that was read to its end stays readable, though a short read has exhausted it: its end brings no other
/// event.
#[test]
fn a_short_read_does_not_hide_the_end() {
    let runtime = runtime();
    let (mut left, mut right) = pair();
    let registration = register(&runtime, &left).unwrap();
    right.write_all(b"abc").unwrap();
    drop(right);
    let tick = block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap();
    // Whether or not data and end came with one event.
    assert_eq!(left.read(&mut [0; 9]).unwrap(), 3);
    registration.clear_exhausted(Side::Read, tick);
    block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap();
    assert_eq!(left.read(&mut [0; 9]).unwrap(), 0);
}

/// What the other end takes makes room. Nobody has waited for that, so nobody is told; once somebody has, each time.
#[test]
fn of_room_is_told_who_has_waited_for_it() {
    let runtime = runtime();
    let (left, mut right) = pair();
    let registration = runtime
        .handle()
        .shared
        .register(left.as_fd(), Interests::ReadFirst)
        .unwrap();
    let mut exchange = || {
        (&left).write_all(b"x").unwrap();
        right.read_exact(&mut [0]).unwrap();
        right.write_all(b"y").unwrap();
        assert_eq!(read_byte(&registration, &left), b'y');
        registration.tick(Side::Write)
    };
    assert!((0..100).all(|_| exchange() == Tick::default()));
    block_on(registration.ready(left.as_fd(), Side::Write, false)).unwrap();
    let before = registration.tick(Side::Write);
    registration.clear_readiness(Side::Read, registration.tick(Side::Read));
    right.write_all(b"z").unwrap();
    // By an event since then, which tells of all that is so.
    block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap();
    assert_ne!(registration.tick(Side::Write), before);
    registration.deregister(left.as_fd()).unwrap();
}

/// Whether the kernel has watched the writing side before or not, and of whoever waits at the same time.
#[test]
fn who_has_filled_a_socket_is_told_of_room() {
    let runtime = runtime();
    for interests in [Interests::ReadFirst, Interests::Both] {
        let (left, mut right) = pair();
        let registration = runtime.handle().shared.register(left.as_fd(), interests).unwrap();
        for _ in 0..20 {
            let mut filled = 0;
            let tick = loop {
                let tick = registration.tick(Side::Write);
                match (&left).write(&[0; 4096]) {
                    Ok(length) => filled += length,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break tick,
                    Err(error) => panic!("{error}"),
                }
            };
            registration.clear_readiness(Side::Write, tick);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| block_on(registration.ready(left.as_fd(), Side::Write, true)).unwrap());
                }
                right.read_exact(&mut vec![0; filled]).unwrap();
            });
        }
        registration.deregister(left.as_fd()).unwrap();
    }
}

/// The kernel is asked to watch what is in no set; it says so, and nothing stays behind.
#[test]
fn to_wait_for_room_of_what_is_not_watched_is_an_error() {
    let runtime = runtime();
    let (left, right) = pair();
    let registration = runtime
        .handle()
        .shared
        .register(left.as_fd(), Interests::ReadFirst)
        .unwrap();
    let told = Arc::new(Call(|| ()));
    let waker = Waker::from(told.clone());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..2 {
        let mut ready = Box::pin(registration.ready(right.as_fd(), Side::Write, false));
        assert!(matches!(ready.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
        let polled = registration.poll_ready(right.as_fd(), Side::Write, false, &mut cx);
        assert!(matches!(polled, Poll::Ready(Err(_))));
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&told), 1, "nobody waits");
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn an_exhausted_side_waits_for_the_next_event() {
    let runtime = runtime();
    let (mut left, mut right) = pair();
    let registration = register(&runtime, &left).unwrap();
    for round in 0..100_u8 {
        right.write_all(&[round]).unwrap();
        let tick = loop {
            let tick = block_on(registration.ready(left.as_fd(), Side::Read, false)).unwrap();
            let mut buffer = [0; 9];
            match left.read(&mut buffer) {
                Ok(length) => {
                    assert_eq!((length, buffer[0]), (1, round));
                    break tick;
                }
                Err(error) => {
                    assert_eq!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock,
                        "one event may be told twice"
                    );
                    registration.clear_readiness(Side::Read, tick);
                }
            }
        };
        registration.clear_exhausted(Side::Read, tick);
    }
}

#[test]
fn a_file_that_cannot_be_watched_is_an_error_and_leaves_nothing_behind() {
    let runtime = runtime();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let shared = &runtime.handle().shared;
    assert!(shared.register(file.as_fd(), Interests::Both).is_err());
    let shards = shared.sleepers.reactor.shards();
    assert!(shards.iter().all(|shard| !shard.has_sources()));
}

/// As in the example of `bind_several`: whatever a worker takes over is brought by those behind its cache.
#[test]
fn a_listener_is_watched_behind_the_cache_whose_worker_takes_it_over() {
    let machine = "node:1 llc:3 core:2".parse().unwrap();
    let runtime = Runtime::builder().topology(machine).build().unwrap();
    let handle = runtime.handle();
    let shards = handle.shared.sleepers.reactor.shards();
    let watched = || shards.iter().map(|shard| shard.has_sources()).collect::<Vec<_>>();
    let listeners = runtime.block_on(TcpListener::bind_several("127.0.0.1:0", 3)).unwrap();
    let listeners: Vec<_> = listeners.into_iter().map(TcpListener::into_std).collect();
    assert_eq!(watched(), [false; 3]);
    let mut kept = Vec::new();
    // Not in the order of the shards, which are in turn for who is behind no cache.
    for (listener, llc) in listeners.into_iter().zip([2, 0, 1]) {
        let worker = handle.workers_by_llc()[llc][1];
        let take_over = move || async move { TcpListener::from_std(listener).unwrap() };
        let before = watched();
        kept.push(runtime.block_on(handle.spawn_pinned_on(worker, take_over)).unwrap());
        let expected: Vec<_> = (0..3).map(|shard| before[shard] || shard == llc).collect();
        assert_eq!(watched(), expected, "worker {worker}");
        assert_ne!(before, expected);
    }
    drop(kept);
    assert_eq!(watched(), [false; 3]);
}

#[test]
fn shutdown_tells_who_waits() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    let (left, _right) = pair();
    let registration = register(&runtime, &left).unwrap();
    let (closed, closes) = mpsc::channel();
    let told = Waker::from(Arc::new(Call(move || closed.send(()).unwrap())));
    let mut cx = Context::from_waker(&told);
    assert!(
        registration
            .poll_ready(left.as_fd(), Side::Read, false, &mut cx)
            .is_pending()
    );
    drop(runtime);
    assert_eq!(closes.try_iter().count(), 1);
    assert!(matches!(
        registration.poll_ready(left.as_fd(), Side::Read, false, &mut cx),
        Poll::Ready(Err(_))
    ));
    assert!(
        handle.shared.register(left.as_fd(), Interests::Both).is_err(),
        "it watches nothing more"
    );
}

#[test]
fn a_waker_that_panics_ends_no_worker() {
    let runtime = runtime();
    let (left, mut right) = pair();
    let registration = register(&runtime, &left).unwrap();
    let (sender, receiver) = mpsc::channel();
    let bomb = Waker::from(Arc::new(Call(move || {
        sender.send(()).unwrap();
        panic!("for the test");
    })));
    assert!(
        registration
            .poll_ready(left.as_fd(), Side::Read, false, &mut Context::from_waker(&bomb))
            .is_pending()
    );
    right.write_all(b"x").unwrap();
    receiver.recv().unwrap();
    assert_eq!(read_byte(&registration, &left), b'x');
    right.write_all(b"y").unwrap();
    assert_eq!(read_byte(&registration, &left), b'y');
}

/// The place and the number of a descriptor that is gone are soon another's.
#[test]
fn a_new_source_knows_nothing_of_the_one_before() {
    let runtime = runtime();
    for _ in 0..200 {
        let (left, mut right) = pair();
        let registration = register(&runtime, &left).unwrap();
        right.write_all(b"x").unwrap();
        registration.deregister(left.as_fd()).unwrap();
        drop(registration);
        let (other, _end) = pair();
        let registration = runtime
            .handle()
            .shared
            .register(other.as_fd(), Interests::Read)
            .unwrap();
        let ready = registration.ready(other.as_fd(), Side::Read, false);
        assert!(block_on(futures_lite::future::poll_once(ready)).is_none());
        registration.deregister(other.as_fd()).unwrap();
    }
}

/// Nor does it keep the others from being woken.
#[test]
fn a_waker_that_panics_with_what_panics_is_survived() {
    let (woken, wakes) = mpsc::channel();
    let panics = || std::panic::panic_any(Bomb);
    let tells = move || woken.send(()).unwrap();
    let mut wakers = vec![Waker::from(Arc::new(Call(panics))), Waker::from(Arc::new(Call(tells)))];
    wake_each(&mut wakers);
    assert_eq!(wakes.try_recv(), Ok(()));
}

/// Nor does who ends the writing hear of it, and who waits besides is told.
#[test]
fn a_waker_that_panics_is_none_of_who_ends_the_writing() {
    let shard = Arc::new(Shard::new());
    let (left, _right) = pair();
    let registration = Registration::new(&shard, left.as_fd(), Interests::Both).unwrap();
    let (sender, told) = mpsc::channel();
    let bomb = Waker::from(Arc::new(Call(|| panic!("for the test"))));
    let waker = Waker::from(Arc::new(Call(move || sender.send(()).unwrap())));
    let mut first = registration.ready(left.as_fd(), Side::Write, false);
    let mut second = registration.ready(left.as_fd(), Side::Write, false);
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&bomb)).is_pending());
    assert!(
        Pin::new(&mut second)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    registration.tell_write_ended();
    assert_eq!(told.try_recv(), Ok(()));
}

/// The waker of who waits belongs to others, and may panic when it is dropped. What the owner has had goes back all the
/// same.
#[test]
fn a_waker_that_panics_when_it_is_dropped_keeps_no_place() {
    struct Holds(Bomb);
    impl Wake for Holds {
        fn wake(self: Arc<Self>) {}
    }
    let shard = Arc::new(Shard::new());
    let (left, _right) = pair();
    for _ in 0..3 {
        let registration = Registration::new(&shard, left.as_fd(), Interests::Both).unwrap();
        assert_eq!(registration.index(), 0, "it is the place that was given back");
        let waker = Waker::from(Arc::new(Holds(Bomb)));
        let polled = registration.poll_ready(left.as_fd(), Side::Read, false, &mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        registration.deregister(left.as_fd()).unwrap();
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(registration)));
        assert!(dropped.is_err());
        assert!(!shard.has_sources());
    }
}

/// An old kernel, or a filter, that knows no waits to the nanosecond, and a timer that is more milliseconds away than
/// fit an `int`: waited for in parts.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_far_timer_is_waited_for_by_kernels_that_count_milliseconds() {
    use crate::child::{assert_passed, is_child, run_child};

    if !is_child() {
        let test = "a_far_timer_is_waited_for_by_kernels_that_count_milliseconds";
        return assert_passed(&run_child(module_path!(), test));
    }
    crate::sys::process::forbid(libc::SYS_epoll_pwait2);
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (left, right) = pair();
    let registration = register(&runtime, &left).unwrap();
    let far = std::time::Duration::from_secs(40 * 24 * 3600);
    let (sets, set) = mpsc::channel();
    runtime.spawn(async move {
        let mut sleep = std::pin::pin!(crate::time::sleep(far));
        assert!(futures_lite::future::poll_once(sleep.as_mut()).await.is_none());
        sets.send(()).unwrap();
        sleep.await;
    });
    set.recv().unwrap();
    // It has announced that it goes to sleep, for as long as that, whatever is ready by then.
    while !runtime.handle().shared.sleepers.is_idle(0) {
        std::thread::yield_now();
    }
    (&right).write_all(b"x").unwrap();
    assert_eq!(read_byte(&registration, &left), b'x');
}

/// Workers that wait for sources as well wake up for timers as early as others. The least late of many, because any may
/// be late.
#[cfg(target_os = "linux")]
#[test]
fn timers_beside_sources_are_not_rounded_up_to_milliseconds() {
    use crate::sys::poller::tests::kernel_waits_exactly;
    use crate::sys::poller::{Events, Poller};

    let poller = Poller::new().unwrap();
    poller
        .wait(&mut Events::new(), Some(std::time::Duration::from_nanos(1)))
        .unwrap();
    if poller.is_coarse() {
        assert!(!kernel_waits_exactly(), "the kernel has shorter waits");
        return crate::skipped::skipped("the kernel, or a filter of system calls, has no waits below a millisecond");
    }
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (left, _right) = pair();
    let _registration = register(&runtime, &left).unwrap();
    let limit = std::time::Duration::from_micros(200);
    let late = runtime.block_on(async {
        let mut least = std::time::Duration::MAX;
        for _ in 0..50 {
            let sleep = async move {
                let start = std::time::Instant::now();
                crate::time::sleep(limit).await;
                start.elapsed() - limit
            };
            least = least.min(crate::spawn(sleep).await.unwrap());
        }
        least
    });
    assert!(late < std::time::Duration::from_micros(600), "{late:?}");
}
