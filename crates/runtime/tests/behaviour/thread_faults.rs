//! User-level threads that go wrong: too deep, without a stack, waiting where they must not; and what is said about it.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use quadrille::task;
use quadrille::thread::sync::mpsc::RecvTimeoutError;
use quadrille::thread::{self, Builder};
use quadrille::{Runtime, TaskGroup, Wait as _};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::child::{assert_passed, child, is_child, run_child, stderr};
use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::skipped::skipped;
use crate::wait::eventually;

const SIGABRT: i32 = 6;

/// The reason that is given where a destructor has waited for too long.
const WAITED_IN_VAIN: &str = "a user-level thread can't be suspended while it panics";

fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    if frame[0] == usize::MAX {
        return 0;
    }
    recurse(depth + 1) + frame[1]
}

#[test]
fn an_overflow_of_a_spawned_thread_names_it_and_its_stack() {
    if is_child() {
        let runtime = Runtime::new().unwrap();
        let named = Builder::new().name("deep thinker".to_owned()).stack_size(100_000);
        let thread = named.spawn_on(
            || {
                // From a suspension on it is another switch that enters the stack.
                thread::yield_now();
                recurse(0)
            },
            runtime.handle(),
        );
        drop(thread.unwrap().join());
        unreachable!("it overflows");
    }
    let output = run_child(module_path!(), "an_overflow_of_a_spawned_thread_names_it_and_its_stack");
    let said = stderr(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    let expected = "thread 'deep thinker' has overflowed its stack (131072 bytes)\n";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_thread_that_asks_for_no_stack_has_what_its_runtime_gives() {
    if is_child() {
        let builder = Runtime::builder().worker_threads(1).user_thread_stack_size(500_000);
        let runtime = builder.build().unwrap();
        // From the worker's own stacks and from the shelf, and one that asks for less.
        let half = || {
            let bytes = [1_u8; 300_000];
            std::hint::black_box(&bytes)
                .iter()
                .map(|one| u32::from(*one))
                .sum::<u32>()
        };
        let inner = move || (thread::spawn(half).join().unwrap(), thread::spawn(half).join().unwrap());
        assert_eq!(runtime.spawn_thread(inner).join().unwrap(), (300_000, 300_000));
        let small = Builder::new()
            .stack_size(16 * 1024)
            .spawn_on(|| 6 * 7, runtime.handle());
        assert_eq!(small.unwrap().join().unwrap(), 42);
        let last = Builder::new().name("the last".to_owned());
        drop(last.spawn_on(|| recurse(0), runtime.handle()).unwrap().join());
        unreachable!("it overflows");
    }
    let output = run_child(
        module_path!(),
        "a_thread_that_asks_for_no_stack_has_what_its_runtime_gives",
    );
    let said = stderr(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    let expected = "thread 'the last' has overflowed its stack (524288 bytes)\n";
    assert!(said.contains(expected), "{said}");
}

/// Waits when it is dropped.
struct WaitsInDrop;

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        thread::park();
    }
}

#[test]
fn to_wait_while_panicking_is_refused_with_a_reason() {
    if is_child() {
        let runtime = Runtime::new().unwrap();
        let thread = runtime.spawn_thread(|| {
            let _waits = WaitsInDrop;
            panic!("on purpose");
        });
        drop(thread.join());
        unreachable!("a panic while panicking aborts");
    }
    let output = run_child(module_path!(), "to_wait_while_panicking_is_refused_with_a_reason");
    let said = stderr(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains(WAITED_IN_VAIN), "{said}");
}

/// How a thread comes to be unwound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Panic,
    Abort,
    End,
}

impl By {
    const EACH: [By; 3] = [By::Panic, By::Abort, By::End];

    /// Unwinds a thread of a runtime of so many workers, whose `destructor` runs then, and runs `meanwhile` on the
    /// calling one.
    fn unwinds(self, workers: usize, destructor: impl FnOnce() + Send + 'static, meanwhile: impl FnOnce()) {
        let runtime = Runtime::builder().worker_threads(workers).build().unwrap();
        let begun = Gate::default();
        let begins = begun.clone();
        let thread = runtime.spawn_thread(move || {
            let _runs = OnDrop::new(destructor);
            begins.open();
            if self == By::Panic {
                panic!("on purpose");
            }
            thread::park();
        });
        begun.block();
        match self {
            By::Panic => {}
            By::Abort => thread.abort(),
            By::End => runtime.shutdown_background(),
        }
        meanwhile();
        thread.join().unwrap_err();
    }
}

/// That a test passes in a process of its own, which ends if a destructor waits in vain. It does so for a second only,
/// for which a machine may well keep whom it waits for from the CPU: so that reason is no failure yet.
fn assert_passes_in_time(name: &str) {
    for _ in 0..2 {
        let output = run_child(module_path!(), name);
        if !stderr(&output).contains(WAITED_IN_VAIN) {
            return assert_passed(&output);
        }
    }
    assert_passed(&run_child(module_path!(), name));
}

/// What a destructor waits for while its thread is unwound may come, if it does not need its worker: a lock, say, that
/// is held for a moment.
#[test]
fn what_comes_from_elsewhere_is_waited_for_while_a_thread_is_unwound() {
    if !is_child() {
        return assert_passes_in_time("what_comes_from_elsewhere_is_waited_for_while_a_thread_is_unwound");
    }
    for by in By::EACH {
        let (held, dropped) = (Gate::default(), Count::default());
        let (waits, token) = (held.clone(), dropped.token());
        let destructor = move || {
            thread::yield_now();
            waits.pass().wait();
            drop(token);
        };
        by.unwinds(1, destructor, || {
            eventually("it waits", || held.waiting() > 0);
            assert_eq!(dropped.get(), 0);
            held.open();
        });
        assert_eq!(dropped.get(), 1);
    }
}

/// A worker that has nothing of its own to end drops what others have queued: so a thread that is unwound may wait for
/// a task.
#[test]
fn a_task_is_waited_for_while_its_runtime_ends() {
    if !is_child() {
        // As above.
        return assert_passed(&run_child(
            module_path!(),
            "a_task_is_waited_for_while_its_runtime_ends",
        ));
    }
    for _ in 0..20 {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let begun = Gate::default();
        let begins = begun.clone();
        let (sends, ended) = std::sync::mpsc::channel();
        let thread = runtime.spawn_thread(move || {
            let polled = Gate::default();
            let opens = polled.clone();
            let task = task::spawn(async move {
                opens.open();
                std::future::pending::<()>().await;
            });
            polled.pass().wait();
            let _waits = OnDrop::new(move || sends.send(task.wait().unwrap_err().is_cancelled()).unwrap());
            begins.open();
            thread::park();
        });
        begun.block();
        runtime.shutdown_background();
        thread.join().unwrap_err();
        assert_eq!(ended.recv(), Ok(true));
    }
}

/// What has a limit ends by that, however long it is, as std's does; that it may not suspend the thread is no reason to
/// end the process.
#[test]
fn a_wait_with_a_limit_ends_by_it_while_a_thread_is_unwound() {
    if !is_child() {
        let name = "a_wait_with_a_limit_ends_by_it_while_a_thread_is_unwound";
        return assert_passed(&run_child(module_path!(), name));
    }
    // Longer than the second after which a wait without a limit ends the process.
    const LIMIT: Duration = Duration::from_millis(1300);
    let (sends, receives) = thread::sync::mpsc::channel::<()>();
    let mut receives = Some(receives);
    for by in By::EACH {
        let (waited, receives) = (Count::default(), receives.take());
        let waits = waited.clone();
        let destructor = move || {
            let begun = Instant::now();
            match (by, receives) {
                (By::Abort, _) => thread::sleep(LIMIT),
                (By::End, _) => thread::park_timeout(LIMIT),
                (By::Panic, receives) => {
                    let nothing = receives.unwrap().recv_timeout(LIMIT);
                    assert_eq!(nothing, Err(RecvTimeoutError::Timeout));
                }
            }
            assert!(begun.elapsed() >= LIMIT, "{by:?}: {:?}", begun.elapsed());
            waits.add();
        };
        by.unwinds(1, destructor, || {});
        assert_eq!(waited.get(), 1, "{by:?}");
    }
    drop(sends);
}

/// Panics when it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("while it is unwound");
    }
}

#[test]
fn a_destructor_that_panics_while_its_thread_is_unwound_ends_the_program() {
    const NAME: &str = "a_destructor_that_panics_while_its_thread_is_unwound_ends_the_program";
    if is_child() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (begins, begun) = quadrille::sync::oneshot::channel();
        let thread = runtime.spawn_thread(move || {
            let _panics = PanicsInDrop;
            begins.send(()).unwrap();
            thread::park();
        });
        begun.recv_blocking().unwrap();
        thread.abort();
        drop(thread.join());
        unreachable!("a panic while it is unwound aborts");
    }
    let output = run_child(module_path!(), NAME);
    let said = stderr(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("while it is unwound"), "{said}");
}

/// Opens a scope when it is dropped, whose thread waits for nobody.
struct ScopeInDrop;

impl Drop for ScopeInDrop {
    fn drop(&mut self) {
        thread::scope(|scope| drop(scope.spawn(thread::park)));
    }
}

#[test]
fn a_scope_whose_threads_do_not_end_while_panicking_is_refused_with_a_reason() {
    const NAME: &str = "a_scope_whose_threads_do_not_end_while_panicking_is_refused_with_a_reason";
    if is_child() {
        let runtime = Runtime::new().unwrap();
        let thread = runtime.spawn_thread(|| {
            let _opens = ScopeInDrop;
            panic!("on purpose");
        });
        drop(thread.join());
        unreachable!("a panic while panicking aborts");
    }
    let output = run_child(module_path!(), NAME);
    let said = stderr(&output);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains(WAITED_IN_VAIN), "{said}");
}

/// Threads and tasks of a scope that another worker runs are waited for in place; those of a runtime that ends are
/// dropped, and so have ended.
#[test]
fn a_scope_is_waited_for_while_a_thread_is_unwound() {
    if !is_child() {
        return assert_passes_in_time("a_scope_is_waited_for_while_a_thread_is_unwound");
    }
    for by in By::EACH {
        let ended = Count::default();
        let ends = ended.clone();
        let destructor = move || {
            thread::scope(|_| ());
            let (numbers, mut sums) = ([1, 2, 3], [0; 2]);
            let [of_thread, of_task] = &mut sums;
            thread::scope(|scope| drop(scope.spawn(|| *of_thread = numbers.iter().sum())));
            task::scope(|scope| drop(scope.spawn(async { *of_task = numbers.iter().product() })));
            assert_eq!(sums, if by == By::End { [0; 2] } else { [6; 2] });
            ends.add();
        };
        by.unwinds(2, destructor, || {});
        assert_eq!(ended.get(), 1, "{by:?}");
    }
}

/// Locks what the process maps from now on, once it is touched. False if it may not lock as much as this test does.
#[cfg(target_os = "linux")]
fn locks_memory() -> bool {
    use rustix::mm::{MapFlags, MlockAllFlags, ProtFlags, mlockall, mmap_anonymous, munlockall, munmap};
    const MUCH: usize = 16 << 30;
    if mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).is_err() {
        return false;
    }
    let (none, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: the system chooses a place that nothing uses.
    let probe = unsafe { mmap_anonymous(none, MUCH, ProtFlags::READ, flags) };
    // SAFETY: that is ours, and nobody has touched it.
    let may = probe.is_ok_and(|start| unsafe { munmap(start, MUCH) }.is_ok());
    if !may {
        munlockall().unwrap();
    }
    may
}

/// In locked memory there are no marks, on any kernel: threads run on stacks with guards of the old kind, as many as
/// there are mappings for, and then spawning fails with a reason.
#[cfg(target_os = "linux")]
#[test]
fn where_guards_take_mappings_their_limit_is_an_error_of_spawn() {
    const NAME: &str = "where_guards_take_mappings_their_limit_is_an_error_of_spawn";
    const SKIPPED: &str = "this process may not lock memory";
    const COUNT: usize = 1000;
    let max = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    // SAFETY: a question without pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if max.trim().parse::<u64>().unwrap() > 1 << 17 || page > 4096 {
        return skipped("so many mappings, or so large pages, take too much memory");
    }
    if is_child() {
        if !locks_memory() {
            return skipped(SKIPPED);
        }
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let before = mappings();
        let spawn = || Builder::new().spawn_on(thread::park, runtime.handle());
        let mut parked: Vec<_> = (0..COUNT).map(|_| spawn().unwrap()).collect();
        assert!(mappings() - before >= 2 * COUNT, "{} and {before}", mappings());
        let error = loop {
            match spawn() {
                Ok(thread) => parked.push(thread),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let said = error.to_string();
        assert!(
            said.contains("vm.max_map_count = ") && said.contains("sysctl -w"),
            "{said}"
        );
        // Who is there goes on, and makes room.
        parked.iter().for_each(|thread| thread.thread().unpark());
        parked.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(runtime.spawn_thread(|| 6 * 7).join().unwrap(), 42);
        return;
    }
    let output = run_child(module_path!(), NAME);
    assert_passed(&output);
    if stderr(&output).contains(SKIPPED) {
        skipped(SKIPPED);
    }
}

#[inline(never)]
fn a_function_of_the_thread() {
    thread::yield_now();
    panic!("on purpose");
}

#[test]
fn a_backtrace_goes_from_the_thread_to_its_worker() {
    const NAME: &str = "a_backtrace_goes_from_the_thread_to_its_worker";
    if is_child() {
        let runtime = Runtime::new().unwrap();
        runtime.spawn_thread(a_function_of_the_thread).join().unwrap_err();
        return;
    }
    let output = child(module_path!(), NAME, "1")
        .env("RUST_BACKTRACE", "full")
        .output()
        .unwrap();
    assert_passed(&output);
    let said = stderr(&output);
    let of_thread = said.find("thread_faults::a_function_of_the_thread");
    let of_worker = said.find("quadrille::sched::worker::Worker::run");
    assert!(of_thread.is_some() && of_thread < of_worker, "{said}");
}

#[test]
fn a_stack_that_is_too_large_is_an_error() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let builder = Builder::new().stack_size(2 << 30);
    let error = builder.spawn_on(|| (), runtime.handle()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("2147483648"), "{error}");
}

#[test]
fn want_of_memory_at_spawn_is_an_error_and_passes() {
    if is_child() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        // What the process has now, in whole GiB, and another one and a half: room for one such slab of stacks at most.
        let mut limit = getrlimit(Resource::As);
        let used = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = used.split(' ').next().unwrap().parse().unwrap();
        limit.current = Some(pages * 4096 + (3 << 29));
        setrlimit(Resource::As, limit).unwrap();
        let large = || {
            Builder::new()
                .stack_size(1 << 30)
                .spawn_on(thread::park, runtime.handle())
        };
        let spawned: Vec<_> = std::iter::repeat_with(large).take(4).collect();
        let failed = spawned.iter().filter_map(|result| result.as_ref().err());
        let kinds: Vec<_> = failed.map(io::Error::kind).collect();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| *kind == io::ErrorKind::OutOfMemory),
            "{spawned:?}"
        );
        // And small ones are still to be had.
        assert_eq!(runtime.spawn_thread(|| 6 * 7).join().unwrap(), 42);
        return;
    }
    let output = run_child(module_path!(), "want_of_memory_at_spawn_is_an_error_and_passes");
    assert_passed(&output);
}

/// Closures of all sizes about the limit from which they go by way of the heap, alone and with what a group adds.
#[test]
fn closures_of_every_size_run_with_a_group_and_without() {
    fn check<const N: usize>(runtime: &Runtime, group: &TaskGroup) {
        let bytes = std::hint::black_box([1_u8; N]);
        let sum = move || bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>();
        let plain = Builder::new().spawn_on(sum, runtime.handle()).unwrap();
        let grouped = Builder::new().group(group).spawn_on(sum, runtime.handle()).unwrap();
        assert_eq!((plain.join().unwrap(), grouped.join().unwrap()), (N, N));
    }
    let (runtime, group) = (Runtime::builder().worker_threads(1).build().unwrap(), TaskGroup::new());
    check::<503>(&runtime, &group);
    check::<504>(&runtime, &group);
    check::<505>(&runtime, &group);
    check::<512>(&runtime, &group);
    check::<513>(&runtime, &group);
    check::<4096>(&runtime, &group);
}

/// What has no size may ask for more room on the new stack than what has some.
#[test]
fn closures_of_every_alignment_run() {
    fn check<A: Default + Send + 'static>(runtime: &Runtime) {
        let aligned = A::default();
        let address = move || std::ptr::from_ref(&aligned).addr();
        let thread = Builder::new().spawn_on(address, runtime.handle()).unwrap();
        assert_eq!(thread.join().unwrap() % align_of::<A>(), 0);
    }
    #[derive(Default)]
    #[repr(align(512))]
    struct Small;
    #[derive(Default)]
    #[repr(align(1024))]
    struct Large;
    #[derive(Default)]
    #[repr(align(4096))]
    struct Page;
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    check::<Small>(&runtime);
    check::<Large>(&runtime);
    check::<Page>(&runtime);
}

/// A signal that the program ignores, and that somebody has sent, is ignored as if threads had never run.
#[test]
fn a_sent_signal_that_is_ignored_stays_so() {
    if is_child() {
        // SAFETY: nobody else has this process.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_IGN) };
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        runtime.spawn_thread(|| ()).join().unwrap();
        // SAFETY: it has no memory to keep valid.
        assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
        return;
    }
    let output = run_child(module_path!(), "a_sent_signal_that_is_ignored_stays_so");
    assert_passed(&output);
}
