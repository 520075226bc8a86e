//! Which hardware threads a worker may run on, and why: a decision of its own, made once at start.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Policy;
use quadrille_topology::{PuSet, Topology};

/// How workers are bound to hardware threads.
///
/// A thread that somebody starts on a worker by himself, as by `std::thread::spawn` or in a pool of rayon's, inherits
/// the worker's hardware threads, and `std::thread::available_parallelism` counts those. Where workers are pinned start
/// it outside, or in [`spawn_blocking`](crate::spawn_blocking), whose threads may use all; so may processes that are
/// started by [`process`](crate::process), and runtimes that are built on a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pinning {
    /// One worker a hardware thread, each pinned to its own, if there are more than four (`pin-few`), as many as
    /// hardware threads allowed, no CPU quota, and wake-ups are queued in groups, whose members share a part of their
    /// LLC. Else each worker may use its LLC: without groups nothing depends on where behind it a worker runs, and the
    /// kernel can make room for other programs; of few workers those that mostly sleep pay more for a CPU of their own
    /// than they gain. The default.
    ///
    /// With fewer workers than hardware threads the fewest LLCs that hold them are used, beginning with that on which
    /// the runtime is built. Otherwise several programs on one machine, such as containers with a quota and no cpuset,
    /// would all use the first.
    ///
    /// A worker that in about a second was ready for more than a tenth of the time without running
    /// (`WorkerMetrics::pin_fallbacks`) may use its LLC from then on if it was pinned to its own hardware thread, and
    /// every allowed hardware thread if there are fewer workers than those. Waiting for a quota's next period counts.
    #[default]
    Auto,
    /// Each worker is pinned to its hardware thread, whatever the quota; an error if there are more workers than
    /// hardware threads.
    Strict,
    /// Each worker may use the hardware threads of its LLC.
    Llc,
    /// Workers are left where the kernel puts them.
    None,
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Strict => "strict",
            Self::Llc => "llc",
            Self::None => "none",
        })
    }
}

/// A word that names no kind of pinning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinningError(String);

impl fmt::Display for PinningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pinning is {:?}, expected auto, strict, llc or none", self.0)
    }
}

impl std::error::Error for PinningError {}

impl FromStr for Pinning {
    type Err = PinningError;

    fn from_str(text: &str) -> Result<Self, PinningError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "strict" => Ok(Self::Strict),
            "llc" => Ok(Self::Llc),
            "none" => Ok(Self::None),
            _ => Err(PinningError(text.to_owned())),
        }
    }
}

/// Where a worker may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    /// At first; `None`: left alone.
    pub(crate) mask: Option<PuSet>,
    /// Once others want its CPU; `None`: no change.
    pub(crate) fallback: Option<PuSet>,
}

/// What pinning comes to on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// By worker.
    pub(crate) bindings: Vec<Binding>,
    /// For the start-up line.
    pub(crate) reason: String,
}

/// Decides, from the machine as far as it is allowed (`topology`), whether groups are used, and the quota in
/// thousandths of a CPU.
///
/// # Errors
/// Strict pinning of more workers than there are hardware threads.
pub(crate) fn resolve(
    pinning: Pinning,
    topology: &Topology,
    policy: &Policy,
    quota_millicpus: Option<u64>,
) -> Result<Resolved, String> {
    let plan = &policy.plan;
    let (workers, pus) = (plan.workers.len(), topology.pus().len());
    let few = policy.config.pin.few as usize;
    let all = topology.os_set();
    let quota = quota_millicpus.filter(|millis| *millis < pus as u64 * 1000);
    let (own, reason) = match pinning {
        Pinning::None => {
            return Ok(Resolved {
                bindings: vec![Binding::default(); workers],
                reason: "not pinned: none was asked for".to_owned(),
            });
        }
        Pinning::Strict if workers > pus => {
            return Err(format!(
                "strict pinning of {workers} workers to {pus} hardware threads, expected no more workers"
            ));
        }
        Pinning::Strict => (true, "pinned one to one: strict was asked for".to_owned()),
        Pinning::Llc => (false, "bound to LLCs: llc was asked for".to_owned()),
        Pinning::Auto => match quota {
            Some(millis) => (
                false,
                format!("bound to LLCs: a quota of {millis} thousandths of a CPU"),
            ),
            None if workers == pus && !policy.groups_on() => {
                (false, "bound to LLCs: wake-ups are not queued in groups".to_owned())
            }
            None if workers == pus && workers <= few => (false, format!("bound to LLCs: no more than {few} workers")),
            None if workers == pus => (
                true,
                format!("pinned one to one: {workers} workers, as many hardware threads"),
            ),
            None => (
                false,
                format!("bound to LLCs: {workers} workers, {pus} hardware threads"),
            ),
        },
    };
    let bindings = plan.workers.iter().map(|worker| {
        let llc = topology.pus()[worker.pu.index()].llc;
        let shared = topology.os_set_of(topology.llcs()[llc.index()].pus);
        let (mask, wider) = if own {
            ([worker.os_cpu].into_iter().collect(), Some(shared))
        } else {
            // Where other LLCs have no worker of ours, other programs may have left them idle.
            (shared, (workers < pus).then(|| all.clone()))
        };
        Binding {
            fallback: wider.filter(|wider| pinning == Pinning::Auto && *wider != mask),
            mask: Some(mask),
        }
    });
    Ok(Resolved {
        bindings: bindings.collect(),
        reason,
    })
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use quadrille_policy::{Config, Mode, Plan, PlanOptions};

    use super::*;

    /// A policy with groups or without for so many workers.
    fn policy(topology: &Topology, workers: u16, groups: Mode) -> Policy {
        let mut config = Config::default();
        config.wake_groups.mode = groups;
        let options = PlanOptions {
            workers: Some(workers),
            ..PlanOptions::default()
        };
        Policy::new(config, Plan::compile(topology, &options).unwrap())
    }

    fn check(pinning: Pinning, workers: u16, quota: Option<u64>, masks: &[Option<&str>], reason: &str) {
        check_with(Mode::On, pinning, (workers, quota), masks, reason);
    }

    fn check_with(
        groups: Mode,
        pinning: Pinning,
        (workers, quota): (u16, Option<u64>),
        masks: &[Option<&str>],
        reason: &str,
    ) {
        let topology: Topology = "llc:2 core:3".parse().unwrap();
        let policy = policy(&topology, workers, groups);
        let resolved = resolve(pinning, &topology, &policy, quota).unwrap();
        let texts: Vec<_> = resolved
            .bindings
            .iter()
            .map(|binding| binding.mask.as_ref().map(ToString::to_string))
            .collect();
        let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
        assert_eq!(texts, masks);
        assert!(resolved.reason.contains(reason), "{}", resolved.reason);
    }

    /// The LLC of each of six workers behind two, or of so many of them.
    const LLCS: [Option<&str>; 6] = [
        Some("0-2"),
        Some("0-2"),
        Some("0-2"),
        Some("3-5"),
        Some("3-5"),
        Some("3-5"),
    ];
    const OWN: [Option<&str>; 6] = [Some("0"), Some("1"), Some("2"), Some("3"), Some("4"), Some("5")];

    #[test]
    fn auto_pins_only_a_machine_of_its_own() {
        check(Pinning::Auto, 6, None, &OWN, "one to one");
        check(Pinning::Auto, 6, Some(9000), &OWN, "one to one");
        check(Pinning::Auto, 6, Some(2500), &LLCS, "quota of 2500");
        check(Pinning::Auto, 2, None, &LLCS[..2], "2 workers, 6 hardware threads");
    }

    #[test]
    fn few_workers_that_wait_for_cpus_may_go_to_all_of_them() {
        let topology: Topology = "llc:4 core:4".parse().unwrap();
        let all = Some("0-15".to_owned());
        let check = |pinning, workers, quota, expected: &Option<String>| {
            let policy = policy(&topology, workers, Mode::Auto);
            let resolved = resolve(pinning, &topology, &policy, quota).unwrap();
            for binding in resolved.bindings {
                let fallback = binding.fallback.map(|fallback| fallback.to_string());
                assert_eq!(fallback, *expected, "{pinning} {workers} {quota:?}");
            }
        };
        check(Pinning::Auto, 2, Some(2000), &all);
        check(Pinning::Auto, 2, None, &all);
        check(Pinning::Auto, 15, None, &all);
        check(Pinning::Llc, 2, Some(2000), &None);
        check(Pinning::Strict, 2, Some(2000), &None);
        check(Pinning::None, 2, Some(2000), &None);
        // Its workers are everywhere already.
        check(Pinning::Auto, 16, Some(2000), &None);
        let one = Topology::flat(4);
        let alone = resolve(Pinning::Auto, &one, &policy(&one, 2, Mode::Auto), Some(2000)).unwrap();
        assert!(alone.bindings.iter().all(|binding| binding.fallback.is_none()));
    }

    #[test]
    fn auto_pins_for_the_sake_of_groups() {
        check_with(Mode::Off, Pinning::Auto, (6, None), &LLCS, "not queued in groups");
        check_with(Mode::Off, Pinning::Strict, (6, None), &OWN, "strict");
    }

    #[test]
    fn auto_leaves_few_workers_to_the_kernel() {
        let topology: Topology = "llc:2 core:2".parse().unwrap();
        let resolved = resolve(Pinning::Auto, &topology, &policy(&topology, 4, Mode::On), None).unwrap();
        assert!(
            resolved.reason.contains("no more than 4 workers"),
            "{}",
            resolved.reason
        );
        let masks = |resolved: Resolved| -> Vec<_> {
            let bindings = resolved.bindings.into_iter();
            bindings.map(|binding| binding.mask.as_ref().map(PuSet::len)).collect()
        };
        assert_eq!(masks(resolved), [Some(2); 4]);
        let mut fewer = policy(&topology, 4, Mode::On);
        fewer.config.pin.few = 3;
        let pinned = resolve(Pinning::Auto, &topology, &fewer, None).unwrap();
        assert_eq!(masks(pinned), [Some(1); 4]);
    }

    #[test]
    fn the_other_settings_do_as_they_say() {
        check(Pinning::Strict, 2, Some(500), &OWN[..2], "strict");
        check(Pinning::Llc, 6, None, &LLCS, "llc");
        check(Pinning::None, 2, None, &[None, None], "none");
    }

    #[test]
    fn strict_refuses_more_workers_than_hardware_threads() {
        let topology = Topology::flat(1);
        let policy = policy(&topology, 2, Mode::Off);
        let error = resolve(Pinning::Strict, &topology, &policy, None).unwrap_err();
        assert!(error.contains("2 workers to 1"), "{error}");
    }

    #[test]
    fn words_round_trip() {
        for pinning in [Pinning::Auto, Pinning::Strict, Pinning::Llc, Pinning::None] {
            assert_eq!(pinning.to_string().parse(), Ok(pinning));
        }
        assert!("on".parse::<Pinning>().unwrap_err().to_string().contains("\"on\""));
    }
}
