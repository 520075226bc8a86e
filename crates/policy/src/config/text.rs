//! The text form of a [`Config`]: `name=value,…`.

use alloc::{format, string::String};
use core::{fmt, str::FromStr};

use quadrille_topology::GroupSize;

use super::{Adversary, CapMode, Config, ConfigError, ErrorKind, Mode, OnContention};
use crate::{GroupMap, Nanos};

/// Ties each name to its field, once for reading and once for writing.
macro_rules! names {
    ($($name:literal => $($field:ident).+;)*) => {
        const NAMES: &[&str] = &[$($name),*];

        fn set(config: &mut Config, name: &str, value: &str) -> Result<(), ConfigError> {
            match name {
                $($name => config.$($field).+ = read(name, value)?,)*
                _ => return Err(unknown(name)),
            }
            Ok(())
        }

        impl Config {
            /// What a field is called in the text form.
            pub(super) fn name_of(field: &str) -> Option<&'static str> {
                // The compiler may write blanks into a path.
                let is_path = |path: &str| path.split_whitespace().flat_map(str::chars).eq(field.chars());
                [$((stringify!($($field).+), $name)),+]
                    .into_iter()
                    .find_map(|(path, name)| is_path(path).then_some(name))
            }
        }

        impl fmt::Display for Config {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let default = Config::default();
                let mut separator = "";
                $(
                    if self.$($field).+ != default.$($field).+ {
                        write!(f, "{separator}{}={}", $name, Written(&self.$($field).+))?;
                        separator = ",";
                    }
                )*
                if separator.is_empty() {
                    f.write_str("default")?;
                }
                Ok(())
            }
        }
    };
}

names! {
    "spin" => spin_max;
    "spin-vain" => spin_vain;
    "spin-probe" => spin_probe;
    "poll-interval" => poll_interval;
    "poll-dry" => poll_dry;
    "poll-early" => poll_early;
    "poll-vain" => poll_vain;
    "coalesce" => coalesce;
    "sentinel" => sentinel_interval;
    "slot-polls" => slot_polls_max;
    "slot-time" => slot_time;
    "join-polls" => join_polls_max;
    "budget" => budget;
    "global-interval" => global_interval;
    "look-up" => look_up;
    "observe" => observed;
    "timer-looks" => timers.looks;
    "timer-slack-div" => timers.slack_div;
    "seed" => seed;
    "groups" => wake_groups.mode;
    "group" => wake_groups.group_size;
    "merge-l2" => wake_groups.merge_small_l2;
    "group-map" => wake_groups.map;
    "contention" => wake_groups.on_contention;
    "rescue-llc" => wake_groups.rescue_llc;
    "rescue-any" => wake_groups.rescue_any;
    "glance-vain" => wake_groups.glance_vain;
    "overflow" => wake_groups.overflow_factor;
    "short-runs" => wake_groups.short_runs;
    "short-busy" => wake_groups.short_busy;
    "short-waker" => wake_groups.waker_runs;
    "filter" => idle_filter.mode;
    "filter-margin" => idle_filter.cutoff_margin_pct;
    "filter-sample" => idle_filter.sample;
    "publish-delay" => idle_filter.publish_delay;
    "mask-below" => idle_filter.mask_below;
    "probe-above" => idle_filter.probe_above;
    "filter-regime" => idle_filter.regime;
    "probe-every" => idle_filter.probe_every;
    "filter-looks" => idle_filter.looks;
    "filter-light-load" => idle_filter.light_load;
    "filter-reserve" => idle_filter.reserve;
    "aggregation" => aggregation.mode;
    "epoch" => aggregation.epoch;
    "ttl" => aggregation.ttl;
    "hysteresis" => aggregation.hysteresis;
    "max-set" => aggregation.max_set;
    "sets-guards" => aggregation.guards;
    "sets-fit" => aggregation.fit;
    "sets-greater" => aggregation.greater;
    "sets-pull-after" => aggregation.pull_after;
    "sets-drift" => aggregation.drift;
    "sets-wide" => aggregation.wide;
    "sets-wakees" => aggregation.wakees_for;
    "sets-known-after" => aggregation.known_after;
    "export-batch" => aggregation.export_batch;
    "sets-steal-after" => aggregation.force_steal_after;
    "spread-slice" => aggregation.spread_slice;
    "spread-wakes" => aggregation.spread_wakes;
    "cap" => migration_cap.mode;
    "cap-window" => migration_cap.window;
    "cap-quota" => migration_cap.quota;
    "cap-fits" => migration_cap.fits;
    "cap-light-load" => migration_cap.light_load;
    "cap-stalled-home" => migration_cap.stalled_home;
    "lazy" => lazy_counters.mode;
    "lazy-interval" => lazy_counters.interval;
    "lazy-div" => lazy_counters.threshold_div;
    "numa" => numa.mode;
    "numa-div" => numa.tolerance_div;
    "numa-llc" => numa.llc_tolerance;
    "numa-queues-up" => numa.queues_up;
    "numa-looks" => numa.looks;
    "numa-imbalance" => numa.min_imbalance;
    "numa-steal-after" => numa.steal_after;
    "numa-set" => numa.small_set;
    "gates" => steal.gates;
    "gate-start" => steal.gate_start;
    "move-cost" => steal.move_cost;
    "steal-cheap" => steal.cheap_max;
    "steal-pause" => steal.pause;
    "steal-batch" => steal.batch;
    "group-batch" => steal.group_batch;
    "skip-age" => skip.max_age;
    "skip-count" => skip.max_count;
    "wake-cost" => wake_cost.mode;
    "wake-cost-first" => wake_cost.first;
    "wake-cost-least" => wake_cost.least;
    "wake-cost-most" => wake_cost.most;
    "wake-cost-kept" => wake_cost.kept;
    "wake-cost-look" => wake_cost.look;
    "wake-cost-burst" => wake_cost.burst;
    "solo" => solo.mode;
    "solo-window" => solo.window;
    "solo-gain" => solo.gain;
    "solo-hold" => solo.hold;
    "solo-pause" => solo.pause;
    "solo-moves" => solo.moves;
    "solo-run" => solo.run;
    "overtake" => overtake.mode;
    "overtake-poll" => overtake.poll;
    "overtake-time" => overtake.time;
    "bind-slack" => bind.slack;
    "bind-div" => bind.share_div;
    "bind-patience" => bind.patience;
    "bind-pause" => bind.pause;
    "bind-rescue" => bind.rescue;
    "bind-waiting" => bind.waiting;
    "bind-waiting-rescue" => bind.waiting_rescue;
    "pin-few" => pin.few;
    "pin-look" => pin.look;
    "pin-delay-div" => pin.delay_div;
    "adversary" => adversary;
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads the text form and validates the result.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let tokens = text.split(',').map(str::trim);
        for (position, token) in tokens.enumerate() {
            match token.split_once('=') {
                Some(("cap", value)) => set_cap(&mut config, value)?,
                Some((name, value)) => set(&mut config, name, value)?,
                None if token.is_empty() && text.trim().is_empty() => {}
                None if position == 0 && token == "default" => {}
                None if position == 0 && token == "baseline" => config = Self::baseline(),
                None if token.is_empty() => {
                    return Err(syntax(String::from(
                        "an empty item between commas: expected name=value",
                    )));
                }
                None => {
                    return Err(syntax(format!(
                        "`{token}`: expected name=value, or default or baseline in the first place"
                    )));
                }
            }
        }
        config.validate()?;
        Ok(config)
    }
}

/// `mode[:quota][:window]`, the last two told apart by the window's unit.
fn set_cap(config: &mut Config, value: &str) -> Result<(), ConfigError> {
    let mut parts = value.split(':');
    set(config, "cap", parts.next().unwrap_or_default())?;
    let (mut quota, mut window) = (None, None);
    for part in parts {
        let (name, before) = if part.bytes().all(|byte| byte.is_ascii_digit()) {
            ("cap-quota", &mut quota)
        } else {
            ("cap-window", &mut window)
        };
        set(config, name, part)?;
        if let Some(before) = before.replace(part) {
            return Err(syntax(format!(
                "`cap={value}`: {name} is `{before}` and `{part}`: expected mode[:quota][:window], the window with a unit, such as 2ms"
            )));
        }
    }
    Ok(())
}

/// What a value of a [`Config`] looks like as text.
trait Value: Sized {
    const EXPECTED: &'static str;

    fn read(text: &str) -> Option<Self>;

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

struct Written<'a, T>(&'a T);

impl<T: Value> fmt::Display for Written<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

fn read<T: Value>(name: &str, value: &str) -> Result<T, ConfigError> {
    T::read(value).ok_or_else(|| syntax(format!("`{name}={value}`: expected {}", T::EXPECTED)))
}

fn unknown(name: &str) -> ConfigError {
    let names: String = NAMES.join(", ");
    syntax(format!("`{name}` is no name of a constant; expected one of {names}"))
}

fn syntax(message: String) -> ConfigError {
    ConfigError {
        message,
        kind: ErrorKind::Syntax,
    }
}

macro_rules! displayed {
    ($($type:ty, $expected:literal;)*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

displayed! {
    bool, "true or false";
    u8, "a number from 0 to 255";
    u16, "a number from 0 to 65535";
    u32, "a number from 0 to 4294967295";
    Nanos, "a number and a unit (ns, us, ms, s), such as 50us";
    GroupSize, "l2 or a number of workers";
}

/// Seeds are written the way people write them: `0x5eed`.
impl Value for u64 {
    const EXPECTED: &'static str = "a number, decimal or 0x…";

    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#x}")
    }
}

impl Value for Option<GroupMap> {
    const EXPECTED: &'static str = "none or groups of workers, each worker once, such as 0+2/1+3-5";

    fn read(text: &str) -> Option<Self> {
        match text {
            "none" => Some(None),
            _ => text.parse().ok().map(Some),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            None => f.write_str("none"),
            Some(map) => fmt::Display::fmt(map, f),
        }
    }
}

macro_rules! words {
    ($($type:ty, $expected:literal: $($variant:ident = $word:literal),*;)*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;

            fn read(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)*
                })
            }
        }
    )*};
}

words! {
    Mode, "off, on or auto": Off = "off", On = "on", Auto = "auto";
    CapMode, "off, fixed, adaptive or auto":
        Off = "off", Fixed = "fixed", Adaptive = "adaptive", Auto = "auto";
    OnContention, "mailbox or spin": Mailbox = "mailbox", Spin = "spin";
    Adversary, "none, zero, random or farthest":
        None = "none", AlwaysWorkerZero = "zero", Random = "random", Farthest = "farthest";
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Reads `text`, compares with `change` applied to the default, and writes it back as `written`.
    fn check(text: &str, change: impl FnOnce(&mut Config), written: &str) {
        let mut expected = Config::default();
        change(&mut expected);
        let config: Config = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config, expected, "{text}");
        assert_eq!(config.to_string(), written, "{text}");
        assert_eq!(written.parse(), Ok(config), "{written}");
    }

    #[test]
    fn texts_that_are_configurations() {
        check("", |_| {}, "default");
        check("default", |_| {}, "default");
        check("budget=128", |_| {}, "default");
        check("budget=1,budget=200", |c| c.budget = 200, "budget=200");
        check("group=4", |c| c.wake_groups.group_size = GroupSize::Fixed(4), "group=4");
        check(
            "group=4, filter=on, cap=adaptive:1ms, wake-cost=off",
            |c| {
                c.wake_groups.group_size = GroupSize::Fixed(4);
                c.idle_filter.mode = Mode::On;
                c.migration_cap.mode = CapMode::Adaptive;
                c.wake_cost.mode = Mode::Off;
            },
            "group=4,filter=on,cap=adaptive,wake-cost=off",
        );
        check(
            "cap=fixed:1:2ms",
            |c| {
                c.migration_cap.mode = CapMode::Fixed;
                c.migration_cap.quota = 1;
                c.migration_cap.window = Nanos::from_millis(2);
            },
            "cap=fixed,cap-window=2ms,cap-quota=1",
        );
        check(
            "seed=0xabc,merge-l2=true,contention=spin,adversary=random",
            |c| {
                c.seed = 0xabc;
                c.wake_groups.merge_small_l2 = true;
                c.wake_groups.on_contention = OnContention::Spin;
                c.adversary = Adversary::Random;
            },
            "seed=0xabc,merge-l2=true,contention=spin,adversary=random",
        );
        check(
            "group-map=0+2/1+3-5, steal-batch=8,group-batch=2,mask-below=100,probe-above=600,filter-regime=5ms",
            |c| {
                c.wake_groups.map = Some("0+2/1+3-5".parse().unwrap());
                (c.steal.batch, c.steal.group_batch) = (8, 2);
                (c.idle_filter.mask_below, c.idle_filter.probe_above) = (100, 600);
                c.idle_filter.regime = Nanos::from_millis(5);
            },
            "group-map=0+2/1+3-5,mask-below=100,probe-above=600,filter-regime=5ms,steal-batch=8,group-batch=2",
        );
    }

    /// It is read into that, and written back under it.
    #[test]
    fn each_name_has_its_own_field() {
        let text = "poll-early=6,poll-vain=7,look-up=1ms,observe=4,timer-looks=5,timer-slack-div=3,short-waker=2,probe-every=9,filter-looks=5,sets-wakees=2s,sets-known-after=3,export-batch=17,\
                    numa-llc=3,numa-queues-up=4,numa-looks=6,steal-cheap=7,wake-cost-first=11us,wake-cost-least=2us,\
                    wake-cost-most=99us,wake-cost-kept=12us,wake-cost-look=7ms,wake-cost-burst=3,\
                    solo-window=3ms,solo-gain=4,solo-hold=5ms,solo-pause=6ms,solo-moves=7,solo-run=8us,overtake-poll=9us,overtake-time=4ms,bind-slack=1,bind-div=3,bind-patience=4ms,bind-pause=5ms,bind-rescue=6,\
                    bind-waiting=7,bind-waiting-rescue=9,pin-few=5,pin-look=2s,pin-delay-div=11";
        check(
            text,
            |c| {
                (c.look_up, c.observed) = (Nanos::from_millis(1), 4);
                (c.poll_early, c.poll_vain) = (6, 7);
                (c.timers.looks, c.timers.slack_div) = (5, 3);
                (c.wake_groups.waker_runs, c.idle_filter.probe_every, c.idle_filter.looks) = (2, 9, 5);
                let sets = &mut c.aggregation;
                (sets.wakees_for, sets.known_after, sets.export_batch) = (Nanos::from_millis(2_000), 3, 17);
                (c.numa.llc_tolerance, c.numa.queues_up, c.numa.looks) = (3, 4, 6);
                c.steal.cheap_max = 7;
                c.wake_cost.first = Nanos::from_micros(11);
                (c.wake_cost.least, c.wake_cost.most) = (Nanos::from_micros(2), Nanos::from_micros(99));
                (c.wake_cost.kept, c.wake_cost.burst) = (Nanos::from_micros(12), 3);
                c.wake_cost.look = Nanos::from_millis(7);
                (c.solo.window, c.solo.gain) = (Nanos::from_millis(3), 4);
                (c.solo.hold, c.solo.pause) = (Nanos::from_millis(5), Nanos::from_millis(6));
                (c.solo.moves, c.solo.run) = (7, Nanos::from_micros(8));
                (c.overtake.poll, c.overtake.time) = (Nanos::from_micros(9), Nanos::from_millis(4));
                (c.bind.slack, c.bind.share_div) = (1, 3);
                (c.bind.patience, c.bind.pause) = (Nanos::from_millis(4), Nanos::from_millis(5));
                (c.bind.rescue, c.bind.waiting, c.bind.waiting_rescue) = (6, 7, 9);
                (c.pin.few, c.pin.look, c.pin.delay_div) = (5, Nanos::from_millis(2_000), 11);
            },
            text,
        );
    }

    #[test]
    fn baseline_is_a_text_like_others() {
        let baseline = "timer-looks=0,groups=off,filter=off,aggregation=off,cap=off,lazy=off,numa=off,gates=off,wake-cost=off,solo=off,overtake=off";
        check("baseline", |c| *c = Config::baseline(), baseline);
        check(baseline, |c| *c = Config::baseline(), baseline);
    }

    #[test]
    fn every_word_is_read_and_written() {
        for name in [
            "groups",
            "filter",
            "aggregation",
            "lazy",
            "numa",
            "gates",
            "wake-cost",
            "solo",
            "overtake",
        ] {
            for word in ["off", "on"] {
                let text = format!("{name}={word}");
                let config: Config = text.parse().unwrap();
                assert_eq!(config.to_string(), text);
            }
            assert_eq!(format!("{name}=auto").parse(), Ok(Config::default()));
        }
        for word in ["off", "fixed", "adaptive"] {
            let text = format!("cap={word}");
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
        for word in ["zero", "random", "farthest"] {
            let text = format!("adversary={word}");
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
    }

    fn check_error(text: &str, message: &str) {
        let error = text.parse::<Config>().expect_err(text);
        assert!(error.is_syntax() && !error.is_range(), "{text}");
        assert!(error.to_string().starts_with(message), "{text}: {error}");
    }

    #[test]
    fn texts_that_are_none() {
        check_error("sping=1us", "`sping` is no name of a constant; expected one of spin, ");
        check_error("spin=1", "`spin=1`: expected a number and a unit");
        check_error("group=four", "`group=four`: expected l2 or a number");
        check_error("filter=yes", "`filter=yes`: expected off, on or auto");
        check_error("cap=fixed:x", "`cap-window=x`: expected a number and a unit");
        check_error("cap=fixed:300", "`cap-quota=300`: expected a number from 0 to 255");
        check_error(
            "cap=fixed:1:2",
            "`cap=fixed:1:2`: cap-quota is `1` and `2`: expected mode[:quota][:window]",
        );
        check_error(
            "cap=fixed:1ms:2ms",
            "`cap=fixed:1ms:2ms`: cap-window is `1ms` and `2ms`: expected",
        );
        check_error("cap=fixed:1:2ms:3", "`cap=fixed:1:2ms:3`: cap-quota is `1` and `3`");
        check_error("group-map=0/0", "`group-map=0/0`: expected none or groups of workers");
        check_error("budget=128,baseline", "`baseline`: expected name=value");
        check_error("budget=1,,spin=1us", "an empty item between commas");
        check_error("budget", "`budget`: expected name=value");
    }

    #[test]
    fn texts_are_validated() {
        let error = "budget=0".parse::<Config>().expect_err("zero");
        assert!(error.is_range());
    }
}
