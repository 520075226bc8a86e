//! Pinning. Each test pins a thread of its own.

use std::thread;

use quadrille_topology::{current_affinity, set_current_affinity};

const HAS_MASKS: bool = cfg!(any(target_os = "linux", target_os = "android"));

#[test]
fn systems_without_masks_say_so() {
    let results = on_a_thread(|| {
        let all = current_affinity();
        let set = all.as_ref().map_or_else(|_| [0].into_iter().collect(), Clone::clone);
        [set_current_affinity(&set), all.map(|_| ())]
    });
    for result in results {
        let refused = result.err().map(|e| (e.is_unsupported(), e.is_io()));
        assert_eq!(refused, (!HAS_MASKS).then_some((true, false)));
    }
}

fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod with_masks {
    use std::{error::Error, io};

    use quadrille_topology::{PuSet, current_affinity, pin_current_thread, set_current_affinity};

    use super::on_a_thread;

    #[test]
    fn every_allowed_cpu_can_be_pinned_to_and_back() {
        on_a_thread(|| {
            let all = current_affinity().unwrap();
            for cpu in all.iter() {
                pin_current_thread(cpu).unwrap();
                assert_eq!(current_affinity().unwrap(), [cpu].into_iter().collect());
            }
            set_current_affinity(&all).unwrap();
            assert_eq!(current_affinity().unwrap(), all);
        });
    }

    #[test]
    fn a_pinned_thread_leaves_the_others_alone() {
        let before = current_affinity().unwrap();
        on_a_thread(|| pin_current_thread(before.first().unwrap()).unwrap());
        assert_eq!(current_affinity().unwrap(), before);
    }

    #[test]
    fn cpus_that_are_not_there_are_ignored_beside_one_that_is() {
        on_a_thread(|| {
            let cpu = current_affinity().unwrap().first().unwrap();
            // Beyond what a mask of 1024 bits can say.
            set_current_affinity(&[cpu, 8191, 100_000].into_iter().collect()).unwrap();
            assert_eq!(current_affinity().unwrap(), [cpu].into_iter().collect());
        });
    }

    #[test]
    fn errors_name_the_cpu() {
        on_a_thread(|| {
            for cpu in [1023, 1024, 9000, PuSet::LIMIT - 1] {
                if current_affinity().unwrap().contains(cpu) {
                    continue;
                }
                let e = pin_current_thread(cpu).unwrap_err();
                assert!(e.is_io() && e.to_string().contains(&format!("CPU {cpu}: ")), "{e}");
                assert!(e.source().unwrap().is::<io::Error>());
            }
            let e = pin_current_thread(PuSet::LIMIT).unwrap_err();
            assert!(e.is_too_large() && e.to_string().contains("CPU 1048576"), "{e}");
            let e = set_current_affinity(&"7000-7001".parse().unwrap()).unwrap_err();
            assert!(e.is_io() && e.to_string().contains("CPUs 7000-7001"), "{e}");
            let e = set_current_affinity(&PuSet::new()).unwrap_err();
            assert!(
                e.is_invalid() && e.to_string().starts_with("empty affinity mask"),
                "{e}"
            );
        });
    }
}
