//! Signals after whose handler the kernel starts no call again: nobody is told of them, and nothing is lost.

use std::io::{self, PipeWriter, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quadrille::fs::File;
use quadrille::net::{PipeReader, Server, TcpListener, TcpStream};
use quadrille::time::sleep;
use quadrille::{JoinSet, Runtime, Wait as _};

use crate::descriptors::in_a_process;

const SIGNAL: libc::c_int = libc::SIGUSR1;

/// How often the threads of the process are sent a signal.
const ROUNDS: usize = 3_000;

/// Between two rounds. Long enough for somebody to begin a wait, which the next one then interrupts.
const PAUSE: Duration = Duration::from_micros(100);

/// Of a wait that several rounds interrupt.
const SEVERAL: Duration = Duration::from_micros(500);

/// Messages over one connection: few enough connections for the ports that there are, also of many such tests.
const MESSAGES: u8 = 200;

/// How often a signal was handled.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// All signals have been sent.
static IS_OVER: AtomicBool = AtomicBool::new(false);

fn is_over() -> bool {
    IS_OVER.load(Ordering::Relaxed)
}

extern "C" fn handle(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Has the signal handled without `SA_RESTART`.
fn handle_signals() {
    // SAFETY: zeros are a valid value: no flags, and no other signal is held up meanwhile.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(_) as usize;
    // SAFETY: a handler of the signature that is asked for without SA_SIGINFO; it does nothing but count.
    let outcome = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    assert_eq!(outcome, 0);
}

/// Sends it to every other thread of the process.
fn interrupt_all() {
    let process = std::process::id();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let name = thread.unwrap().file_name();
        let number: libc::pid_t = name.to_str().unwrap().parse().unwrap();
        if number != own {
            // That the thread has ended meanwhile is an error, and none of ours.
            // SAFETY: the call touches no memory, and the signal has a handler.
            unsafe { libc::syscall(libc::SYS_tgkill, process, number, SIGNAL) };
        }
    }
}

/// In so many rounds, and until as many were handled: of several that come to a thread which has no CPU it handles one.
fn send_signals() {
    let mut rounds = 0;
    while rounds < ROUNDS || HANDLED.load(Ordering::Relaxed) < ROUNDS {
        interrupt_all();
        rounds += 1;
        thread::sleep(PAUSE);
    }
    IS_OVER.store(true, Ordering::Relaxed);
}

async fn echo(stream: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 512];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

/// Connects, and has messages sent back, again and again.
async fn converse(address: SocketAddr) -> io::Result<()> {
    loop {
        let stream = TcpStream::connect(address).await?;
        for message in 0..MESSAGES {
            let sent = [message; 300];
            stream.write_all(&sent).await?;
            let mut received = [0; 300];
            stream.read_exact(&mut received).await?;
            assert_eq!(received, sent);
        }
        if is_over() {
            return Ok(());
        }
    }
}

/// Clients and servers, tasks and threads.
async fn echoes() -> io::Result<()> {
    let mut clients = JoinSet::new();
    for by_threads in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = Server::new(listener).on_accept_error(|error| panic!("{error}"));
        // Who serves ends with the runtime. That it fails is seen by its client.
        if by_threads {
            drop(quadrille::spawn(server.serve_threads(|stream, _| echo(&stream).wait())));
        } else {
            drop(quadrille::spawn(
                server.serve(|stream, _| async move { echo(&stream).await }),
            ));
        }
        clients.spawn(converse(address));
        clients.spawn_thread(move || converse(address).wait());
    }
    clients.join_all().await.into_iter().collect()
}

/// Sleeps again and again.
async fn sleeps() {
    loop {
        let start = Instant::now();
        sleep(SEVERAL).await;
        assert!(start.elapsed() >= SEVERAL, "a signal ends no sleep");
        if is_over() {
            return;
        }
    }
}

/// All that comes, by the reactor.
async fn from_pipe(pipe: PipeReader) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = [0; 64];
    loop {
        match pipe.read(&mut buffer).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

/// All that comes, by a thread that waits for each piece.
async fn from_file(mut file: File) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    file.read_to_end(&mut all).await?;
    Ok(all)
}

/// Writes numbers to the pipes, one at a time.
fn feed(mut pipes: [PipeWriter; 3]) -> Vec<u8> {
    let mut all = Vec::new();
    for number in 0_u32.. {
        // Who reads most likely waits by then.
        thread::sleep(SEVERAL);
        for pipe in &mut pipes {
            pipe.write_all(&number.to_le_bytes()).unwrap();
        }
        all.extend_from_slice(&number.to_le_bytes());
        if is_over() {
            break;
        }
    }
    all
}

#[test]
fn nobody_is_told_of_signals_and_nothing_is_lost() {
    in_a_process("interrupted::nobody_is_told_of_signals_and_nothing_is_lost", || {
        handle_signals();
        let [(idle_reader, idle), (timed_reader, timed), (file, blocking)] = [(); 3].map(|()| io::pipe().unwrap());
        let feeder = thread::spawn(|| feed([idle, timed, blocking]));

        let runtime = |workers| Runtime::builder().worker_threads(workers).build().unwrap();
        // A worker that waits for a descriptor alone, one that waits for its timer as well, and two that are busy.
        let (idle, timed, busy) = (runtime(1), runtime(1), runtime(2));
        let from_idle = idle.spawn(async { from_pipe(PipeReader::from_std(idle_reader)?).await });
        let from_timed = timed.spawn(async { from_pipe(PipeReader::from_std(timed_reader)?).await });
        let slept = [timed.spawn(sleeps()), busy.spawn(sleeps())];
        rustix::io::ioctl_fionbio(&file, true).unwrap();
        let from_file = busy.spawn(from_file(File::from(OwnedFd::from(file))));

        let signals = thread::spawn(send_signals);
        busy.block_on(echoes()).unwrap();
        for slept in slept {
            slept.wait().unwrap();
        }
        signals.join().unwrap();
        let fed = feeder.join().unwrap();
        for read in [from_idle, from_timed, from_file] {
            assert!(read.wait().unwrap().unwrap() == fed, "what comes is what was written");
        }
    });
}
