//! `cargo xtask emulate`: a command on a machine that is not here.
//!
//! A real kernel boots on an emulated machine of another shape: several nodes, LLCs and hardware threads a core, holes
//! in the cpuset, a CPU quota, processors offline. Its sysfs, affinity calls, nodes and cgroups are real, so what
//! discovery, pinning and the policies do there is what they would do; its *times* mean nothing, because the host's few
//! processors take turns at being the guest's many.
//!
//! ```text
//! packages   kernel, busybox, hwloc: downloaded once, unpacked, not installed
//! programs   quadrille, programs of the host by path, their libraries         -> archive (the guest's files)
//! machine    the table of shapes                                              -> boot    (qemu)
//! guest      the script that sets up, runs the command, reports its status
//! check      what must hold on each machine: `--check`; reads it with `shape` (topologies) and `moves` (counters)
//! ```
//!
//! Everything is below `target/emulate`. Only qemu has to be installed.

mod archive;
mod boot;
mod check;
mod guest;
mod machine;
mod moves;
mod packages;
mod programs;
mod shape;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::Archive;
use boot::Boot;
use machine::Machine;
use packages::{Packages, cannot};

use crate::failure::{Failure, Outcome};
use crate::options::Options;
use crate::workspace;

/// Seconds that a machine may take, from its start on, unless `--seconds` says otherwise; and with all checks.
const SECONDS_DEFAULT: u64 = 600;
const SECONDS_CHECK: u64 = 3600;

/// Runs one command on one machine, or the checks.
pub(crate) fn run(options: &Options) -> Outcome {
    if options.flag("--list") {
        options.finish()?;
        print!("{}", machine::list());
        return Ok(());
    }
    let machines = options
        .values::<String>("--machine")?
        .iter()
        .map(|name| machine::find(name))
        .collect::<Outcome<Vec<_>>>()?;
    let seconds = options.value("--seconds")?;
    let release = options.flag("--release");
    let added = options.values::<PathBuf>("--add")?;
    let (check, quick) = (options.flag("--check"), options.flag("--quick"));
    let command = options.trailing();
    options.finish()?;
    let usual = if check && !quick {
        SECONDS_CHECK
    } else {
        SECONDS_DEFAULT
    };
    let limit = Duration::from_secs(seconds.unwrap_or(usual));
    if check {
        if !command.is_empty() || !added.is_empty() {
            return Err(Failure::usage("--check takes no command and no files"));
        }
        return check::run(&Emulator::new(release, limit)?, &machines, quick);
    }
    if quick {
        return Err(Failure::usage("--quick goes with --check"));
    }
    let [machine] = machines[..] else {
        return Err(Failure::usage("one --machine is needed; --list names them"));
    };
    if command.is_empty() {
        return Err(Failure::usage("no command: it follows `--`"));
    }
    let emulator = Emulator::new(release, limit)?;
    let job = Job {
        command,
        added,
        environment: inherited(),
    };
    match emulator.run(machine, &job, &mut |line| println!("{line}"))? {
        0 => Ok(()),
        status => Err(Failure::new(format!("the command ended with status {status}")).with_exit_status(status)),
    }
}

/// The variables that go into the guest: those of quadrille and of Rust.
fn inherited() -> Vec<(String, String)> {
    std::env::vars()
        .filter(|(name, _)| name.starts_with("QUADRILLE_") || name.starts_with("RUST_"))
        .collect()
}

/// A command, and what it needs.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// A program of the guest's, or a path of the host's, and its arguments.
    pub(crate) command: Vec<String>,
    /// More files of the host.
    pub(crate) added: Vec<PathBuf>,
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
}

/// What all machines have in common.
#[derive(Debug)]
pub(crate) struct Emulator {
    packages: Packages,
    folder: PathBuf,
    release: bool,
    limit: Duration,
}

impl Emulator {
    /// # Errors
    /// If there is no emulator here.
    pub(crate) fn new(release: bool, limit: Duration) -> Outcome<Self> {
        boot::check_host()?;
        let folder = workspace::target_dir("emulate");
        Ok(Self {
            packages: Packages::at(folder.join("packages"))?,
            folder,
            release,
            limit,
        })
    }

    /// Runs a job on a machine of its own and returns its exit status.
    ///
    /// # Errors
    /// If the machine cannot be built, or does not run the job to its end in time.
    pub(crate) fn run(&self, machine: &Machine, job: &Job, on_line: &mut dyn FnMut(&str)) -> Outcome<u8> {
        let kernel = self.packages.kernel()?;
        let archive = self.files(machine, job)?;
        let logs = self.folder.join(format!("run-{}", std::process::id()));
        let initrd = logs.join("initrd");
        fs::create_dir_all(&logs)
            .and_then(|()| File::create(&initrd))
            .and_then(|file| archive.write_to(file))
            .map_err(|error| cannot("write", &initrd, &error))?;
        let boot = Boot {
            machine,
            kernel,
            initrd,
            logs: &logs,
            limit: self.limit,
        };
        let status = boot.run(on_line);
        // What cannot be removed lies below the target directory, in nobody's way.
        let _ = fs::remove_dir_all(&logs);
        status
    }

    /// The first file system of the guest.
    fn files(&self, machine: &Machine, job: &Job) -> Outcome<Archive> {
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "tmp"] {
            archive.folder(folder);
        }
        archive.device("dev/console", 5, 1);
        programs::add_busybox(&mut archive, &self.packages)?;
        let mut command = job.command.clone();
        match command.first_mut() {
            Some(program) if program.contains('/') => {
                *program = programs::add_host_file(&mut archive, Path::new(program))?;
            }
            _ => {
                programs::add_quadrille(&mut archive, self.release)?;
                programs::add_lstopo(&mut archive, &self.packages)?;
            }
        }
        for file in &job.added {
            programs::add_host_file(&mut archive, file)?;
        }
        let script = guest::init(machine, &command, &job.environment, self.limit);
        archive.program("init", script.as_bytes());
        Ok(archive)
    }
}
