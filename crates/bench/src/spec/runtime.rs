//! The runtimes by their names.

use clap::ValueEnum;
use quadrille::policy::Config;

/// The runtimes that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeName {
    /// quadrille as it comes.
    Quadrille,
    /// quadrille with one worker.
    #[value(name = "quadrille-1w")]
    Quadrille1w,
    /// quadrille with every policy off: plain work stealing.
    QuadrilleBaseline,
    /// quadrille in a program with mimalloc.
    QuadrilleMimalloc,
    /// quadrille, its servers of TCP by io_uring.
    QuadrilleUring,
    /// tokio's multi-threaded runtime; the base of the ratios of workloads of tasks.
    Tokio,
    /// tokio with one worker.
    #[value(name = "tokio-1w")]
    Tokio1w,
    /// tokio in a program with mimalloc.
    TokioMimalloc,
    /// smol's executor (async-executor), run by one thread a worker.
    Smol,
    /// smol's executor, run by one thread.
    #[value(name = "smol-1w")]
    Smol1w,
    /// A Go program; needs `go` when it is first used; the base of the ratios of workloads of threads.
    Go,
    /// The Go program with GOMAXPROCS=1.
    #[value(name = "go-1w")]
    Go1w,
    /// may's stackful coroutines: workloads of threads only.
    May,
    /// One operating-system thread a task.
    Threads,
    /// hackbench(8) of rt-tests: the kernel's scheduler, processes or threads of its own; the workload of that name
    /// alone.
    Hackbench,
    /// The bare work in one thread, without a runtime: the floor.
    None,
}

/// The program behind a [`RuntimeName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The runtime of this workspace.
    Quadrille,
    /// tokio.
    Tokio,
    /// async-executor.
    Smol,
    /// The Go program.
    Go,
    /// may.
    May,
    /// `std::thread`.
    Threads,
    /// hackbench(8).
    Hackbench,
    /// No runtime.
    None,
}

impl RuntimeName {
    /// The program that runs it.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Quadrille
            | Self::Quadrille1w
            | Self::QuadrilleBaseline
            | Self::QuadrilleMimalloc
            | Self::QuadrilleUring => Family::Quadrille,
            Self::Tokio | Self::Tokio1w | Self::TokioMimalloc => Family::Tokio,
            Self::Smol | Self::Smol1w => Family::Smol,
            Self::Go | Self::Go1w => Family::Go,
            Self::May => Family::May,
            Self::Threads => Family::Threads,
            Self::Hackbench => Family::Hackbench,
            Self::None => Family::None,
        }
    }

    /// The number of workers it gets when `workers` were asked for: one for the `-1w` names.
    #[must_use]
    pub fn workers(self, workers: usize) -> usize {
        match self {
            Self::Quadrille1w | Self::Tokio1w | Self::Smol1w | Self::Go1w | Self::None => 1,
            _ => workers,
        }
    }

    /// The policies that belong to the name; `None` leaves them open.
    #[must_use]
    pub fn config(self) -> Option<Config> {
        (self == Self::QuadrilleBaseline).then(Config::baseline)
    }

    /// Whether it runs in the program with mimalloc.
    #[must_use]
    pub fn uses_mimalloc(self) -> bool {
        matches!(self, Self::QuadrilleMimalloc | Self::TokioMimalloc)
    }

    /// The name as it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quadrille => "quadrille",
            Self::Quadrille1w => "quadrille-1w",
            Self::QuadrilleBaseline => "quadrille-baseline",
            Self::QuadrilleMimalloc => "quadrille-mimalloc",
            Self::QuadrilleUring => "quadrille-uring",
            Self::TokioMimalloc => "tokio-mimalloc",
            Self::Tokio => "tokio",
            Self::Tokio1w => "tokio-1w",
            Self::Smol => "smol",
            Self::Smol1w => "smol-1w",
            Self::Go => "go",
            Self::Go1w => "go-1w",
            Self::May => "may",
            Self::Threads => "threads",
            Self::Hackbench => "hackbench",
            Self::None => "none",
        }
    }
}
