//! The counters as a page that Prometheus reads.

use std::fmt::{self, Display, Formatter, Write};

use quadrille_policy::{Cause, Level};

use super::{BlockingMetrics, Metrics, WorkerMetrics};

/// The content type of such a page, for the header of an answer.
pub const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// [`Metrics`] in the text format of Prometheus, version 0.0.4; from [`Metrics::prometheus`]. Its `Display` is the
/// page.
///
/// Names begin with `quadrille_`; times are in seconds, and what only grows ends in `_total`:
///
/// | name | labels | is |
/// |---|---|---|
/// | `quadrille_workers`, `quadrille_idle_workers` | | how many there are, and how many of them are idle |
/// | `quadrille_pending_tasks`, `quadrille_living_threads` | | as the fields of [`Metrics`] |
/// | `quadrille_live_tasks` | | as the field, where it is counted |
/// | `quadrille_wake_cost_seconds` | | measured cost of waking a parked worker |
/// | `quadrille_pin_failures` | | workers that could not be pinned as planned |
/// | `quadrille_foreign_wakes_total`, `quadrille_foreign_unparks_total` | | by threads that are no workers |
/// | `quadrille_blocking_threads`, `quadrille_blocking_idle_threads`, `quadrille_blocking_queued_jobs`, `quadrille_blocking_threads_started_total`, `quadrille_blocking_jobs_total` | | the threads of `spawn_blocking` and of files |
/// | `quadrille_llc_utilisation_ratio`, `quadrille_llc_running_workers`, `quadrille_llc_busy_seconds_total` | `llc` | load of each last-level cache |
/// | `quadrille_moves_total` | `cause`, `level` | tasks that ran on another worker than before |
/// | `quadrille_polls_total` and every other counter of [`WorkerMetrics`] by its name | | sums over all workers |
///
/// That is about a hundred series, and three for each last-level cache. With [`per_worker`](Self::per_worker) the
/// counters of workers are so many for each.
#[derive(Clone, Copy, Debug)]
#[must_use = "it is the page that its Display writes"]
pub struct Prometheus<'a> {
    metrics: &'a Metrics,
    per_worker: bool,
}

impl Metrics {
    /// These counters as a page for Prometheus.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().worker_threads(2).build()?;
    /// let page = runtime.metrics().prometheus().to_string();
    /// assert!(page.contains("# TYPE quadrille_polls_total counter\nquadrille_polls_total "));
    /// assert!(page.contains("\nquadrille_workers 2\n"));
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn prometheus(&self) -> Prometheus<'_> {
        Prometheus {
            metrics: self,
            per_worker: false,
        }
    }
}

impl Prometheus<'_> {
    /// The counters of workers one by one, with a label `worker`, and not their sums.
    ///
    /// ```
    /// let runtime = quadrille::Runtime::builder().worker_threads(2).build()?;
    /// let page = runtime.metrics().prometheus().per_worker().to_string();
    /// assert!(page.contains("\nquadrille_polls_total{worker=\"1\"} "));
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    pub fn per_worker(mut self) -> Self {
        self.per_worker = true;
        self
    }

    /// What describes the runtime as a whole.
    fn write_runtime(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let Metrics {
            workers,
            llcs: _,
            idle_workers,
            foreign_wakes,
            foreign_unparks,
            pending_tasks,
            living_threads,
            live_tasks,
            wake_cost_ns,
            pin_failures,
            blocking: _,
        } = self.metrics;
        page.gauge("workers", "Workers.", workers.len())?;
        page.gauge("idle_workers", "Workers that are idle.", idle_workers)?;
        page.gauge(
            "pending_tasks",
            "Tasks that have been pending and are not finished.",
            pending_tasks,
        )?;
        if let Some(live_tasks) = live_tasks {
            page.gauge("live_tasks", "Tasks that are not gone yet.", live_tasks)?;
        }
        page.gauge(
            "living_threads",
            "User-level threads that have been suspended and have not ended.",
            living_threads,
        )?;
        let wake_cost = "Measured cost of waking a parked worker, moving average.";
        page.gauge("wake_cost_seconds", wake_cost, Seconds(*wake_cost_ns))?;
        page.gauge(
            "pin_failures",
            "Workers that could not be pinned as planned.",
            pin_failures,
        )?;
        page.counter(
            "foreign_wakes",
            "Wake-ups by threads that are no workers.",
            foreign_wakes,
        )?;
        page.counter("foreign_unparks", "Workers that such threads woke.", foreign_unparks)
    }

    /// The pool of threads that may block.
    fn write_blocking(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let BlockingMetrics {
            threads,
            idle_threads,
            queued,
            threads_started,
            jobs,
        } = &self.metrics.blocking;
        page.gauge("blocking_threads", "Threads of the blocking pool.", threads)?;
        page.gauge(
            "blocking_idle_threads",
            "Threads of the blocking pool without a job.",
            idle_threads,
        )?;
        page.gauge(
            "blocking_queued_jobs",
            "Jobs that wait for a thread of the blocking pool.",
            queued,
        )?;
        page.counter(
            "blocking_threads_started",
            "Threads of the blocking pool that were started.",
            threads_started,
        )?;
        page.counter("blocking_jobs", "Jobs that the blocking pool accepted.", jobs)
    }

    fn write_llcs(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let llcs = || self.metrics.llcs.iter().enumerate();
        page.family(
            "llc_utilisation_ratio",
            "Share of the time that the workers of a last-level cache spend busy, moving average.",
            Kind::Gauge,
        )?;
        for (llc, load) in llcs() {
            page.sample(format_args!("llc=\"{llc}\""), f64::from(load.utilisation) / 1024.0)?;
        }
        let running = "Workers of a last-level cache that are busy.";
        page.family("llc_running_workers", running, Kind::Gauge)?;
        for (llc, load) in llcs() {
            page.sample(format_args!("llc=\"{llc}\""), load.running)?;
        }
        let busy = "Time that the workers of a last-level cache spent busy.";
        page.family("llc_busy_seconds", busy, Kind::Counter)?;
        for (llc, load) in llcs() {
            page.sample(format_args!("llc=\"{llc}\""), Seconds(load.busy_ns))?;
        }
        Ok(())
    }

    /// What workers count.
    fn write_workers(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let workers: Vec<(Labels<'_>, WorkerMetrics)> = if self.per_worker {
            let workers = self.metrics.workers.iter().enumerate();
            workers
                .map(|(worker, metrics)| (Labels::Worker(worker), *metrics))
                .collect()
        } else {
            vec![(Labels::None, self.metrics.total())]
        };
        let values: Vec<Vec<u64>> = workers
            .iter()
            .map(|(_, metrics)| metrics.iter().map(|(_, value)| value).collect())
            .collect();
        // `iter` has the counters in the order of the names, and the moves behind them.
        for (index, (name, help)) in COUNTS.iter().enumerate() {
            page.family(name, help, Kind::Counter)?;
            for ((labels, _), values) in workers.iter().zip(&values) {
                page.sample(labels, values[index])?;
            }
        }
        let moves =
            "Tasks that ran on another worker than before, by the cause and by what is common to the two workers.";
        page.family("moves", moves, Kind::Counter)?;
        for (labels, metrics) in &workers {
            for (cause, level) in MOVES {
                page.sample(Labels::Move(labels, *cause, *level), metrics.moves(*cause, *level))?;
            }
        }
        Ok(())
    }
}

impl Display for Prometheus<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut page = Page {
            out: f,
            name: "",
            suffix: "",
        };
        self.write_runtime(&mut page)?;
        self.write_blocking(&mut page)?;
        self.write_llcs(&mut page)?;
        self.write_workers(&mut page)
    }
}

/// The names of the counters with what they say in their documentation, and the kinds of moves.
macro_rules! tables {
    (
        counts: [$($(#[doc = $doc:literal])* $name:ident,)+]
        moves: [$($(#[$_move_doc:meta])* $cause:ident $level:ident $_move:ident,)+]
    ) => {
        const COUNTS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),*)),)+];
        const MOVES: &[(Cause, Level)] = &[$((Cause::$cause, Level::$level),)+];
    };
}

quadrille_policy::counters!(tables);

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// A page that is being written: the samples of a family follow its head.
struct Page<'a, 'f> {
    out: &'a mut Formatter<'f>,
    name: &'static str,
    suffix: &'static str,
}

impl Page<'_, '_> {
    /// The head of a family; the name of a counter gets its `_total` here.
    fn family(&mut self, name: &'static str, help: &str, kind: Kind) -> fmt::Result {
        let (kind, suffix) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        (self.name, self.suffix) = (name, suffix);
        write!(self.out, "# HELP quadrille_{name}{suffix} ")?;
        write_help(self.out, help)?;
        writeln!(self.out, "\n# TYPE quadrille_{name}{suffix} {kind}")
    }

    fn sample(&mut self, labels: impl Display, value: impl Display) -> fmt::Result {
        let (name, suffix) = (self.name, self.suffix);
        let labels = labels.to_string();
        if labels.is_empty() {
            writeln!(self.out, "quadrille_{name}{suffix} {value}")
        } else {
            writeln!(self.out, "quadrille_{name}{suffix}{{{labels}}} {value}")
        }
    }

    fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) -> fmt::Result {
        self.family(name, help, Kind::Gauge)?;
        self.sample(Labels::None, value)
    }

    fn counter(&mut self, name: &'static str, help: &str, value: impl Display) -> fmt::Result {
        self.family(name, help, Kind::Counter)?;
        self.sample(Labels::None, value)
    }
}

/// Documentation on one line: without the spaces at the beginning of its lines, and without the marks of code.
fn write_help(out: &mut impl Write, help: &str) -> fmt::Result {
    for (index, word) in help.split_whitespace().enumerate() {
        if index > 0 {
            out.write_char(' ')?;
        }
        for c in word.chars().filter(|&c| c != '`') {
            match c {
                '\\' => out.write_str(r"\\")?,
                c => out.write_char(c)?,
            }
        }
    }
    Ok(())
}

/// What a sample is of, between the braces.
enum Labels<'a> {
    None,
    Worker(usize),
    Move(&'a Labels<'a>, Cause, Level),
}

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Labels::None => Ok(()),
            Labels::Worker(worker) => write!(f, "worker=\"{worker}\""),
            Labels::Move(Labels::None, cause, level) => write_move(f, *cause, *level),
            Labels::Move(worker, cause, level) => {
                write!(f, "{worker},")?;
                write_move(f, *cause, *level)
            }
        }
    }
}

fn write_move(f: &mut Formatter<'_>, cause: Cause, level: Level) -> fmt::Result {
    let cause = match cause {
        Cause::Wake => "wake",
        Cause::Steal => "steal",
        Cause::Pull => "pull",
        Cause::Rescue => "rescue",
        Cause::Spawn => "spawn",
    };
    let level = match level {
        Level::Group => "group",
        Level::Llc => "llc",
        Level::Node => "node",
        Level::Machine => "machine",
    };
    write!(f, "cause=\"{cause}\",level=\"{level}\"")
}

/// Nanoseconds, written as seconds, exactly.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const NANOS_PER_SEC: u64 = 1_000_000_000;
        write!(f, "{}.{:09}", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::metrics::LlcMetrics;

    /// Two workers and two caches, with values that differ.
    fn metrics() -> Metrics {
        let worker = |factor: u64| WorkerMetrics {
            polls: 10 * factor,
            rescues: 7,
            moves_pull_node: 3 * factor,
            ..WorkerMetrics::default()
        };
        Metrics {
            workers: vec![worker(1), worker(2)],
            llcs: vec![
                LlcMetrics {
                    utilisation: 256,
                    busy_ns: 1_500_000_000,
                    running: 1,
                    live: 0,
                },
                LlcMetrics::default(),
            ],
            idle_workers: 1,
            foreign_wakes: 5,
            wake_cost_ns: 4_321,
            ..Metrics::default()
        }
    }

    /// The samples of a page by name and labels; checks that it is one: each family has one head with a text and a
    /// type, and its samples behind it.
    fn check(page: &str) -> HashMap<String, f64> {
        let mut samples = HashMap::new();
        let mut seen = HashSet::new();
        let mut family = String::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').unwrap();
                assert!(text.ends_with('.'), "{line}");
                let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(kind == "counter" || kind == "gauge");
                assert!(seen.insert(name.to_owned()), "{name} comes twice");
                family = name.to_owned();
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), family, "{line}");
            assert!(family.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{family}");
            let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
            assert!(
                samples.insert(series.to_owned(), value).is_none(),
                "{series} comes twice"
            );
        }
        assert!(page.ends_with('\n'));
        samples
    }

    #[test]
    fn workers_are_summed_up() {
        let samples = check(&metrics().prometheus().to_string());
        for (series, value) in [
            ("quadrille_workers", 2.0),
            ("quadrille_idle_workers", 1.0),
            ("quadrille_foreign_wakes_total", 5.0),
            ("quadrille_polls_total", 30.0),
            ("quadrille_rescues_total", 14.0),
            ("quadrille_moves_total{cause=\"pull\",level=\"node\"}", 9.0),
            ("quadrille_moves_total{cause=\"wake\",level=\"group\"}", 0.0),
        ] {
            assert_eq!(samples[series], value, "{series}");
        }
    }

    #[test]
    fn workers_are_told_apart_where_asked_for() {
        let samples = check(&metrics().prometheus().per_worker().to_string());
        for (series, value) in [
            ("quadrille_polls_total{worker=\"0\"}", 10.0),
            ("quadrille_polls_total{worker=\"1\"}", 20.0),
            ("quadrille_moves_total{worker=\"1\",cause=\"pull\",level=\"node\"}", 6.0),
        ] {
            assert_eq!(samples[series], value, "{series}");
        }
        assert!(!samples.contains_key("quadrille_polls_total"));
    }

    #[test]
    fn units_are_seconds_and_shares() {
        let samples = check(&metrics().prometheus().to_string());
        for (series, value) in [
            ("quadrille_wake_cost_seconds", 4.321e-6),
            ("quadrille_llc_busy_seconds_total{llc=\"0\"}", 1.5),
            ("quadrille_llc_utilisation_ratio{llc=\"0\"}", 0.25),
            ("quadrille_llc_utilisation_ratio{llc=\"1\"}", 0.0),
        ] {
            assert_eq!(samples[series], value, "{series}");
        }
    }

    #[test]
    fn every_counter_is_there_by_its_name() {
        let samples = check(&metrics().prometheus().to_string());
        let total = WorkerMetrics::default();
        let (counts, moves): (Vec<_>, Vec<_>) = total.iter().partition(|(name, _)| !name.starts_with("moves_"));
        assert_eq!((counts.len(), moves.len()), (COUNTS.len(), MOVES.len()));
        for (index, (name, _)) in counts.into_iter().enumerate() {
            assert_eq!(COUNTS[index].0, name);
            assert!(samples.contains_key(&format!("quadrille_{name}_total")), "{name}");
        }
    }

    /// A zero would say that there are none.
    #[test]
    fn what_is_not_counted_is_left_out() {
        let counted = Metrics {
            live_tasks: Some(7),
            ..metrics()
        };
        assert_eq!(check(&counted.prometheus().to_string())["quadrille_live_tasks"], 7.0);
        let page = metrics().prometheus().to_string();
        assert!(!page.contains("quadrille_live_tasks"), "{page}");
    }

    #[test]
    fn help_is_one_line_of_plain_text() {
        let mut line = String::new();
        write_help(&mut line, " Sums of\n the `moves_`, a \\.").unwrap();
        assert_eq!(line, r"Sums of the moves_, a \\.");
    }

    #[test]
    fn a_runtime_without_workers_and_caches_makes_a_page() {
        check(&Metrics::default().prometheus().to_string());
    }
}
