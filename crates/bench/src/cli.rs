//! The command line of `quadrille`; what is wrong with it ends the program with status 2 and a line that says what.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Parser, Subcommand, ValueEnum as _};
use quadrille::policy::GROUP_LEN_MAX;
use quadrille_sim::reproduce::published::{self, Figure};
use quadrille_sim::{Config, Cost, Machine, Model, Nanos};
use quadrille_topology::{GroupSize, Topology};

use crate::catalogue::WorkloadName;
use crate::spec::{Body, Contenders, Hackbench, RuntimeName, Transport};

/// Bytes that one receiver's channel holds unless told otherwise: what the kernel gives a pipe.
const RING_BYTES: usize = 65_536;

/// Run scheduler benchmarks on quadrille and its peers.
#[derive(Debug, Parser)]
#[command(name = "quadrille", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Groups of senders and receivers, as the program of that name: one run on each runtime.
    Hackbench(HackbenchArgs),
    /// Repeat workloads on several runtimes, interleaved, and print medians and ratios to tokio, of threads to Go.
    Compare(CompareArgs),
    /// Show this machine, or a synthetic one, as the scheduler sees it: nodes, LLCs, groups, cores, hardware threads.
    Topology(TopologyArgs),
    /// Simulate a workload on a machine of any size, with the scheduler's own policies.
    Sim(Box<SimArgs>),
    /// Measure what things cost on this machine, in the form that the simulator's costs have.
    Calibrate(CalibrateArgs),
    /// Break connections to servers on quadrille off in every way, and look whether anything is left of them.
    Faults(FaultsArgs),
    /// Break connections to servers off, as told by their process; what `faults` starts.
    #[command(name = "fault-load", hide = true)]
    FaultLoad {
        /// What to do where, as JSON.
        order: String,
    },
    /// Load a server, as told by its process; what the runs of servers start.
    #[command(hide = true)]
    Generate {
        /// What to send where, as JSON.
        order: String,
    },
    /// Print what tells builds of this program apart; what `compare` asks the one with mimalloc.
    #[command(name = "build-stamp", hide = true)]
    BuildStamp,
    /// Do one run in this process and print its outcome as JSON; what the other commands start.
    #[command(name = "run-one", hide = true)]
    RunOne {
        /// The run, as JSON.
        spec: String,
    },
}

/// Flags of `hackbench`; the short ones are those of the program.
#[derive(Debug, Args)]
pub struct HackbenchArgs {
    /// Groups
    #[arg(short, long, default_value_t = 10, value_parser = positive)]
    pub groups: usize,
    /// Senders, and receivers, in a group
    #[arg(short, long, default_value_t = 20, value_parser = positive)]
    pub fds: usize,
    /// Messages from each sender to each receiver of its group
    #[arg(short, long, default_value_t = 1000, value_parser = positive)]
    pub loops: usize,
    /// Bytes of a message; over channels one of 4, 16, 64, 100, 256, 1024, 4096
    #[arg(short = 's', long, default_value_t = 100, value_parser = positive)]
    pub size: usize,
    /// Senders and receivers are tasks, on `threads` a thread each; the default
    #[arg(long, group = "body")]
    pub tasks: bool,
    /// Senders and receivers are threads that wait, user-level ones on quadrille; channels are each runtime's own
    #[arg(short = 'T', long, group = "body")]
    pub threads: bool,
    /// Send through bounded channels in this process; the default
    #[arg(long, group = "transport")]
    pub channel: bool,
    /// Send through pipes
    #[arg(short, long, group = "transport")]
    pub pipe: bool,
    /// Send through pairs of AF_UNIX stream sockets
    #[arg(long, group = "transport")]
    pub socket: bool,
    /// Messages that a channel holds [default: as many as fit into 64 KiB]
    #[arg(long, value_parser = positive)]
    pub capacity: Option<usize>,
    /// Use each runtime's own channel instead of async-channel
    #[arg(long)]
    pub own_channel: bool,
    /// Who runs it, separated by commas, as in --runtimes of `compare`; may be repeated
    #[arg(long = "runtime", value_name = CONTENDERS, value_parser = ContendersParser, default_value = "quadrille")]
    pub runtimes: Vec<Contenders>,
    /// Worker threads [default: hardware threads this process may use]
    #[arg(long, value_parser = positive)]
    pub workers: Option<usize>,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What to run [default: hackbench spawn_join yield ping_pong spawn_remote]
    #[arg(value_enum)]
    pub workloads: Vec<WorkloadName>,
    /// Who runs it, separated by commas [default: quadrille,tokio,smol,go,threads, none where one thread can do it
    /// alone, and tokio-mimalloc where much is allocated; of thread workloads quadrille,go,may,threads; hackbench(8)
    /// where hackbench uses pipes and sockets]
    ///
    /// quadrille, quadrille-1w, quadrille-mimalloc and quadrille-uring take policies behind a colon, with the text of
    /// QUADRILLE_POLICY, and are a runtime of their own with each:
    /// quadrille,quadrille:groups=off,quadrille-1w:groups=on,filter=on,tokio are four. Those without get the policies
    /// of QUADRILLE_POLICY, if it is set, and are called so
    #[arg(long, value_name = CONTENDERS, value_parser = ContendersParser)]
    pub runtimes: Vec<Contenders>,
    /// Repetitions of each row [default: 7, of fairness 10]
    #[arg(long, value_parser = positive)]
    pub reps: Option<usize>,
    /// Worker threads [default: hardware threads this process may use]
    #[arg(long, value_parser = positive)]
    pub workers: Option<usize>,
    /// About a sixth of the work, or less, for a first look; the spins of `fairness` stay as long as they are
    #[arg(long)]
    pub quick: bool,
    /// Seconds after which a run counts as hanging
    #[arg(long, default_value_t = 120, value_parser = positive)]
    pub time_limit: usize,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the results to this file, as a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Flags of `topology`.
#[derive(Debug, Args)]
pub struct TopologyArgs {
    /// A machine in words, such as "node:2 llc:4 core:8 pu:2", instead of this one
    #[arg(long, value_name = "MACHINE", conflicts_with = "root")]
    pub synthetic: Option<Topology>,
    /// A copy of another machine's root directory (with /sys and /proc/self) instead of this one's; what the process in
    /// that /proc/self may use is shown, or all CPUs that are online if its mask is not there
    #[arg(long, value_name = "DIRECTORY")]
    pub root: Option<PathBuf>,
    /// Hardware threads in a group: `l2` (those that share one, or a small LLC, at most 4), or a number for experiments
    #[arg(long, value_name = "SIZE", default_value = "l2", value_parser = group_size)]
    pub group_size: GroupSize,
    /// Put small neighbouring L2s of one LLC into one group, up to 4 hardware threads
    #[arg(long)]
    pub merge_small_l2: bool,
    /// Also draw it into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Flags of `sim`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    /// What to do other than one run.
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    /// The machine: epyc-9654-2s, spr-2s, xeon-8260-2s, milan-2s, milan-ccx-4n, kunpeng-4n, ecore, host, or a string
    /// such as "node:2 llc:4 core:8 pu:2"
    #[arg(long, value_name = "MACHINE", default_value = "host")]
    pub machine: Machine,
    /// What runs on it: a name and parameters, such as hackbench:g=32,f=20,via=pipe
    #[arg(long, value_name = "NAME[:PARAMETERS]", default_value = "hackbench")]
    pub workload: String,
    /// Whose scheduler: shipped (quadrille's), shipped-scan (it without idle masks), kernel (one locked queue a CPU),
    /// kernel-scattered:N (with units of N CPUs all over the machine), or kernel with another rule: kernel-fits,
    /// kernel-previous, kernel-fits-previous, kernel-prop, kernel-clusters
    #[arg(long, default_value_t)]
    pub model: Model,
    /// The policies, as in QUADRILLE_POLICY
    #[arg(long, value_name = "NAME=VALUE,...", default_value_t)]
    pub policy: Config,
    /// Costs that differ from the default ones
    #[arg(long, value_name = "NAME=NS,...", default_value_t)]
    pub cost: Cost,
    /// Decides all that is random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Simulated time after which a workload that has not ended is stopped
    #[arg(long = "for", value_name = "TIME", default_value = "100ms")]
    pub limit: Nanos,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write everything that happened to this file, a line an event
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// The commands of `sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Hold simulated curves against published ones.
    Report(SimReportArgs),
}

/// Flags of `sim report`.
#[derive(Debug, Args)]
pub struct SimReportArgs {
    /// Rows of the report, A to T [default: all]
    #[arg(value_name = "ROW", value_parser = figure)]
    pub rows: Vec<&'static Figure>,
    /// Also draw each row into this directory, simulated beside published
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Also write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// An eighth of the simulated time, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Fail, and say for which rows, if claims are met that are known to be missed, or the reverse, or if curves have
    /// other values than those that are known
    #[arg(long, conflicts_with_all = ["quick", "cost"])]
    pub check: bool,
    /// Costs other than the default ones, name=ns,…, as `calibrate` prints them
    #[arg(long, value_name = "COSTS")]
    pub cost: Option<Cost>,
}

fn figure(name: &str) -> Result<&'static Figure, String> {
    published::figure(name).ok_or_else(|| {
        let rows: Vec<&str> = published::figures().iter().map(|figure| figure.row).collect();
        format!("expected one of {}", rows.join(" "))
    })
}

/// Flags of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Short runs, for a first look: the figures are rough, and there are none of memory beside large caches
    #[arg(long)]
    pub quick: bool,
    /// Also write the line for the simulator to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Flags of `faults`.
#[derive(Debug, Args)]
pub struct FaultsArgs {
    /// For how long connections come
    #[arg(long, default_value_t = 60, value_parser = positive)]
    pub seconds: usize,
    /// Connections at a time
    #[arg(long, default_value_t = 256, value_parser = positive)]
    pub connections: usize,
    /// Decides what each connection does
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Worker threads of the servers [default: hardware threads this process may use]
    #[arg(long, value_parser = positive)]
    pub workers: Option<usize>,
}

impl HackbenchArgs {
    /// What senders and receivers are.
    #[must_use]
    pub fn body(&self) -> Body {
        if self.threads { Body::Threads } else { Body::Tasks }
    }

    /// Checks what single flags cannot, and returns the parameters.
    ///
    /// # Errors
    /// One line about the combination that cannot be run.
    pub fn params(&self) -> Result<Hackbench, String> {
        let transport = match (self.pipe, self.socket) {
            (true, _) => Transport::Pipe,
            (_, true) => Transport::Socket,
            _ => Transport::Channel,
        };
        let capacity = self.capacity.unwrap_or((RING_BYTES / self.size).max(1));
        let Self {
            groups,
            fds,
            loops,
            size,
            ..
        } = *self;
        if transport != Transport::Channel && (self.capacity.is_some() || self.own_channel) {
            return Err("--capacity and --own-channel are about channels: they exclude --pipe and --socket".to_owned());
        }
        let params = Hackbench {
            groups,
            fds,
            loops,
            size,
            capacity,
            transport,
        };
        params.check().map(|()| params)
    }
}

/// The number of workers if none is given: as many as hardware threads may be used, which respects affinity and quotas.
#[must_use]
pub fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What one flag with runtimes takes.
const CONTENDERS: &str = "RUNTIME[:POLICY],...";

/// Reads [`Contenders`], and lists the names for the help.
#[derive(Clone, Copy, Debug)]
struct ContendersParser;

impl TypedValueParser for ContendersParser {
    type Value = Contenders;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<Contenders, clap::Error> {
        let read = |text: &str| text.parse::<Contenders>();
        TypedValueParser::parse_ref(&read, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = RuntimeName::value_variants().iter();
        Some(Box::new(names.filter_map(RuntimeName::to_possible_value)))
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// One that the scheduler takes.
fn group_size(text: &str) -> Result<GroupSize, String> {
    match text.parse() {
        Ok(GroupSize::Fixed(len)) if len > GROUP_LEN_MAX => {
            Err(format!("{len} hardware threads, expected 1 to {GROUP_LEN_MAX}"))
        }
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn hackbench(flags: &[&str]) -> HackbenchArgs {
        let args = ["quadrille", "hackbench"].iter().chain(flags);
        match Cli::try_parse_from(args).unwrap().command {
            Command::Hackbench(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn check_refused(flags: &[&str], expected: &str) {
        let message = hackbench(flags).params().unwrap_err();
        assert!(message.contains(expected), "{flags:?}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_hackbench_in_process() {
        let params = hackbench(&[]).params().unwrap();
        let expected = Hackbench {
            groups: 10,
            fds: 20,
            loops: 1000,
            size: 100,
            capacity: 655,
            transport: Transport::Channel,
        };
        assert_eq!(params, expected);
    }

    #[test]
    fn impossible_sizes_are_refused_in_one_line() {
        check_refused(&["-s", "99"], "not 99");
        check_refused(&["-g", "100000", "-f", "100000"], "tasks");
        check_refused(&["-l", "18446744073709551615"], "messages than can be counted");
        check_refused(&["--capacity", "1000000000"], "8 GiB");
        check_refused(&["--pipe", "--capacity", "3"], "exclude --pipe");
    }

    #[test]
    fn tasks_are_the_default() {
        assert_eq!(hackbench(&[]).body(), Body::Tasks);
        assert_eq!(hackbench(&["--tasks", "--pipe"]).body(), Body::Tasks);
        for transport in ["--channel", "--pipe", "--socket"] {
            assert_eq!(hackbench(&["--threads", transport]).body(), Body::Threads);
        }
    }

    #[test]
    fn pipes_take_any_size() {
        let params = hackbench(&["--pipe", "-s", "99"]).params().unwrap();
        assert_eq!((params.size, params.transport), (99, Transport::Pipe));
    }

    #[test]
    fn wrong_flags_are_usage_errors() {
        for flags in [
            &["hackbench", "-g", "0"][..],
            &["hackbench", "-g", "-1"],
            &["hackbench", "--pipe", "--socket"],
            &["hackbench", "--threads", "--tasks"],
            &["hackbench", "--runtime", "tokyo"],
            &["compare", "hackbanch"],
            &["compare", "--runtimes", "tokio,nothing"],
            &["compare", "--runtimes", "quadrille:grop=4"],
            &["compare", "--reps", "many"],
            &["topology", "--synthetic", "node:0"],
            &["topology", "--group-size", "0"],
            &["sim", "--machine", "epyk"],
            &["sim", "--model", "linux"],
            &["sim", "--policy", "grop=4"],
            &["sim", "--cost", "pol=4"],
            &["sim", "--for", "1"],
            &["dance"],
            &[],
        ] {
            let error = Cli::try_parse_from(["quadrille"].iter().chain(flags)).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{flags:?}");
        }
    }
}
