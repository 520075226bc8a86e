//! The load generator of the server rows: a process of its own, one thread, one epoll.
//!
//! It opens all connections, then sends for a while unmeasured, says `begin` and waits for a line, so that the server's
//! process can start its meter; sends for the time that counts, and prints what it saw as one line of JSON. Two ways to
//! send:
//!
//! - **closed**: each connection sends again as soon as it is answered; asks how many requests a server can answer;
//! - **open**: requests are due at a given rate, independently of each other and of the answers. One that is due while
//!   all connections wait goes out with the next that is free, and its latency counts from when it was due (no
//!   coordinated omission).
//!
//! Both phases end when every request is answered. Every answer is checked to the last byte.

mod connection;
mod script;

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use serde::{Deserialize, Serialize};

use self::connection::{Answer, Connection};
pub(crate) use self::script::{GET, is_echo, is_greeting};
use crate::outcome::{Measured, Stop};
use crate::spec::Serve;
use crate::workloads::random::Random;
use crate::workloads::samples::Samples;

/// The seed of the schedule of an open loop.
const SEED: u64 = 42;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// A server that is silent for so long has lost a request.
const SILENCE: Duration = Duration::from_secs(10);

/// The share of the time that counts that is spent before, unmeasured.
const WARM_UP_DIVISOR: u64 = 4;

/// What the generator does: the argument of `quadrille generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Where the server is.
    pub address: SocketAddr,
    /// What to send.
    pub serve: Serve,
}

/// What it saw: its last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests answered, rightly.
    pub requests: u64,
    /// From the first request to the last answer, in nanoseconds.
    pub wall_ns: u64,
    /// p50_ns, p99_ns, p999_ns, and of an open loop how late the generator itself was at most.
    pub counters: crate::outcome::Counters,
    /// The longest latency, in nanoseconds.
    pub longest_ns: u64,
}

/// Carries an order out, talking to the server's process through `input` and `output`.
///
/// # Errors
/// [`Stop::Failed`]: what the kernel refused, what answer was wrong, or that none came. [`Stop::Unsupported`] if the
/// kernel's limits are too low for such requests.
pub fn run(order: &Order, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<(), Stop> {
    let say = |error: io::Error| Stop::failed(format!("cannot talk to the server's process: {error}"));
    let mut generator = Generator::connect(order).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => Stop::unsupported(error.to_string()),
        _ => Stop::failed(error.to_string()),
    })?;
    let serve = order.serve;
    let warm_up = Duration::from_millis((serve.millis / WARM_UP_DIVISOR).max(1));
    generator.phase(warm_up).map_err(Stop::Failed)?;
    writeln!(output, "begin").and_then(|()| output.flush()).map_err(say)?;
    let mut line = String::new();
    input.read_line(&mut line).map_err(say)?;
    let seen = generator
        .phase(Duration::from_millis(serve.millis))
        .map_err(Stop::Failed)?;
    let json = serde_json::to_string(&seen).map_err(|error| say(error.into()))?;
    writeln!(output, "{json}").and_then(|()| output.flush()).map_err(say)
}

/// The connections and who of them is free.
struct Generator {
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    /// In the order in which they became free: the one that has rested longest sends next, so that a rate comes over
    /// all of them.
    free: VecDeque<usize>,
    serve: Serve,
    random: Random,
    events: Vec<epoll::Event>,
}

/// A phase that is going on.
struct Phase {
    start: Instant,
    end: Instant,
    /// When the next request of an open loop is due; none in a closed one, and after the end.
    next_due: Option<Instant>,
    /// Requests that were due while no connection was free.
    waiting: VecDeque<Instant>,
    in_flight: usize,
    latencies: Samples,
    generator_late: Duration,
}

impl Generator {
    fn connect(order: &Order) -> io::Result<Self> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let serve = order.serve;
        let connections = (0..serve.connections)
            .map(|index| {
                let connection = Connection::open(order.address, serve, index)?;
                let data = epoll::EventData::new_u64(index as u64);
                epoll::add(&epoll, connection.socket(), data, epoll::EventFlags::IN)?;
                Ok(connection)
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            epoll,
            free: (0..connections.len()).collect(),
            connections,
            serve,
            random: Random::new(SEED),
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Sends for `duration` and waits for the last answer.
    fn phase(&mut self, duration: Duration) -> Result<Seen, String> {
        let start = Instant::now();
        let mut phase = Phase::new(start, start + duration);
        if self.serve.rate == 0 {
            for index in std::mem::take(&mut self.free) {
                self.send(index, start, &mut phase)?;
            }
        } else {
            phase.next_due = Some(start + self.gap());
        }
        self.drive(&mut phase)?;
        Ok(phase.finish())
    }

    /// Sends what becomes due until the phase is over and its last request answered.
    fn drive(&mut self, phase: &mut Phase) -> Result<(), String> {
        while phase.in_flight > 0 || phase.next_due.is_some() || !phase.waiting.is_empty() {
            self.send_what_is_due(phase)?;
            self.wait(phase)?;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                self.receive(index, phase)?;
            }
            // Its memory is used again.
            self.events = events;
        }
        Ok(())
    }

    /// The time until the next request of an open loop.
    fn gap(&mut self) -> Duration {
        self.random.until_next(Duration::from_secs(1) / self.serve.rate.max(1))
    }

    fn send_what_is_due(&mut self, phase: &mut Phase) -> Result<(), String> {
        while let Some(due) = phase.next_due {
            let now = Instant::now();
            if due > now {
                break;
            }
            phase.generator_late = phase.generator_late.max(now - due);
            let next = due + self.gap();
            phase.next_due = (next < phase.end).then_some(next);
            match self.free.pop_front() {
                Some(index) => self.send(index, due, phase)?,
                None => phase.waiting.push_back(due),
            }
        }
        Ok(())
    }

    fn send(&mut self, index: usize, due: Instant, phase: &mut Phase) -> Result<(), String> {
        phase.in_flight += 1;
        self.connections[index]
            .send(due)
            .map_err(|error| format!("connection {index} cannot send: {error}"))
    }

    fn receive(&mut self, index: usize, phase: &mut Phase) -> Result<(), String> {
        let answer = self.connections[index]
            .receive()
            .map_err(|error| format!("connection {index}: {error}"))?;
        let Answer::Complete { due } = answer else {
            return Ok(());
        };
        let now = Instant::now();
        phase.latencies.add(now - due);
        phase.in_flight -= 1;
        if let Some(due) = phase.waiting.pop_front() {
            self.send(index, due, phase)
        } else if self.serve.rate == 0 && now < phase.end {
            self.send(index, now, phase)
        } else {
            self.free.push_back(index);
            Ok(())
        }
    }

    /// Waits for answers, but not beyond the next request that is due.
    fn wait(&mut self, phase: &Phase) -> Result<(), String> {
        let patience = phase
            .next_due
            .map_or(SILENCE, |due| due.saturating_duration_since(Instant::now()));
        let timeout = Timespec::try_from(patience).map_err(|error| error.to_string())?;
        // epoll_wait counts milliseconds; poll, on the epoll itself, nanoseconds.
        let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
        let count = match poll(&mut ready, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other.map_err(|error| format!("poll: {error}"))?,
        };
        if count == 0 && phase.next_due.is_none() {
            return Err(format!(
                "{} requests unanswered for {} s",
                phase.in_flight,
                SILENCE.as_secs()
            ));
        }
        if count > 0 {
            self.events.reserve(EVENTS);
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut self.events),
                Some(&zero),
            )
            .map_err(|error| format!("epoll: {error}"))?;
        }
        Ok(())
    }
}

impl Phase {
    fn new(start: Instant, end: Instant) -> Self {
        Self {
            start,
            end,
            next_due: None,
            waiting: VecDeque::new(),
            in_flight: 0,
            latencies: Samples::default(),
            generator_late: Duration::ZERO,
        }
    }

    fn finish(self) -> Seen {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let requests = self.latencies.len() as u64;
        let wall_ns = nanos(self.start.elapsed());
        let mut measured = self.latencies.into(Measured::default());
        let late = nanos(self.generator_late);
        if late > 0 {
            measured.counters.insert("generator_late_max_ns".to_owned(), late);
        }
        Seen {
            requests,
            wall_ns,
            longest_ns: measured.longest_wait_ns.unwrap_or(0),
            counters: measured.counters,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;
    use crate::spec::Service;

    /// A server that answers each request of 8 bytes with what `answer` makes of it, until it is empty.
    fn server(answer: fn(&[u8]) -> Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    let mut request = [0; 8];
                    while stream.read_exact(&mut request).is_ok() {
                        let answer = answer(&request);
                        if answer.is_empty() || stream.write_all(&answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn generate(address: SocketAddr, rate: u32) -> Result<Seen, String> {
        ask(Service::TcpEcho, address, rate)
    }

    fn ask(service: Service, address: SocketAddr, rate: u32) -> Result<Seen, String> {
        let serve = Serve {
            service,
            connections: 3,
            size: 8,
            rate,
            spinner: false,
            millis: 40,
        };
        let mut output = Vec::new();
        let done = run(&Order { address, serve }, &mut Cursor::new("go\n"), &mut output);
        done.map_err(|stop| match stop {
            Stop::Failed(message) => message,
            Stop::Unsupported(reason) => panic!("{reason}"),
        })?;
        let text = String::from_utf8(output).unwrap();
        let seen = text.strip_prefix("begin\n").unwrap();
        Ok(serde_json::from_str(seen).unwrap())
    }

    #[test]
    fn a_closed_loop_sends_until_the_end() {
        let seen = generate(server(<[u8]>::to_vec), 0).unwrap();
        assert!(seen.requests >= 3, "{seen:?}");
        assert!(seen.wall_ns >= 40_000_000, "{seen:?}");
        assert!(
            seen.counters["p50_ns"] > 0 && seen.counters["p50_ns"] <= seen.longest_ns,
            "{seen:?}"
        );
    }

    #[test]
    fn an_open_loop_sends_what_is_due_whoever_answers() {
        let seen = [0, 1].map(|_| generate(server(<[u8]>::to_vec), 1000).unwrap());
        // 40 in 40 ms, give or take what exponential gaps vary; the same each time.
        assert!((15..80).contains(&seen[0].requests), "{seen:?}");
        assert_eq!(seen[0].requests, seen[1].requests);
    }

    #[test]
    fn requests_of_an_open_loop_go_over_all_connections_in_turn() {
        let serve = Serve {
            service: Service::TcpEcho,
            connections: 3,
            size: 8,
            rate: 1,
            spinner: false,
            millis: 1,
        };
        let address = server(<[u8]>::to_vec);
        let mut generator = Generator::connect(&Order { address, serve }).unwrap();
        for next in [1, 2, 0, 1] {
            let now = Instant::now();
            // It ends as it begins, so there is one request.
            let mut phase = Phase::new(now, now);
            phase.next_due = Some(now);
            generator.drive(&mut phase).unwrap();
            assert_eq!(phase.latencies.len(), 1);
            assert_eq!(generator.free, [next, (next + 1) % 3, (next + 2) % 3]);
        }
    }

    #[test]
    fn a_wrong_answer_and_a_closed_connection_are_named() {
        let wrong = generate(server(<[u8]>::to_ascii_uppercase), 0).unwrap_err();
        assert!(wrong.contains("not what was sent"), "{wrong}");
        let wrong = ask(Service::Tbench, server(<[u8]>::to_vec), 0).unwrap_err();
        assert!(wrong.contains("are not the answer of"), "{wrong}");
        let closed = generate(server(|_| Vec::new()), 0).unwrap_err();
        assert!(closed.contains("closed by the server"), "{closed}");
    }
}
