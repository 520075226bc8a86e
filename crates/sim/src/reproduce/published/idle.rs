//! The idle filter and the cut-off of searches by utilisation.

use super::{Against, Asked, Axis, Figure, Published, Rule, Scale, Unit};
use crate::reproduce::claim::Span;

pub(super) const FIGURES: &[Figure] = &[E, F];

const E: Figure = Figure {
    row: "E",
    title: "a mask of idle workers against a linear scan",
    experiment: "hackbench-thread-pipe and -process-pipe (mmtests) on 2x Xeon 8260 (96 CPUs, 48 an LLC), SIS filter v4",
    reading: "time saved in percent; more is better.",
    sources: &["20220619120451.95251-1-wuyun.abel@bytedance.com"],
    axis: Axis::Numbers {
        name: "groups",
        at: &[1.0, 4.0, 7.0, 12.0, 21.0, 30.0, 48.0, 79.0, 110.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[
        Published {
            name: "threads",
            values: &[0.50, -5.03, -0.25, 5.77, 21.20, 35.49, 23.52, 12.11, 10.08],
            counts: "%",
            scale: Scale::AsIs,
        },
        Published {
            name: "processes",
            values: &[-7.78, 0.62, 2.86, 1.71, 3.70, 10.48, 23.70, 15.03, 12.84],
            counts: "%",
            scale: Scale::AsIs,
        },
    ],
    asked: &[
        Asked {
            text: "the hump lies at 21 to 48 groups",
            of: "shipped model",
            against: Against::Nothing,
            rule: Rule::PeakIn {
                span: Span::new(21.0, 48.0),
            },
        },
        Asked {
            text: "never a loss of more than 2 %, where the kernel's filter lost 5 to 8 %",
            of: "shipped model",
            against: Against::Nothing,
            rule: Rule::AtLeast {
                span: Span::ALL,
                value: -2.0,
            },
        },
    ],
};

const F: Figure = Figure {
    row: "F",
    title: "no search where everybody is busy",
    experiment: "netperf TCP_RR, pairs at 25 to 200 % of the CPUs (2x 56 CPUs an LLC), SIS_UTIL",
    reading: "throughput relative to no cut-off; more is better. The source's table is flat up to 150 % and about three \
              times above; values in between are not copied.",
    sources: &["20220612163428.849378-1-yu.c.chen@intel.com"],
    axis: Axis::Numbers {
        name: "pairs, % of the CPUs",
        at: &[25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 175.0, 200.0],
        log: false,
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "throughput",
        values: &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0],
        counts: "",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "flat up to 150 %",
            of: "throughput",
            against: Against::Nothing,
            rule: Rule::Flat {
                span: Span::new(25.0, 150.0),
                points: 10.0,
            },
        },
        Asked {
            text: "at least 1.5 times at 175 and 200 %",
            of: "throughput",
            against: Against::Nothing,
            rule: Rule::AtLeast {
                span: Span::new(175.0, 200.0),
                value: 1.5,
            },
        },
    ],
};
