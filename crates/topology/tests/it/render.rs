//! Pictures as text and as SVG.

use quadrille_topology::{GroupSize, Grouping, Groups, PuId, Topology, render};

fn parts(machine: &str) -> (Topology, Groups) {
    let topology: Topology = machine.parse().unwrap();
    let groups = topology.groups(Grouping::default());
    (topology, groups)
}

#[track_caller]
fn check_text(topology: &Topology, groups: &Groups, lines: &[&str]) {
    let text = render::text(topology, groups);
    assert!(text.ends_with('\n'));
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_small_machine_as_text() {
    let (topology, groups) = parts("l2:2 os:0,7 l2-size:1048576 llc-size:1572864");
    check_text(
        &topology,
        &groups,
        &[
            "Machine (2 hardware threads, 2 cores, 1 group, 1 LLC, 1 node)",
            "  Node L#0 (P#0)",
            "    LLC L#0 (1536 KiB)",
            "      Group L#0 (2 hardware threads, L2 L#0-1 (1 MiB each))",
            "        Core L#0, L2 L#0 + PU L#0 (P#0)",
            "        Core L#1, L2 L#1 + PU L#1 (P#7)",
        ],
    );
}

#[test]
fn merged_and_split_l2s_as_text() {
    let topology: Topology = "l2:[2*pu:2, core:5] l2-size:1024,1024,4096".parse().unwrap();
    let groups = topology.groups(Grouping {
        size: GroupSize::L2,
        merge_small_l2: true,
    });
    let text = render::text(&topology, &groups);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("Group")).collect();
    assert_eq!(
        lines,
        [
            "      Group L#0 (4 hardware threads, L2 L#0-1 (1 KiB each))",
            "      Group L#1 (3 hardware threads, part of L2 L#2 (4 KiB))",
            "      Group L#2 (2 hardware threads, part of L2 L#2 (4 KiB))",
        ]
    );
}

#[test]
fn nodes_and_scattered_groups_as_text() {
    let topology: Topology = "node:2 core:2 node-os:0,8 distance:10,32,31,10".parse().unwrap();
    let ids = |list: [u16; 2]| list.map(PuId).to_vec();
    let groups = Groups::explicit(&topology, vec![ids([1, 2]), ids([0, 3])]).unwrap();
    check_text(
        &topology,
        &groups,
        &[
            "Machine (4 hardware threads, 4 cores, 2 groups, 2 LLCs, 2 nodes)",
            "  Node L#0 (P#0)",
            "    LLC L#0",
            "      Group L#1 (1 of its 2 hardware threads, part of L2 L#0)",
            "        Core L#0 + PU L#0 (P#0)",
            "      Group L#0 (1 of its 2 hardware threads, part of L2 L#0)",
            "        Core L#1 + PU L#1 (P#1)",
            "  Node L#1 (P#8)",
            "    LLC L#1",
            "      Group L#0 (1 of its 2 hardware threads, part of L2 L#1)",
            "        Core L#2 + PU L#2 (P#2)",
            "      Group L#1 (1 of its 2 hardware threads, part of L2 L#1)",
            "        Core L#3 + PU L#3 (P#3)",
            "Distances   L#     0     1",
            "             0    10    32",
            "             1    31    10",
        ],
    );
}

#[test]
fn a_machine_without_hardware_threads() {
    let topology = Topology::flat(0);
    let groups = topology.groups(Grouping::default());
    assert_eq!(
        render::text(&topology, &groups),
        "Machine (0 hardware threads, 0 cores, 0 groups, 0 LLCs, 0 nodes)\n"
    );
    assert_eq!(rectangles(&render::svg(&topology, &groups, "")).len(), 1);
}

/// x, y, width and height of every box, in the order drawn, with its class.
fn rectangles(svg: &str) -> Vec<(String, [u32; 4])> {
    let value = |line: &str, name: &str| -> String {
        let start = line.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        line[start..].split('"').next().unwrap().to_owned()
    };
    let number = |line: &str, name: &str| value(line, name).parse::<u32>().unwrap();
    let boxes = svg.lines().filter(|line| line.starts_with("<g "));
    boxes
        .map(|line| {
            let rect = &line[line.find("<rect").unwrap()..];
            let [x, y, w, h] = [" x", " y", "width", "height"].map(|name| number(rect, name));
            (value(line, "class"), [x, y, w, h])
        })
        .collect()
}

/// Every box lies inside of the nearest earlier box of an outer class, and boxes of one class do not overlap.
#[track_caller]
fn check_svg(machine: &str, grouping: Grouping) {
    const CLASSES: [&str; 6] = ["machine", "node", "llc", "group", "core", "pu"];
    let topology: Topology = machine.parse().unwrap();
    let groups = topology.groups(grouping);
    let svg = render::svg(&topology, &groups, machine);
    let boxes = rectangles(&svg);
    let count = |class: &str| boxes.iter().filter(|(c, _)| c == class).count();
    assert_eq!(count("pu"), topology.pus().len());
    assert_eq!(
        (count("group"), count("llc"), count("node")),
        (groups.len(), topology.llcs().len(), topology.nodes().len())
    );
    let mut open: Vec<(usize, [u32; 4])> = Vec::new();
    for (class, [x, y, w, h]) in &boxes {
        let level = CLASSES.iter().position(|c| c == class).unwrap();
        open.retain(|(outer, _)| *outer < level);
        if let Some((_, [ox, oy, ow, oh])) = open.last() {
            assert!(
                x > ox && y > oy && x + w < ox + ow && y + h < oy + oh,
                "{machine}: {class} sticks out"
            );
        }
        open.push((level, [*x, *y, *w, *h]));
    }
    for (i, (class, [x, y, w, h])) in boxes.iter().enumerate() {
        for (other, [ox, oy, ow, oh]) in &boxes[..i] {
            let apart = x + w <= *ox || ox + ow <= *x || y + h <= *oy || oy + oh <= *y;
            assert!(class != other || apart, "{machine}: two boxes {class} overlap");
        }
    }
    for topology_pu in topology.pus() {
        assert!(svg.contains(&format!(">{}</text>", topology_pu.os_index)));
    }
}

#[test]
fn boxes_nest_and_do_not_overlap() {
    let fixed = |len| Grouping {
        size: GroupSize::Fixed(len),
        merge_small_l2: false,
    };
    check_svg("pu:1", Grouping::default());
    check_svg("node:2 llc:4 core:8 pu:2", Grouping::default());
    check_svg(
        "l2:[6*pu:2, 2*core:4] os:100-119 llc-size:31457280",
        Grouping::default(),
    );
    check_svg("node:[llc:2 core:4, llc:1 core:8 pu:2]", fixed(1));
    check_svg("llc:2 l2:16 pu:2", fixed(16));
}

#[test]
fn titles_are_escaped() {
    let (topology, groups) = parts("pu:1");
    let svg = render::svg(&topology, &groups, "<a href=\"x\">&'\u{1}\u{ffff}");
    let escaped = "&lt;a href=&quot;x&quot;&gt;&amp;&#39;  ";
    assert!(svg.contains(&format!("<title>{escaped}</title>")), "{svg}");
    assert!(svg.contains(&format!(">{escaped}: 1 hardware thread, ")), "{svg}");
    assert!(!svg.contains("<a "));
}
