//! `cargo xtask emulate --check`: what must hold on every machine.
//!
//! | step | holds if |
//! |---|---|
//! | topology | `quadrille topology` and hwloc, asked side by side, see the same machine |
//! | workers | strict pinning puts every worker on the CPU of its plan, none starves (`crates/runtime/tests/machine.rs`) |
//! | hackbench | it completes over channels, pipes and sockets, every message counted |
//! | moves | with the policies tasks move less between LLCs, and between nodes, for a message than without, at 1 and 4 groups; at 4 they do move without |
//! | behaviour | the behaviour tests of the runtime pass; on the largest machine alone |
//!
//! All steps of a machine run in one guest, one after the other; the quick check runs `topology` and `hackbench`. The
//! runs with and without policies are interleaved and added up: single ones differ by more than the policies do.

use super::machine::{MACHINES, Machine};
use super::moves::{Moves, compare};
use super::shape::Shape;
use super::{Emulator, Job, programs};
use crate::failure::{Failure, Outcome};
use crate::process::{self, TestCounts};

/// Begins the lines that frame a step: a byte that text does not have.
const MARK: &str = "\u{1d}";

/// Senders, and receivers, of a group of hackbench.
const FDS: u64 = 20;

/// Loops of the runs that only have to complete.
const LOOPS: u64 = 20;

/// Groups for which moves are compared, and the loops that make the runs about equally long.
const MOVES: [(u64, u64); 2] = [(1, 200), (4, 50)];

/// With so many groups tasks move without policies, wherever they can; one group may stay in one LLC.
const MOVING_GROUPS_MIN: u64 = 4;

/// With policies and without. Their constants in time are a thousand times the defaults, or as much as is allowed: a
/// processor of the guest stands still that much longer than a real one, while its clock goes on. With the defaults
/// every task waits for longer than every limit after which a policy gives way, and what is compared is giving way.
const POLICIES: [(&str, &str); 2] = [
    (
        "on",
        "default,rescue-llc=50ms,rescue-any=200ms,skip-age=200ms,cap-window=1s,cap-stalled-home=100ms,\
         numa-steal-after=50ms,sets-steal-after=20ms,filter-sample=1s,publish-delay=1ms,lazy-interval=1s,move-cost=250us,\
         steal-pause=1s,short-busy=200ms,sentinel=500ms",
    ),
    ("off", "baseline,sentinel=500ms"),
];

/// Runs of each kind that are added up.
const REPETITIONS: usize = 3;

/// A machine with at least so many hardware threads runs the behaviour tests.
const BEHAVIOUR_CPUS_MIN: u32 = 32;

/// How many times longer than usual the behaviour tests wait before they call something hung: a processor of the guest
/// may stand still for seconds.
const PATIENCE: u32 = 20;

/// A command, and what it came to.
#[derive(Debug)]
struct Step {
    name: String,
    command: String,
    output: String,
    status: Option<u8>,
}

impl Step {
    fn new(name: &str, command: String) -> Self {
        Self {
            name: name.to_owned(),
            command,
            output: String::new(),
            status: None,
        }
    }

    fn hackbench(name: &str, environment: &str, flags: &str) -> Self {
        Self::new(name, format!("{environment} quadrille hackbench --fds {FDS} {flags}"))
    }

    /// The output of a step that went well.
    fn succeeded(&self) -> Result<&str, String> {
        match self.status {
            Some(0) => Ok(&self.output),
            Some(status) => Err(format!(
                "`{}` ended with status {status}:\n{}",
                self.command.trim(),
                self.output
            )),
            None => Err(format!("`{}` did not run", self.command.trim())),
        }
    }
}

/// What was found out about one machine: a line each for what holds and what does not.
type Verdict = Result<String, String>;

/// Checks `machines`, or all there are.
pub(crate) fn run(emulator: &Emulator, machines: &[&'static Machine], quick: bool) -> Outcome {
    let all: Vec<&Machine> = MACHINES.iter().collect();
    let machines = if machines.is_empty() { &all[..] } else { machines };
    let programs = if quick { Vec::new() } else { test_programs()? };
    let mut failed = 0;
    for machine in machines {
        let (steps, files) = steps(machine, quick, &programs);
        let steps = run_steps(emulator, machine, steps, files)?;
        for (what, verdict) in judge(machine, &steps, quick) {
            match verdict {
                Ok(line) => println!("{} {what}: ok, {line}", machine.name),
                Err(line) => {
                    failed += 1;
                    println!("{} {what}: FAILED, {line}", machine.name);
                }
            }
        }
    }
    match failed {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} checks failed on emulated machines"))),
    }
}

/// The test programs, by path: `machine` and `behaviour`.
fn test_programs() -> Outcome<Vec<String>> {
    ["machine", "behaviour"]
        .into_iter()
        .map(|name| {
            // All packages are named, so that the build is that of `cargo test --workspace`.
            let path = process::build_unit_tests(process::cargo(["test", "--workspace", "--test", name]))?;
            Ok(path.to_string_lossy().into_owned())
        })
        .collect()
}

/// The steps for a machine, and the files they need.
fn steps(machine: &Machine, quick: bool, programs: &[String]) -> (Vec<Step>, Vec<String>) {
    let mut steps = vec![
        Step::new("topology", format!("{} topology", programs::QUADRILLE)),
        Step::new("hwloc", format!("{} --restrict binding --of xml", programs::LSTOPO)),
    ];
    for transport in ["--channel", "--pipe", "--socket"] {
        steps.push(Step::hackbench(
            "hackbench",
            "",
            &format!("-g 1 -l {LOOPS} {transport}"),
        ));
    }
    let mut files = Vec::new();
    if let (false, [workers, behaviour]) = (quick, programs) {
        // One after the other: so many test threads, each with runtimes of many workers, would only wait for each
        // other.
        let test = |program: &str| format!("QUADRILLE_TEST_PATIENCE={PATIENCE} {program} --test-threads 1");
        steps.push(Step::new("workers", test(workers)));
        files.push(workers.clone());
        for (groups, loops) in MOVES {
            for (name, policy) in POLICIES.repeat(REPETITIONS) {
                let environment = format!("QUADRILLE_POLICY={policy}");
                let flags = format!("-g {groups} -l {loops}");
                steps.push(Step::hackbench(&format!("moves-{groups}-{name}"), &environment, &flags));
            }
        }
        if machine.cpus() >= BEHAVIOUR_CPUS_MIN {
            steps.push(Step::new("behaviour", test(behaviour)));
            files.push(behaviour.clone());
        }
    }
    (steps, files)
}

/// Runs the steps in one guest.
fn run_steps(emulator: &Emulator, machine: &Machine, mut steps: Vec<Step>, files: Vec<String>) -> Outcome<Vec<Step>> {
    let script: String = steps
        .iter()
        .map(|step| format!("echo '{MARK}begin'\n{}\necho \"{MARK}end $?\"\n", step.command))
        .collect();
    let job = Job {
        command: ["sh", "-c", &script].map(str::to_owned).into(),
        added: files.into_iter().map(Into::into).collect(),
        environment: Vec::new(),
    };
    println!("{}: {}", machine.name, machine.about);
    let mut at = 0;
    emulator.run(machine, &job, &mut |line| {
        let Some(step) = steps.get_mut(at) else {
            return;
        };
        match line.strip_prefix(MARK) {
            Some("begin") => println!("  {}", step.command.trim()),
            Some(mark) => {
                step.status = mark.strip_prefix("end ").and_then(|status| status.parse().ok());
                at += 1;
            }
            None => {
                if line.starts_with("test ") {
                    // A step of hundreds of tests takes long: what hangs shall not look like work.
                    println!("    {line}");
                }
                step.output.push_str(line);
                step.output.push('\n');
            }
        }
    })?;
    Ok(steps)
}

/// The verdicts on a machine, by what they are about.
fn judge(machine: &Machine, steps: &[Step], quick: bool) -> Vec<(String, Verdict)> {
    let named = |name: &str| steps.iter().filter(move |step| step.name == name).collect::<Vec<_>>();
    let mut verdicts = vec![
        ("topology".to_owned(), topology(steps)),
        ("hackbench".to_owned(), hackbench(&named("hackbench"))),
    ];
    if quick {
        return verdicts;
    }
    verdicts.push(("workers".to_owned(), passed(&named("workers"))));
    for (groups, loops) in MOVES {
        let messages = groups * FDS * FDS * loops;
        let on = moves(&named(&format!("moves-{groups}-on")), messages);
        let off = moves(&named(&format!("moves-{groups}-off")), messages);
        let must = machine.far.filter(|_| groups >= MOVING_GROUPS_MIN);
        let verdict = on.and_then(|on| compare(&on, &off?, must));
        verdicts.push((format!("moves at {groups} groups"), verdict));
    }
    if machine.cpus() >= BEHAVIOUR_CPUS_MIN {
        verdicts.push(("behaviour".to_owned(), passed(&named("behaviour"))));
    }
    verdicts
}

fn topology(steps: &[Step]) -> Verdict {
    let output = |name: &str| {
        let step = steps.iter().find(|step| step.name == name);
        step.ok_or_else(|| format!("no step {name}"))?.succeeded()
    };
    let ours = Shape::from_quadrille(output("topology")?)?;
    let hwlocs = Shape::from_hwloc(output("hwloc")?)?;
    match ours.difference(&hwlocs) {
        None => Ok(format!("as hwloc: {ours}")),
        Some(difference) => Err(difference),
    }
}

fn hackbench(steps: &[&Step]) -> Verdict {
    let sum = moves(steps, FDS * FDS * LOOPS)?;
    Ok(format!("{} messages over channels, pipes and sockets", sum.messages))
}

/// Runs of hackbench with so many messages each, added up.
fn moves(steps: &[&Step], messages: u64) -> Result<Moves, String> {
    if steps.is_empty() {
        return Err("hackbench was not run".to_owned());
    }
    let mut sum = Moves::default();
    for step in steps {
        sum.add(Moves::from_hackbench(step.succeeded()?, messages)?);
    }
    Ok(sum)
}

fn passed(steps: &[&Step]) -> Verdict {
    let mut counts = TestCounts::default();
    for step in steps {
        step.succeeded()?.lines().for_each(|line| counts.add_line(line));
    }
    if counts.passed == 0 {
        return Err("no test ran".to_owned());
    }
    Ok(format!("{} tests passed", counts.passed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::machine::find;

    fn programs() -> Vec<String> {
        vec!["/deps/machine-1".to_owned(), "/deps/behaviour-2".to_owned()]
    }

    #[test]
    fn the_largest_machine_alone_runs_the_behaviour_tests() {
        let has = |name: &str, quick: bool| {
            let (steps, files) = steps(find(name).expect("it is there"), quick, &programs());
            assert_eq!(
                files.len(),
                steps.iter().filter(|step| step.command.contains("/deps/")).count()
            );
            steps.iter().any(|step| step.name == "behaviour")
        };
        assert!(has("node4-smt2", false));
        assert!(!has("node4-smt2", true));
        assert!(!has("node2", false));
    }

    #[test]
    fn a_step_that_did_not_run_or_failed_is_no_success() {
        let (mut steps, _) = steps(find("up").expect("it is there"), false, &programs());
        let count = judge(find("up").expect("it is there"), &steps, false);
        assert!(count.iter().all(|(_, verdict)| verdict.is_err()), "{count:?}");
        for step in &mut steps {
            step.status = Some(0);
            step.output = "test result: ok. 2 passed; 0 failed\n".to_owned();
        }
        let verdicts = judge(find("up").expect("it is there"), &steps, false);
        let holds: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.is_ok()).collect();
        assert_eq!(holds, [&("workers".to_owned(), Ok("2 tests passed".to_owned()))]);
        steps[0].status = Some(1);
        let text = steps[0].succeeded().expect_err("it failed");
        assert!(
            text.starts_with("`quadrille topology` ended with status 1:\n"),
            "{text}"
        );
    }
}
