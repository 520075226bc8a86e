//! The range of every constant.

use alloc::{format, string::String, vec::Vec};
use core::{fmt::Display, ops::RangeInclusive};

use quadrille_topology::GroupSize;

use super::{Config, ConfigError, ErrorKind};
use crate::{GROUP_LEN_MAX, Nanos};

impl Config {
    /// Whether every constant is within its range.
    ///
    /// # Errors
    /// [`ConfigError::is_range`] naming the first field that is not, its value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_scheduler()?;
        self.validate_threads()?;
        self.validate_placement()?;
        self.validate_far()
    }

    fn validate_scheduler(&self) -> Result<(), ConfigError> {
        within("spin_max", self.spin_max, span(0, SECOND))?;
        within("spin_vain", self.spin_vain, 1..=u8::MAX)?;
        within("spin_probe", self.spin_probe, 1..=u8::MAX)?;
        within("poll_interval", self.poll_interval, span(0, SECOND))?;
        within("poll_dry", self.poll_dry, span(0, SECOND))?;
        within("poll_vain", self.poll_vain, 1..=u8::MAX)?;
        within("coalesce", self.coalesce, span(0, 100_000))?;
        within("sentinel_interval", self.sentinel_interval, span(20_000, SECOND))?;
        within("slot_polls_max", self.slot_polls_max, 1..=u32::MAX)?;
        within("slot_time", self.slot_time, span(0, SECOND))?;
        within("budget", self.budget, 1..=u8::MAX)?;
        within("global_interval", self.global_interval, 1..=u32::MAX)?;
        within("look_up", self.look_up, span(1_000, SECOND))?;
        within("observed", self.observed, 1..=4096)?;
        within("timers.looks", self.timers.looks, 0..=4096)?;
        within("timers.slack_div", self.timers.slack_div, 1..=1000)?;
        within("wake_cost.first", self.wake_cost.first, span(0, SECOND))?;
        within("wake_cost.most", self.wake_cost.most, span(0, SECOND))?;
        within("wake_cost.kept", self.wake_cost.kept, span(0, SECOND))?;
        within("wake_cost.look", self.wake_cost.look, span(0, SECOND))?;
        let most = ("wake_cost.most", self.wake_cost.most);
        at_most("wake_cost.least", self.wake_cost.least, Nanos(0), most)?;
        let solo = &self.solo;
        within("solo.window", solo.window, span(100_000, SECOND / 10))?;
        within("solo.gain", solo.gain, 0..=1000)?;
        within("solo.hold", solo.hold, span(0, SECOND))?;
        within("solo.pause", solo.pause, span(0, 10 * SECOND))?;
        within("solo.moves", solo.moves, 1..=u32::MAX)?;
        within("solo.run", solo.run, span(0, SECOND))?;
        within("overtake.poll", self.overtake.poll, span(1_000, SECOND))?;
        within("overtake.time", self.overtake.time, span(0, SECOND))
    }

    fn validate_threads(&self) -> Result<(), ConfigError> {
        let bind = &self.bind;
        within("bind.slack", bind.slack, 0..=1_000_000)?;
        within("bind.share_div", bind.share_div, 1..=u32::MAX)?;
        within("bind.patience", bind.patience, span(0, SECOND))?;
        within("bind.pause", bind.pause, span(0, SECOND))?;
        within("bind.rescue", bind.rescue, 1..=4096)?;
        within("bind.waiting", bind.waiting, 0..=1_000_000)?;
        within("bind.waiting_rescue", bind.waiting_rescue, 1..=4096)?;
        within("pin.look", self.pin.look, span(1_000_000, 1000 * SECOND))?;
        within("pin.delay_div", self.pin.delay_div, 1..=u32::MAX)
    }

    fn validate_placement(&self) -> Result<(), ConfigError> {
        let groups = &self.wake_groups;
        if let GroupSize::Fixed(len) = groups.group_size {
            within("wake_groups.group_size", len, 1..=GROUP_LEN_MAX)?;
        }
        within("wake_groups.rescue_any", groups.rescue_any, span(0, SECOND))?;
        let any = ("wake_groups.rescue_any", groups.rescue_any);
        at_most("wake_groups.rescue_llc", groups.rescue_llc, Nanos(0), any)?;
        within("wake_groups.overflow_factor", groups.overflow_factor, 1..=1_000_000)?;
        within("wake_groups.short_runs", groups.short_runs, 0..=1000)?;
        within("wake_groups.short_busy", groups.short_busy, span(0, SECOND))?;
        within("wake_groups.waker_runs", groups.waker_runs, 1..=1000)?;

        let filter = &self.idle_filter;
        within("idle_filter.cutoff_margin_pct", filter.cutoff_margin_pct, 100..=1000)?;
        within("idle_filter.sample", filter.sample, span(100_000, SECOND))?;
        within("idle_filter.publish_delay", filter.publish_delay, span(0, 1_000_000))?;

        within("idle_filter.probe_above", filter.probe_above, 0..=1024)?;
        let above = ("idle_filter.probe_above", filter.probe_above);
        at_most("idle_filter.mask_below", filter.mask_below, 0, above)?;
        within("idle_filter.regime", filter.regime, span(100_000, 10 * SECOND))?;
        within("idle_filter.probe_every", filter.probe_every, 1..=u8::MAX)?;
        within("idle_filter.looks", filter.looks, 1..=64)?;
        within("idle_filter.light_load", filter.light_load, 0..=1024)?;
        within("idle_filter.reserve", filter.reserve, span(0, 1_000_000))?;

        let cap = &self.migration_cap;
        within("migration_cap.window", cap.window, span(10_000, SECOND))?;
        within("migration_cap.quota", cap.quota, 1..=u8::MAX)?;
        within("migration_cap.light_load", cap.light_load, 0..=1024)?;
        within("migration_cap.stalled_home", cap.stalled_home, span(0, SECOND))
    }

    fn validate_far(&self) -> Result<(), ConfigError> {
        let sets = &self.aggregation;
        within("aggregation.epoch", sets.epoch, span(1_000_000, 10 * SECOND))?;
        let epoch = ("aggregation.epoch", sets.epoch);
        at_least("aggregation.ttl", sets.ttl, epoch, Nanos(1000 * SECOND))?;
        within("aggregation.hysteresis", sets.hysteresis, 1..=16)?;
        within("aggregation.max_set", sets.max_set, 0..=1024)?;
        within("aggregation.fit", sets.fit, 0..=1024)?;
        within("aggregation.greater", sets.greater, 1024..=10_240)?;
        within("aggregation.pull_after", sets.pull_after, 1..=u8::MAX)?;
        within("aggregation.wide", sets.wide, 0..=64)?;
        within(
            "aggregation.wakees_for",
            sets.wakees_for,
            span(1_000_000, 1000 * SECOND),
        )?;
        within("aggregation.known_after", sets.known_after, 1..=1000)?;
        within("aggregation.export_batch", sets.export_batch, 1..=4096)?;
        within("aggregation.force_steal_after", sets.force_steal_after, span(0, SECOND))?;
        within("aggregation.spread_slice", sets.spread_slice, span(0, SECOND))?;

        within("lazy_counters.interval", self.lazy_counters.interval, span(0, SECOND))?;
        within(
            "lazy_counters.threshold_div",
            self.lazy_counters.threshold_div,
            1..=u32::MAX,
        )?;
        within("numa.tolerance_div", self.numa.tolerance_div, 1..=u16::MAX)?;
        within("numa.queues_up", self.numa.queues_up, 1..=1_000_000)?;
        within("numa.looks", self.numa.looks, 1..=u16::MAX)?;
        within("numa.steal_after", self.numa.steal_after, span(0, SECOND))?;
        within("steal.gate_start", self.steal.gate_start, 0..=1023)?;
        within("steal.move_cost", self.steal.move_cost, span(0, 1_000_000))?;
        within("steal.cheap_max", self.steal.cheap_max, 1..=u8::MAX)?;
        within("steal.pause", self.steal.pause, span(0, SECOND))?;
        within("steal.batch", self.steal.batch, 1..=4096)?;
        within("steal.group_batch", self.steal.group_batch, 0..=4096)?;
        within("skip.max_age", self.skip.max_age, span(0, SECOND))
    }
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

fn span(min_ns: u64, max_ns: u64) -> RangeInclusive<Nanos> {
    Nanos(min_ns)..=Nanos(max_ns)
}

fn within<T: PartialOrd + Display>(field: &str, value: T, range: RangeInclusive<T>) -> Result<(), ConfigError> {
    check(&[field], value, range)
}

/// A constant that is no more than another one, which is in its range.
fn at_most<T: PartialOrd + Display>(field: &str, value: T, min: T, (of, max): (&str, T)) -> Result<(), ConfigError> {
    check(&[field, of], value, min..=max)
}

/// The same for no less.
fn at_least<T: PartialOrd + Display>(field: &str, value: T, (of, min): (&str, T), max: T) -> Result<(), ConfigError> {
    check(&[field, of], value, min..=max)
}

/// `fields`: that of the value, and any other that its range depends on. An error has their names as text too: who has
/// set one there knows no other, and perhaps only the second.
fn check<T: PartialOrd + Display>(fields: &[&str], value: T, range: RangeInclusive<T>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    let names = fields.iter().map(|field| {
        let name = Config::name_of(field).unwrap_or(field);
        format!("`{name}`")
    });
    let names: Vec<String> = names.collect();
    let field = fields[0];
    Err(ConfigError {
        message: format!(
            "{field} is {value}, expected {min} to {max} ({})",
            names.join(", limited by ")
        ),
        kind: ErrorKind::Range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn defaults_and_baseline_are_valid() {
        assert_eq!(Config::default().validate(), Ok(()));
        assert_eq!(Config::baseline().validate(), Ok(()));
    }

    fn check(change: impl FnOnce(&mut Config), message: &str) {
        let mut config = Config::default();
        change(&mut config);
        let error = config.validate().expect_err(message);
        assert_eq!(error.to_string(), message);
        assert!(error.is_range() && !error.is_syntax());
    }

    #[test]
    fn what_is_out_of_range_nearby_is_named() {
        check(|c| c.budget = 0, "budget is 0, expected 1 to 255 (`budget`)");
        check(
            |c| c.sentinel_interval = Nanos(0),
            "sentinel_interval is 0ns, expected 20us to 1s (`sentinel`)",
        );
        check(
            |c| c.wake_groups.group_size = GroupSize::Fixed(65),
            "wake_groups.group_size is 65, expected 1 to 64 (`group`)",
        );
        check(
            |c| c.wake_groups.rescue_llc = Nanos::from_millis(1),
            "wake_groups.rescue_llc is 1ms, expected 0ns to 200us (`rescue-llc`, limited by `rescue-any`)",
        );
        check(
            |c| c.migration_cap.window = Nanos(0),
            "migration_cap.window is 0ns, expected 10us to 1s (`cap-window`)",
        );
        check(
            |c| c.migration_cap.quota = 0,
            "migration_cap.quota is 0, expected 1 to 255 (`cap-quota`)",
        );
        check(
            |c| c.idle_filter.mask_below = 513,
            "idle_filter.mask_below is 513, expected 0 to 512 (`mask-below`, limited by `probe-above`)",
        );
        check(
            |c| c.idle_filter.reserve = Nanos(1_000_001),
            "idle_filter.reserve is 1000001ns, expected 0ns to 1ms (`filter-reserve`)",
        );
    }

    #[test]
    fn what_is_out_of_range_far_away_is_named() {
        check(
            |c| c.steal.batch = 0,
            "steal.batch is 0, expected 1 to 4096 (`steal-batch`)",
        );
        check(
            |c| c.aggregation.ttl = Nanos::from_millis(9),
            "aggregation.ttl is 9ms, expected 10ms to 1000s (`ttl`, limited by `epoch`)",
        );
        check(
            |c| c.steal.gate_start = 1024,
            "steal.gate_start is 1024, expected 0 to 1023 (`gate-start`)",
        );
        check(
            |c| c.steal.move_cost = Nanos(1_000_001),
            "steal.move_cost is 1000001ns, expected 0ns to 1ms (`move-cost`)",
        );
        check(
            |c| c.wake_cost.least = Nanos::from_millis(20),
            "wake_cost.least is 20ms, expected 0ns to 10ms (`wake-cost-least`, limited by `wake-cost-most`)",
        );
        check(
            |c| c.wake_cost.kept = Nanos::from_millis(1_001),
            "wake_cost.kept is 1001ms, expected 0ns to 1s (`wake-cost-kept`)",
        );
        check(
            |c| c.wake_cost.look = Nanos(1_000_000_001),
            "wake_cost.look is 1000000001ns, expected 0ns to 1s (`wake-cost-look`)",
        );
        check(
            |c| c.solo.window = Nanos(0),
            "solo.window is 0ns, expected 100us to 100ms (`solo-window`)",
        );
        check(
            |c| c.solo.moves = 0,
            "solo.moves is 0, expected 1 to 4294967295 (`solo-moves`)",
        );
        check(
            |c| c.timers.slack_div = 0,
            "timers.slack_div is 0, expected 1 to 1000 (`timer-slack-div`)",
        );
        check(
            |c| c.bind.rescue = 0,
            "bind.rescue is 0, expected 1 to 4096 (`bind-rescue`)",
        );
        check(
            |c| c.look_up = Nanos::from_millis(1001),
            "look_up is 1001ms, expected 1us to 1s (`look-up`)",
        );
        check(
            |c| c.steal.pause = Nanos::from_millis(1001),
            "steal.pause is 1001ms, expected 0ns to 1s (`steal-pause`)",
        );
    }

    #[test]
    fn texts_are_answered_with_the_names_that_they_have() {
        for (text, message) in [
            (
                "epoch=100ms",
                "aggregation.ttl is 50ms, expected 100ms to 1000s (`ttl`, limited by `epoch`)",
            ),
            ("spin=2s", "spin_max is 2s, expected 0ns to 1s (`spin`)"),
            ("group=65", "wake_groups.group_size is 65, expected 1 to 64 (`group`)"),
        ] {
            let error = text.parse::<Config>().expect_err(text);
            assert_eq!(error.to_string(), message, "{text}");
        }
    }

    #[test]
    fn every_field_that_has_a_range_has_a_name() {
        let source = include_str!("validate.rs");
        let (product, _) = source.split_once("#[cfg(test)]").unwrap();
        let quoted: Vec<&str> = product.split('"').skip(1).step_by(2).collect();
        let fields = quoted.iter().filter(|text| !text.contains(['{', ' ']));
        assert!(fields.clone().count() > 60);
        for field in fields {
            assert!(Config::name_of(field).is_some(), "{field}");
        }
    }
}
