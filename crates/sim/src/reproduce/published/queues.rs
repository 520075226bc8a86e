//! Grouped wake queues and lazily published counters: who may take which lock, and who reads which count.

use super::{Against, Asked, Axis, Figure, Published, Rule, Scale, Unit};
use crate::reproduce::claim::Span;

const DESNOYERS: &str = "Mathieu Desnoyers, replies of 23 and 24 August 2023 to the series \
    20230822113133.643238-4-mathieu.desnoyers@efficios.com";
const AARON_LU: &str = "Aaron Lu, reply of 25 August 2023 to the series \
    20230822113133.643238-4-mathieu.desnoyers@efficios.com";

/// What times `before` and `after` gain, in percent.
const fn gain(before: f64, after: f64) -> f64 {
    (before / after - 1.0) * 100.0
}

pub(super) const FIGURES: &[Figure] = &[A, A_PRIME, B, C, D, G, R, S, T];

const A: Figure = Figure {
    row: "A",
    title: "size of the group in which wakers take queue locks",
    experiment: "hackbench -g 32 -f 20 --threads --pipe -l 480000 -s 100 on 2x EPYC 9654 (384 threads, 16 an LLC), wake-ups \
                 direct inside groups of 1, 2, 4, 8, 16 and queued across",
    reading: "time relative to groups of one; less is better. The cost file is calibrated on this row's kernel model and on \
              nothing else.",
    sources: &[DESNOYERS],
    axis: Axis::Numbers {
        name: "workers in a group",
        at: &[1.0, 2.0, 4.0, 8.0, 16.0],
        log: true,
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "hackbench time",
        values: &[33.0, 34.0, 34.0, 39.0, 49.0],
        counts: "s",
        scale: Scale::ToFirst,
    }],
    asked: &[
        Asked {
            text: "the kernel model within 10 points at each size",
            of: "kernel model",
            against: Against::Published("hackbench time"),
            rule: Rule::Within { points: 10.0 },
        },
        Asked {
            text: "the shipped model in the same order: 1, 2 and 4 alike, 8 slower, 16 slowest",
            of: "shipped model",
            against: Against::Published("hackbench time"),
            rule: Rule::SameOrder {
                equal: 5.0,
                slack: 8.0,
                least: 2.0,
            },
        },
    ],
};

const A_PRIME: Figure = Figure {
    row: "A'",
    title: "groups of three scattered over caches and nodes",
    experiment: "row A with group = CPU number modulo 192",
    reading: "time relative to groups of one; the number of contenders matters, not the cache they share.",
    sources: &[DESNOYERS],
    axis: Axis::Cases {
        name: "groups",
        names: &["of one", "of three, scattered"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "hackbench time",
        values: &[33.0, 33.0],
        counts: "s",
        scale: Scale::ToFirst,
    }],
    asked: &[Asked {
        text: "scattered groups within 5 points of groups of one",
        of: "kernel model",
        against: Against::Nothing,
        rule: Rule::Flat {
            span: Span::ALL,
            points: 5.0,
        },
    }],
};

const B: Figure = Figure {
    row: "B",
    title: "the L2 as unit instead of the LLC, over load",
    experiment: "hackbench -g 10, 20, 32 -f 20 --pipe --threads -l 480000 -s 100 on 2x Sapphire Rapids (224 threads), Linux \
                 6.5-rc1 against the L2 series",
    reading: "gain in percent (time of the LLC unit over time of the L2 unit); more is better. At 1 and 4 groups another \
              machine (2x Zen4) showed no difference, without figures.",
    sources: &[AARON_LU, "f6dc1652-bc39-0b12-4b6b-29a2f9cd8484@amd.com (1 to 4 groups)"],
    axis: Axis::Numbers {
        name: "groups",
        at: &[1.0, 4.0, 10.0, 20.0, 32.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[
            f64::NAN,
            f64::NAN,
            gain(46.0, 37.0),
            gain(69.0, 41.0),
            gain(192.0, 71.0),
        ],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "the gain grows with load",
            of: "gain, shared counters",
            against: Against::Nothing,
            rule: Rule::Grows {
                span: Span::new(10.0, 32.0),
                slack: 1.0,
            },
        },
        Asked {
            text: "there is a gain from 10 groups on",
            of: "gain, shared counters",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 2.0, slack: 5.0 },
        },
        Asked {
            text: "there is none at 1 and 4 groups",
            of: "gain, shared counters",
            against: Against::Nothing,
            rule: Rule::Flat {
                span: Span::new(1.0, 4.0),
                points: 3.0,
            },
        },
    ],
};

const C: Figure = Figure {
    row: "C",
    title: "row B once counters are published lazily",
    experiment: "as row B, with the rate limit on tg->load_avg in the base",
    reading: "gain in percent, as in row B.",
    sources: &[AARON_LU],
    axis: Axis::Numbers {
        name: "groups",
        at: &[10.0, 20.0, 32.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[
        Published {
            name: "gain, shared counters",
            values: &[gain(46.0, 37.0), gain(69.0, 41.0), gain(192.0, 71.0)],
            counts: "%",
            scale: Scale::AsIs,
        },
        Published {
            name: "gain, lazy counters",
            values: &[gain(36.0, 35.0), gain(47.0, 42.0), gain(70.0, 70.0)],
            counts: "%",
            scale: Scale::AsIs,
        },
    ],
    asked: &[Asked {
        text: "with lazy counters at most half of the gain is left",
        of: "gain, lazy counters",
        against: Against::Simulated("gain, shared counters"),
        rule: Rule::AtMostShare { share: 0.5, least: 5.0 },
    }],
};

const D: Figure = Figure {
    row: "D",
    title: "lazily published counters, over load",
    experiment: "hackbench, pipes and threads, 1, 4, 8, 16 groups on 2x Sapphire Rapids (224 threads)",
    reading: "throughput gained in percent; more is better. 1 and 4 groups are noise in the source.",
    sources: &["commit 1528c661c24b (20230912065808.2530-2-aaron.lu@intel.com)"],
    axis: Axis::Numbers {
        name: "groups",
        at: &[1.0, 4.0, 8.0, 16.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[0.0, 0.0, 12.5, 48.8],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "nothing at 1 and 4 groups, a gain above",
            of: "gain",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 2.0, slack: 4.0 },
        },
        Asked {
            text: "the gain grows with load",
            of: "gain",
            against: Against::Nothing,
            rule: Rule::Grows {
                span: Span::new(4.0, 16.0),
                slack: 1.0,
            },
        },
    ],
};

const G: Figure = Figure {
    row: "G",
    title: "why row B gains: what searches find",
    experiment: "counters over 5 s of row B at 20 groups",
    reading: "count with the L2 unit over count with the LLC unit: 11.9 to 4.3 million moves to an idle CPU that a search \
              found, 4.1 to 14.3 million searches that the utilisation cut off, 8 to 2 % idle time.",
    sources: &["20230905072141.GA253439@ziqianlu-dell"],
    axis: Axis::Cases {
        name: "counter",
        names: &["moves to a found idle CPU", "searches cut off", "idle time"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "change",
        values: &[4.3 / 11.9, 14.3 / 4.1, 2.0 / 8.0],
        counts: "",
        scale: Scale::AsIs,
    }],
    asked: &[Asked {
        text: "moves fall, cut searches rise, idle time falls",
        of: "change",
        against: Against::Published("change"),
        rule: Rule::SameSign { zero: 1.0, slack: 1.0 },
    }],
};

const R: Figure = Figure {
    row: "R",
    title: "the L2 cluster is searched first",
    experiment: "netperf TCP_RR pairs on 32 CPUs of a Kunpeng 920 (clusters of 4 cores)",
    reading: "transactions gained in percent; more is better.",
    sources: &["20230530070253.33306-3-yangyicong@huawei.com"],
    axis: Axis::Numbers {
        name: "pairs",
        at: &[1.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[20.0, 17.0, 17.0, 15.0, 1.5, 0.0, 1.0],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "a gain of the kernel model while clusters have idle members, none above",
            of: "kernel model, gain",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 2.0, slack: 5.0 },
        },
        Asked {
            text: "the same of the shipped model",
            of: "gain",
            against: Against::Published("gain"),
            rule: Rule::SameSign { zero: 2.0, slack: 5.0 },
        },
    ],
};

const S: Figure = Figure {
    row: "S",
    title: "one queue an LLC",
    experiment: "netperf TCP_RR, clients rising to 512, SHARED_RUNQ v3 on 2x Zen4 (16 threads an LLC)",
    reading: "throughput gained in percent; more is better. The source gives 0 to -3 % for few clients, four losses, then a \
              gain when overloaded; which client count each belongs to is our reading.",
    sources: &["ZOc7i7wM0x4hF4vL@BLR-5CG11610CF.amd.com"],
    axis: Axis::Numbers {
        name: "clients",
        at: &[1.0, 8.0, 32.0, 64.0, 128.0, 256.0, 512.0],
        log: true,
    },
    unit: Unit::Percent,
    published: &[Published {
        name: "gain",
        values: &[0.0, -3.0, -61.0, -75.0, -84.0, -88.0, 40.0],
        counts: "%",
        scale: Scale::AsIs,
    }],
    asked: &[
        Asked {
            text: "one queue an LLC loses from 32 to 256 clients",
            of: "gain",
            against: Against::Nothing,
            rule: Rule::AtMost {
                span: Span::new(32.0, 256.0),
                value: -5.0,
            },
        },
        Asked {
            text: "and next to nothing with few clients",
            of: "gain",
            against: Against::Nothing,
            rule: Rule::Flat {
                span: Span::new(1.0, 8.0),
                points: 8.0,
            },
        },
    ],
};

const T: Figure = Figure {
    row: "T",
    title: "far searches gated by their success",
    experiment: "schbench on 2x Sapphire Rapids: newly idle balancing always, gated, and never (the ideal for this load)",
    reading: "requests a second relative to the first; more is better.",
    sources: &["commit 33cf66d88306 (20251107161739.770122091@infradead.org)"],
    axis: Axis::Cases {
        name: "far search",
        names: &["always", "gated", "never"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "requests/s",
        values: &[2.04, 2.18, 2.22],
        counts: "M/s",
        scale: Scale::ToFirst,
    }],
    asked: &[
        Asked {
            text: "gated beats always",
            of: "requests/s",
            against: Against::Nothing,
            rule: Rule::AtLeast {
                span: Span::at(1.0),
                value: 1.005,
            },
        },
        Asked {
            text: "each case within 5 points",
            of: "requests/s",
            against: Against::Published("requests/s"),
            rule: Rule::Within { points: 5.0 },
        },
    ],
};
