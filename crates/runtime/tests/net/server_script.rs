//! Servers whose listeners follow a script, by a clock that stands.

use std::future::pending;
use std::io::{self, ErrorKind};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::Runtime;
use quadrille::coop::consume_budget;
use quadrille::net::{Listener, Server};
use quadrille::sync::{CancellationToken, Semaphore, broadcast, mpmc, oneshot};
use quadrille::time::{Instant, advance, sleep};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::descriptors::in_a_process;
use crate::server::Told;
use crate::watched::watched;

/// What comes next is in a list: connections, and errors of the system's. After them comes an end, or nobody any more.
struct Script {
    steps: std::vec::IntoIter<Result<u32, Errno>>,
    stays: bool,
}

impl Script {
    fn new<const N: usize>(steps: [Result<u32, Errno>; N]) -> Self {
        Self::of(steps.into_iter().collect(), false)
    }

    fn stays<const N: usize>(steps: [Result<u32, Errno>; N]) -> Self {
        Self::of(steps.into_iter().collect(), true)
    }

    fn of(steps: Vec<Result<u32, Errno>>, stays: bool) -> Self {
        let steps = steps.into_iter();
        Self { steps, stays }
    }
}

impl Listener for Script {
    type Io = u32;
    type Addr = ();

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<(u32, ())>> {
        Poll::Ready(match self.steps.next() {
            Some(Ok(number)) => Ok((number, ())),
            Some(Err(errno)) => Err(errno.into()),
            None if self.stays => return Poll::Pending,
            None => Err(io::Error::other("the script ends")),
        })
    }
}

/// Runs a test with virtual time on one worker.
fn paused<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    watched(|| {
        let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
        runtime.block_on(async { quadrille::spawn(test()).await.unwrap() });
    });
}

#[test]
fn errors_that_may_pass_are_said_once_and_followed_by_a_pause() {
    paused(|| async {
        let script = Script::new([
            Err(Errno::MFILE),
            Err(Errno::NFILE),
            Ok(1),
            Err(Errno::NOBUFS),
            Err(Errno::NOMEM),
            Ok(2),
        ]);
        let (sender, said) = mpmc::unbounded();
        let start = Instant::now();
        let (begun, when) = mpmc::unbounded();
        let server = Server::new(script)
            .on_accept_error(move |error| sender.try_send(error.raw_os_error()).unwrap())
            .serve(move |number, ()| {
                begun.try_send((number, start.elapsed().as_millis())).unwrap();
                pending::<()>()
            });
        assert_eq!(server.await.unwrap_err().to_string(), "the script ends");
        assert_eq!(
            said.try_iter().collect::<Vec<_>>(),
            [Errno::MFILE, Errno::NOBUFS].map(|errno| Some(errno.raw_os_error()))
        );
        assert_eq!(when.try_iter().collect::<Vec<_>>(), [(1, 20), (2, 40)]);
    });
}

/// Fails, has nobody, and fails again.
struct Twice(u32);

impl Listener for Twice {
    type Io = ();
    type Addr = ();

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<((), ())>> {
        self.0 += 1;
        match self.0 {
            1 | 3 => Poll::Ready(Err(Errno::MFILE.into())),
            2 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(Err(io::Error::other("it has failed twice"))),
        }
    }
}

#[test]
fn errors_are_said_again_once_nobody_has_waited() {
    paused(|| async {
        let (say, said) = mpmc::unbounded();
        let server = Server::new(Twice(0)).on_accept_error(move |error| say.try_send(error.kind()).unwrap());
        server.serve(async |(), ()| {}).await.unwrap_err();
        assert_eq!(said.try_iter().count(), 2);
    });
}

/// More have ended than can be counted in one turn, in which the listener then is not asked.
#[test]
fn errors_are_not_said_again_for_want_of_budget() {
    const CONNECTIONS: u32 = 200;
    paused(|| async {
        let (say, said) = mpmc::unbounded();
        let (gate, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (opener, counter) = (Arc::clone(&gate), Arc::clone(&ended));
        let connections = (0..CONNECTIONS).map(Ok);
        let script = Script::of(connections.chain([Err(Errno::MFILE); 2]).collect(), false);
        let server = Server::new(script).on_accept_error(move |error| say.try_send(error.kind()).unwrap());
        let mut served = Box::pin(server.serve(move |_, ()| {
            let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
            async move {
                gate.acquire().await.unwrap().forget();
                ended.add_permits(1);
            }
        }));
        while said.is_empty() {
            assert!(poll_once(&mut served).await.is_none());
            quadrille::task::yield_now().await;
        }
        opener.add_permits(CONNECTIONS as usize);
        counter.acquire_many(CONNECTIONS).await.unwrap().forget();
        quadrille::task::yield_now().await;
        assert_eq!(served.await.unwrap_err().to_string(), "the script ends");
        assert_eq!(said.try_iter().count(), 1);
    });
}

#[test]
fn an_end_of_a_connection_ends_the_pause() {
    paused(|| async {
        let script = Script::new([Ok(3), Err(Errno::MFILE), Ok(0)]);
        let (begun, when) = mpmc::unbounded();
        let start = Instant::now();
        let server = Server::new(script).serve(move |number, ()| {
            begun.try_send(start.elapsed().as_millis()).unwrap();
            sleep(Duration::from_millis(number.into()))
        });
        server.await.unwrap_err();
        assert_eq!(when.try_iter().collect::<Vec<_>>(), [0, 3]);
    });
}

#[test]
fn errors_that_never_pass_end_the_server() {
    paused(|| async {
        for errno in [Errno::BADF, Errno::INVAL, Errno::NOTSOCK] {
            let script = Script::new([Err(errno), Ok(1)]);
            let error = Server::new(script).serve(async |_, ()| {}).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    });
}

/// Always has one more.
struct Crowd;

impl Listener for Crowd {
    type Io = ();
    type Addr = ();

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<((), ())>> {
        Poll::Ready(Ok(((), ())))
    }
}

/// On the one worker that there is.
#[test]
fn a_crowd_keeps_nobody_else_waiting() {
    paused(|| async {
        let (stop, signal) = oneshot::channel::<()>();
        let (begun, served) = mpmc::unbounded();
        let server = Server::new(Crowd).graceful_shutdown(signal);
        let server = quadrille::spawn(server.serve(move |(), ()| {
            begun.try_send(()).unwrap();
            async {}
        }));
        served.recv().await.unwrap();
        stop.send(()).unwrap();
        assert!(server.await.unwrap().unwrap().connections > 0);
    });
}

#[test]
fn an_error_of_one_connection_is_passed_over() {
    paused(|| async {
        let (begun, when) = mpmc::unbounded();
        let start = Instant::now();
        let script = Script::new([Err(Errno::PROTO), Err(Errno::CONNRESET), Err(Errno::NETDOWN), Ok(1)]);
        let server = Server::new(script).on_accept_error(|_| unreachable!("clients can be let in"));
        let server = server.serve(move |number, ()| {
            begun.try_send((number, start.elapsed())).unwrap();
            async {}
        });
        assert_eq!(server.await.unwrap_err().to_string(), "the script ends");
        assert_eq!(when.try_iter().collect::<Vec<_>>(), [(1, Duration::ZERO)]);
    });
}

#[test]
fn an_end_that_is_no_signal_aborts_the_connections() {
    paused(|| async {
        let gone = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&gone);
        let server = Server::new(Script::new([Ok(1)])).serve(move |_, ()| {
            let guard = Told(Arc::clone(&told));
            async move {
                let _guard = guard;
                pending::<()>().await;
            }
        });
        server.await.unwrap_err();
        while !gone.load(Ordering::SeqCst) {
            quadrille::task::yield_now().await;
        }
    });
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("meant to panic");
    }
}

/// Both what a connection returns and what it panics with.
#[test]
fn destructors_that_panic_end_one_connection_alone() {
    paused(|| async {
        for threads in [false, true] {
            let stop = CancellationToken::new();
            let stops = stop.clone();
            let server = Server::new(Script::stays([Ok(1), Ok(2), Ok(3)])).graceful_shutdown(stop);
            let meet = move |number| {
                if number == 1 {
                    panic_any(Bomb);
                }
                if number == 3 {
                    stops.cancel();
                }
                (number == 2).then(|| Bomb)
            };
            let served = if threads {
                server.serve_threads(move |number, ()| meet(number)).await
            } else {
                let meet = Arc::new(meet);
                let serve = move |number, ()| {
                    let meet = Arc::clone(&meet);
                    async move { meet(number) }
                };
                server.serve(serve).await
            };
            let served = served.unwrap();
            assert_eq!((served.connections, served.panicked, served.cut_off), (3, 2, 0));
        }
    });
}

#[test]
fn hooks_that_panic_end_nothing() {
    paused(|| async {
        let (stop, signal) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let server = Server::new(Script::stays([Ok(1), Err(Errno::MFILE), Ok(2)]))
            .on_accept_error(|_| panic!("meant to panic"))
            .on_shutdown(|_| panic!("meant to panic"))
            .graceful_shutdown(signal);
        let served = server.serve(move |number, ()| {
            let stop = stop.take_if(|_| number == 2);
            async move {
                drop(stop);
                sleep(Duration::from_millis(5)).await;
            }
        });
        assert_eq!(served.await.unwrap().connections, 2);
    });
}

#[test]
fn who_has_ended_is_not_left_at_the_signal() {
    paused(|| async {
        let stop = CancellationToken::new();
        let (say, left) = oneshot::channel();
        let server = Server::new(Script::stays([Ok(1)]))
            .graceful_shutdown(stop.clone())
            .on_shutdown(|left| say.send(left).unwrap());
        let served = server.serve(move |_, ()| {
            let stop = stop.clone();
            async move { stop.cancel() }
        });
        assert_eq!(served.await.unwrap().connections, 1);
        assert_eq!(left.await.unwrap(), 0);
    });
}

/// More than can be counted in two turns.
#[test]
fn who_has_ended_at_the_limit_is_not_cut_off() {
    const CONNECTIONS: u32 = 300;
    paused(|| async {
        let stop = CancellationToken::new();
        let (gate, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (opener, counter) = (Arc::clone(&gate), Arc::clone(&ended));
        let script = Script::of((0..CONNECTIONS).map(Ok).collect(), true);
        let server = Server::new(script)
            .graceful_shutdown(stop.clone())
            .shutdown_timeout(Duration::from_secs(1));
        let mut served = Box::pin(server.serve(move |_, ()| {
            let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
            async move {
                gate.acquire().await.unwrap().forget();
                ended.add_permits(1);
                panic!("meant to panic");
            }
        }));
        for _ in 0..8 {
            assert!(poll_once(&mut served).await.is_none());
            quadrille::task::yield_now().await;
        }
        stop.cancel();
        assert!(poll_once(&mut served).await.is_none());
        opener.add_permits(CONNECTIONS as usize);
        counter.acquire_many(CONNECTIONS).await.unwrap().forget();
        advance(Duration::from_secs(2)).await;
        let served = served.await.unwrap();
        assert_eq!((served.panicked, served.cut_off), (CONNECTIONS.into(), 0));
    });
}

/// A signal that says when it is dropped.
struct Signal(
    oneshot::Receiver<()>,
    #[expect(dead_code, reason = "it is dropped")] Told,
);

impl Future for Signal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

#[test]
fn handler_and_signal_go_before_the_connections() {
    paused(|| async {
        let (stop, signal) = oneshot::channel::<()>();
        let gone = Arc::new(AtomicBool::new(false));
        let room = broadcast::Sender::<()>::new(1);
        let server = Server::new(Script::stays([Ok(1)])).graceful_shutdown(Signal(signal, Told(Arc::clone(&gone))));
        let mut stop = Some(stop);
        // It ends with the room, which the handler has.
        let served = server.serve(move |_, ()| {
            let (mut lines, gone) = (room.subscribe(), Arc::clone(&gone));
            stop.take().unwrap().send(()).unwrap();
            async move {
                lines.recv().await.unwrap_err();
                assert!(gone.load(Ordering::SeqCst), "the signal is still there");
            }
        });
        let served = served.await.unwrap();
        assert_eq!((served.panicked, served.cut_off), (0, 0));
    });
}

#[test]
fn a_signal_without_an_end_of_its_own_keeps_nobody_out() {
    paused(|| async {
        let spends = async {
            loop {
                consume_budget().await;
            }
        };
        let (begun, served) = mpmc::unbounded();
        let server = Server::new(Script::stays([Ok(7)])).graceful_shutdown(spends);
        let server = quadrille::spawn(server.serve(move |number, ()| {
            begun.try_send(number).unwrap();
            pending::<()>()
        }));
        assert_eq!(served.recv().await, Ok(7));
        server.abort();
    });
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    paused(|| async {
        let (begun, order) = mpmc::unbounded();
        let server = Server::new(Script::of((0..8).map(Ok).collect(), true));
        let server = quadrille::spawn(server.serve(move |number, ()| {
            let begun = begun.clone();
            async move { begun.try_send(number).unwrap() }
        }));
        for number in 0..8 {
            assert_eq!(order.recv().await, Ok(number));
        }
        server.abort();
    });
}

#[test]
fn a_signal_is_heard_at_the_limit_and_in_a_pause() {
    paused(|| async {
        let start = Instant::now();
        let after = || sleep(Duration::from_millis(1));
        let full = Server::new(Script::stays([Ok(1), Ok(2)])).max_connections(0);
        let full = full.graceful_shutdown(after()).shutdown_timeout(Duration::ZERO);
        let served = full.serve(|_, ()| pending::<()>()).await.unwrap();
        assert_eq!((served.connections, served.cut_off), (1, 1));
        assert_eq!(start.elapsed(), Duration::from_millis(1));
        let failing = Server::new(Script::stays([Err(Errno::MFILE)])).graceful_shutdown(after());
        failing.serve(async |_, ()| {}).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(2));
    });
}

/// The limit holds for all of a process, so it is one of its own.
#[test]
fn who_has_no_stack_is_let_go_and_said() {
    const STACK: usize = 1 << 30;
    in_a_process("server_script::who_has_no_stack_is_let_go_and_said", || {
        let runtime = Runtime::builder().worker_threads(1).start_paused(true);
        let runtime = runtime.user_thread_stack_size(STACK).build().unwrap();
        let mut limit = getrlimit(Resource::As);
        limit.current = Some(STACK as u64);
        setrlimit(Resource::As, limit).unwrap();
        runtime.block_on(async {
            let (say, said) = mpmc::unbounded();
            let start = Instant::now();
            let server = Server::new(Script::new([Ok(1), Ok(2)]))
                .on_accept_error(move |error| say.try_send((error.kind(), start.elapsed())).unwrap());
            let server = server.serve_threads(|_, ()| unreachable!("there is no stack"));
            assert_eq!(server.await.unwrap_err().to_string(), "the script ends");
            let said: Vec<_> = said.try_iter().collect();
            assert_eq!(said, [(ErrorKind::OutOfMemory, Duration::ZERO)]);
            assert_eq!(start.elapsed(), Duration::from_millis(20));
        });
    });
}
