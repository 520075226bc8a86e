//! Pairs of a client and a server with one request under way: netperf's request-response tests, and tbench.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Nanos;

use super::{ChannelId, ChannelSpec, Context, Kin, NewTask, Setup, Step, TaskId, Transport, Workload, text};

/// What a client does before its first request: meanwhile everybody has found a place, and idle workers sleep.
const PROLOGUE: Nanos = Nanos::from_micros(100);
/// All clients are one program.
const CLIENTS: Kin = Kin::Program(1);
/// All servers are another.
const SERVERS: Kin = Kin::Program(2);

/// `pairs` clients, each with a server of its own: the client sends a request and waits for the answer. Units of work
/// are transactions, samples their times.
///
/// Clients and servers are in two coupling sets, as they are two programs; a policy that only looks at sets separates
/// what belongs together.
///
/// ```
/// use quadrille_sim::Rpc;
///
/// let rpc: Rpc = "pairs=8,think=500".parse()?;
/// assert_eq!(rpc.to_string(), "pairs=8,think=500,work=0,table=1,pipe=0");
/// assert!("pairs=0".parse::<Rpc>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// Clients, and servers. Default 1.
    pub pairs: u32,
    /// What a client computes between two requests, ns. Default 0.
    pub think: u32,
    /// What a server computes for an answer, ns. Default 0.
    pub work: u32,
    /// Which messages. Default netperf's.
    pub table: Table,
    /// What carries them. Default channels.
    pub via: Transport,
    state: State,
}

/// The sizes of requests, each of which has an answer of the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Table {
    /// One byte, as TCP_RR and UDP_RR.
    #[default]
    OneByte,
    /// From 60 bytes to 64 KiB in turn, mostly small: the calls of a file server, as tbench replays them.
    FileServer,
}

impl Table {
    const fn bytes(self) -> &'static [u32] {
        match self {
            Self::OneByte => &[1],
            Self::FileServer => &[60, 120, 60, 4096, 60, 120, 240, 65_536],
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// By task.
    tasks: Vec<Progress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    phase: Phase,
    /// Transactions begun.
    begun: u32,
    began_at: Nanos,
}

/// What comes next; a server begins by waiting for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Start,
    Begin,
    Exchange,
    Finish,
}

impl Default for Rpc {
    fn default() -> Self {
        Self {
            pairs: 1,
            think: 0,
            work: 0,
            table: Table::OneByte,
            via: Transport::Channel,
            state: State::default(),
        }
    }
}

impl Rpc {
    /// The channel of a pair for its `begun`-th request; the next one is for the answer.
    fn channel(&self, pair: u32, begun: u32) -> ChannelId {
        let sizes = u32::try_from(self.table.bytes().len()).unwrap_or(1);
        ChannelId(2 * (pair * sizes + begun % sizes))
    }

    fn client_step(&self, pair: u32, progress: &mut Progress, context: &mut Context<'_>) -> Step {
        let request = self.channel(pair, progress.begun);
        match progress.phase {
            Phase::Start => {
                progress.phase = Phase::Begin;
                Step::Compute(PROLOGUE)
            }
            Phase::Begin if self.think > 0 => {
                progress.phase = Phase::Exchange;
                Step::Compute(Nanos(u64::from(self.think)))
            }
            Phase::Begin | Phase::Exchange => {
                progress.phase = Phase::Finish;
                progress.began_at = context.now();
                Step::Send(request)
            }
            Phase::Finish => {
                progress.phase = Phase::Begin;
                progress.begun += 1;
                Step::Recv(ChannelId(request.0 + 1))
            }
        }
    }

    fn server_step(&self, pair: u32, progress: &mut Progress) -> Step {
        let request = self.channel(pair, progress.begun);
        match progress.phase {
            Phase::Start | Phase::Begin => {
                progress.phase = if self.work > 0 { Phase::Exchange } else { Phase::Finish };
                Step::Recv(request)
            }
            Phase::Exchange => {
                progress.phase = Phase::Finish;
                Step::Compute(Nanos(u64::from(self.work)))
            }
            Phase::Finish => {
                progress.phase = Phase::Begin;
                progress.begun += 1;
                Step::Send(ChannelId(request.0 + 1))
            }
        }
    }
}

impl Workload for Rpc {
    fn name(&self) -> String {
        format!("rpc:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        for _ in 0..self.pairs {
            for &bytes in self.table.bytes() {
                let spec = ChannelSpec {
                    capacity: 1,
                    bytes,
                    grain: 1,
                    transport: self.via,
                };
                setup.channel(spec);
                setup.channel(spec);
            }
            setup.task(NewTask { kin: CLIENTS });
            setup.task(NewTask { kin: SERVERS });
        }
        self.state.tasks = vec![Progress::default(); 2 * self.pairs as usize];
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let (pair, is_server) = (task.0 / 2, task.0 % 2 == 1);
        let Some(mut progress) = self.state.tasks.get(task.index()).copied() else {
            return Step::Exit;
        };
        let step = if is_server {
            self.server_step(pair, &mut progress)
        } else {
            if progress.phase == Phase::Begin && progress.begun > 0 {
                // The answer is there.
                context.done(1);
                context.sample(context.now().since(progress.began_at));
            }
            self.client_step(pair, &mut progress, context)
        };
        self.state.tasks[task.index()] = progress;
        step
    }

    fn unit(&self) -> &'static str {
        "transactions"
    }
}

impl FromStr for Rpc {
    type Err = String;

    /// `name=value,…` with `pairs`, `think` and `work` (ns), `table` (1: one byte, 2: a file server's), `pipe` (0 or
    /// 1).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut rpc = Self::default();
        text::read(
            "rpc",
            text,
            "pairs, think, work, table (1 or 2) or pipe (0 or 1)",
            |name, value| {
                match (name, value) {
                    ("pairs", _) => rpc.pairs = value,
                    ("think", _) => rpc.think = value,
                    ("work", _) => rpc.work = value,
                    ("table", 1) => rpc.table = Table::OneByte,
                    ("table", 2) => rpc.table = Table::FileServer,
                    ("pipe", 0) => rpc.via = Transport::Channel,
                    ("pipe", 1) => rpc.via = Transport::Pipe,
                    _ => return false,
                }
                true
            },
        )?;
        // Each has up to 16 channels.
        text::within("rpc", "pairs", rpc.pairs, 1..=text::TASKS_MAX / 16)?;
        Ok(rpc)
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self.table {
            Table::OneByte => 1,
            Table::FileServer => 2,
        };
        let pipe = u8::from(self.via == Transport::Pipe);
        let Self { pairs, think, work, .. } = self;
        write!(f, "pairs={pairs},think={think},work={work},table={table},pipe={pipe}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Cost, Machine, Model, Simulation};

    fn run(text: &str) -> crate::Report {
        let machine: Machine = "llc:2 l2:4".parse().unwrap();
        let rpc: Rpc = text.parse().unwrap();
        let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, rpc, 1);
        simulation.unwrap().run(Nanos::from_millis(2))
    }

    #[test]
    fn every_pair_gets_on() {
        for text in [
            "pairs=1",
            "pairs=3,think=1000,work=1000",
            "pairs=20,pipe=1",
            "pairs=2,table=2",
        ] {
            let report = run(text);
            assert!(report.done > 20 && report.stalled == 0, "{text}: {} done", report.done);
            assert_eq!(report.samples.count(), report.done, "{text}");
        }
    }

    #[test]
    fn work_takes_its_time() {
        let report = run("pairs=1,work=10000");
        assert!(
            report.samples.quantile(0.0) >= Nanos(9_500),
            "{:?}",
            report.samples.quantile(0.0)
        );
    }

    #[test]
    fn texts_round_trip_and_errors_are_one_line() {
        for text in [
            "pairs=1,think=0,work=0,table=1,pipe=0",
            "pairs=7,think=1,work=2,table=2,pipe=1",
        ] {
            assert_eq!(text.parse::<Rpc>().unwrap().to_string(), text);
        }
        for (text, expected) in [
            ("pairs=0", "from 1 to 65536"),
            ("x=1", "pairs, think"),
            ("table=3", "1 or 2"),
        ] {
            let message = text.parse::<Rpc>().unwrap_err();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
    }
}
