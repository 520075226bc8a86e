//! How often a task moves: preferring the previous worker, and capping migrations.

use super::{Against, Asked, Axis, Figure, Published, Rule, Scale, Unit};
use crate::reproduce::claim::Span;

pub(super) const FIGURES: &[Figure] = &[H, I, J, K];

/// A published effect on the time within these is none; simulated, it may be up to the second.
const TIME_ORDER: Rule = Rule::SameOrder {
    equal: 3.0,
    slack: 10.0,
    least: 2.0,
};

const fn in_order(text: &'static str, name: &'static str) -> Asked {
    Asked {
        text,
        of: name,
        against: Against::Published(name),
        rule: TIME_ORDER,
    }
}

const H: Figure = Figure {
    row: "H",
    title: "a busy previous CPU that still fits, and looking at it first",
    experiment: "hackbench -g 32 -f 20 --threads --pipe -l 480000 -s 100 on 2x EPYC 9654 (384 threads), Linux 6.5.5",
    reading: "relative to the base; less is better. Published: 49, 40, 49, 29.5 s and 117, 48, 75, 23 million migrations.",
    sources: &["20231019160523.1582101-1-mathieu.desnoyers@efficios.com"],
    axis: Axis::Cases {
        name: "policy",
        names: &["base", "fits", "previous first", "both"],
    },
    unit: Unit::Ratio,
    published: &[
        Published {
            name: "time",
            values: &[49.0, 40.0, 49.0, 29.5],
            counts: "s",
            scale: Scale::ToFirst,
        },
        Published {
            name: "migrations",
            values: &[117.0, 48.0, 75.0, 23.0],
            counts: "million",
            scale: Scale::ToFirst,
        },
    ],
    asked: &[
        in_order("times in the same order", "time"),
        in_order("migrations in the same order", "migrations"),
    ],
};

const I: Figure = Figure {
    row: "I",
    title: "back to the previous CPU while it is almost idle",
    experiment: "as row H, WAKEUP_BIAS_PREV_IDLE",
    reading: "relative to the base; less is better. Published: 49 and 32 s, 117 and 7 million migrations.",
    sources: &["20230929183350.239721-1-mathieu.desnoyers@efficios.com"],
    axis: Axis::Cases {
        name: "policy",
        names: &["base", "almost idle previous"],
    },
    unit: Unit::Ratio,
    published: &[
        Published {
            name: "time",
            values: &[49.0, 32.0],
            counts: "s",
            scale: Scale::ToFirst,
        },
        Published {
            name: "migrations",
            values: &[117.0, 7.0],
            counts: "million",
            scale: Scale::ToFirst,
        },
    ],
    asked: &[
        in_order("the time falls", "time"),
        in_order("migrations fall", "migrations"),
    ],
};

const J: Figure = Figure {
    row: "J",
    title: "a cap on migrations, fixed and adaptive",
    experiment: "as row H: one migration in 2 ms, and a quota of 10 in 2 ms that halves and recovers",
    reading: "time relative to no cap; less is better. Published: 62, 45, 45 s.",
    sources: &[
        "20230905171105.1005672-2-mathieu.desnoyers@efficios.com (fixed)",
        "20230905171105.1005672-3-mathieu.desnoyers@efficios.com (adaptive)",
    ],
    axis: Axis::Cases {
        name: "cap",
        names: &["none", "1 in 2 ms", "10 in 2 ms, adaptive"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "time",
        values: &[62.0, 45.0, 45.0],
        counts: "s",
        scale: Scale::ToFirst,
    }],
    asked: &[
        in_order("the time falls, with both alike", "time"),
        Asked {
            text: "the fixed cap takes at least 1.9 times the migrations away",
            of: "migrations",
            against: Against::Nothing,
            rule: Rule::AtMost {
                span: Span::at(1.0),
                value: 1.0 / 1.9,
            },
        },
    ],
};

const K: Figure = Figure {
    row: "K",
    title: "what staying at home costs where every CPU has a worker",
    experiment: "schbench wake-up p99 on 2x Zen3 (256 CPUs), bias to the previous CPU",
    reading: "p99 relative to no bias; less is better. The source has 0 to +8 % below 256 workers; the middle is drawn.",
    sources: &["85b710a9-5b26-b0df-8c21-c2768a21e182@amd.com"],
    axis: Axis::Cases {
        name: "workers",
        names: &["half the CPUs", "the CPUs"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "p99",
        values: &[1.04, 1.72],
        counts: "",
        scale: Scale::AsIs,
    }],
    asked: &[Asked {
        text: "with escapes at most 5 % more",
        of: "shipped model, p99",
        against: Against::Nothing,
        rule: Rule::AtMost {
            span: Span::ALL,
            value: 1.05,
        },
    }],
};
