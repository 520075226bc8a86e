//! Aggregation: tasks that share data prefer one last-level cache.

use super::{Against, Asked, Axis, Figure, Published, Rule, Scale, Unit};
use crate::reproduce::claim::Span;

const V3_MAIL: &str = "https://lkml.iu.edu/2506.3/00661.html (Chen Yu, 24 June 2025, on the series v3)";

pub(super) const FIGURES: &[Figure] = &[L, M, N, O, P];

const L: Figure = Figure {
    row: "L",
    title: "one small group in one cache",
    experiment: "hackbench-thread-pipe, 1 group, 1 to 6 descriptors, on 4 Milan nodes of 4 LLCs of 8 CPUs",
    reading: "time saved in percent; more is better. The coefficient of variation at 2 is 44 %.",
    sources: &[V3_MAIL],
    axis: Axis::Numbers {
        name: "descriptors",
        at: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        log: false,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[2.84, 42.82, 17.33, 12.49, 8.62, 12.73],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "a gain at each, if the group is declared",
            of: "gain, declared",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 1.0, slack: 5.0 },
        },
        Asked {
            text: "a gain at each, if it is a program that declares nothing",
            of: "gain, undeclared",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 1.0, slack: 5.0 },
        },
    ],
};

const M: Figure = Figure {
    row: "M",
    title: "aggregation over load",
    experiment: "hackbench, 20 descriptors, 1 to 16 groups, on 2x Sapphire Rapids of 30 cores",
    reading: "time saved in percent; more is better.",
    sources: &["cover.1760206683.git.tim.c.chen@linux.intel.com"],
    axis: Axis::Numbers {
        name: "groups",
        at: &[1.0, 3.0, 5.0, 7.0, 12.0, 16.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[31.0, -1.0, 1.0, 1.0, 0.0, -1.0],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[Asked {
        text: "a gain with one group, none with more",
        of: "gain",
        against: Against::Published("gain"),
        rule: Rule::SameSign { zero: 2.0, slack: 3.0 },
    }],
};

const N: Figure = Figure {
    row: "N",
    title: "aggregation of more workers than a cache has",
    experiment: "schbench (the program until 2022) wake-up p99 on 2x Zen3 (256 CPUs, 16 an LLC), aggregation without guards",
    reading: "p99 relative to no aggregation; less is better.",
    sources: &[V3_MAIL],
    axis: Axis::Numbers {
        name: "workers",
        at: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
        log: true,
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "p99",
        values: &[0.54, 0.56, 0.67, 0.63, 1.05, 32.04, 24.51, 14.56, 0.95, 1.00],
        counts: "",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "without guards p99 more than doubles, first where the workers outgrow the cache",
            of: "without guards",
            against: Against::Nothing,
            rule: Rule::ReachesIn {
                span: Span::new(32.0, 64.0),
                value: 2.0,
            },
        },
        Asked {
            text: "with guards never more than 3 % worse",
            of: "with guards",
            against: Against::Nothing,
            rule: Rule::AtMost {
                span: Span::ALL,
                value: 1.03,
            },
        },
    ],
};

const O: Figure = Figure {
    row: "O",
    title: "aggregation of tasks that share nothing",
    experiment: "stream on 2x Zen3 (256 CPUs, 16 an LLC), aggregation without guards",
    reading: "bandwidth relative to no aggregation; more is better. Bimodal in the source, CV 41 to 51 %.",
    sources: &[V3_MAIL],
    axis: Axis::Cases {
        name: "kernel",
        names: &["copy", "scale", "add", "triad"],
    },
    unit: Unit::Ratio,
    published: &[
        Published {
            name: "10 runs",
            values: &[0.39, 0.43, 0.40, 0.41],
            counts: "",
            scale: Scale::AsIs,
        },
        Published {
            name: "100 runs",
            values: &[0.36, 0.40, 0.38, 0.36],
            counts: "",
            scale: Scale::AsIs,
        },
    ],
    asked: &[
        Asked {
            text: "without guards bandwidth falls to 0.6 at most",
            of: "without guards",
            against: Against::Nothing,
            rule: Rule::AtMost {
                span: Span::ALL,
                value: 0.6,
            },
        },
        Asked {
            text: "with guards never more than 3 % worse",
            of: "with guards",
            against: Against::Nothing,
            rule: Rule::AtLeast {
                span: Span::ALL,
                value: 0.97,
            },
        },
    ],
};

const P: Figure = Figure {
    row: "P",
    title: "what the guards give away",
    experiment: "a Verilator simulation of 16 threads or more on Genoa: no aggregation, the default guards, tolerance 100",
    reading: "time relative to no aggregation; less is better. Published: 51.3, 51.7, 27.9 s.",
    sources: &["7cacde40-153b-4814-8460-0805f1eb7bdb@intel.com"],
    axis: Axis::Cases {
        name: "aggregation",
        names: &["off", "guarded", "unlimited"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "time",
        values: &[51.3, 51.7, 27.9],
        counts: "s",
        scale: Scale::ToFirst,
    }],
    asked: &[Asked {
        text: "guards change nothing, without them the time falls",
        of: "time",
        against: Against::Published("time"),
        rule: Rule::SameOrder {
            equal: 3.0,
            slack: 5.0,
            least: 2.0,
        },
    }],
};
