//! Small imbalance between nodes.

use super::{Against, Asked, Axis, Figure, Published, Rule, Scale, Unit};
use crate::reproduce::claim::Span;

pub(super) const FIGURES: &[Figure] = &[Q];

const fn packed(text: &'static str, of: &'static str) -> Asked {
    Asked {
        text,
        of,
        against: Against::Nothing,
        rule: Rule::AtMost {
            span: Span::at(1.0),
            value: 0.7,
        },
    }
}

const Q: Figure = Figure {
    row: "Q",
    title: "four threads that share a cache line, on one node or on several",
    experiment: "two threads read and two increment a field of one struct, 1e9 times each, on 4 nodes of 24 CPUs",
    reading: "time relative to spreading over the nodes; less is better. Published: 10.73 and 6.78 s, with a quarter of a \
              node as threshold.",
    sources: &[
        "Barry Song, \"[RFC] sched/numa: don't move tasks to idle numa nodes while src node has very light load?\", \
                linux-kernel, 7 September 2020",
    ],
    axis: Axis::Cases {
        name: "placement",
        names: &["spread", "packed"],
    },
    unit: Unit::Ratio,
    published: &[Published {
        name: "time",
        values: &[10.734_581, 6.775_150],
        counts: "s",
        scale: Scale::ToFirst,
    }],
    asked: &[
        packed(
            "the kernel with divisor 4 (a quarter of the node) takes at least 30 % off",
            "kernel model, divisor 4",
        ),
        packed("divisor 4 (a quarter of the node) takes at least 30 % off", "divisor 4"),
        packed("a declared set of four takes at least 30 % off", "declared set"),
    ],
};
