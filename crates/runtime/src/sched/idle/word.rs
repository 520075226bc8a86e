//! Idle masks as plain words: which member to take.

/// The member to claim among the bits of `idle`: `prefer` if it is set, else one of a core that is idle as a whole,
/// else any but `avoid`, else `avoid`. `cores` are the members of each core; none if no core has two.
#[inline]
pub(crate) fn pick(idle: u64, prefer: Option<u8>, avoid: Option<u8>, cores: &[u64]) -> Option<u8> {
    if idle == 0 {
        return None;
    }
    if let Some(member) = prefer
        && idle & (1 << member) != 0
    {
        return Some(member);
    }
    let others = idle & !avoid.map_or(0, |member| 1 << member);
    let whole = cores.iter().filter(|core| idle & **core == **core);
    let on_idle_core = whole.map(|core| others & core).find(|bits| *bits != 0);
    lowest(on_idle_core.unwrap_or(if others == 0 { idle } else { others }))
}

/// Whether one of `cores` is idle as a whole.
#[inline]
pub(crate) fn has_idle_core(idle: u64, cores: &[u64]) -> bool {
    cores.iter().any(|core| idle & core == *core)
}

/// The first set bit at or after `from`, wrapping around.
#[inline]
pub(crate) fn pick_rotated(bits: u64, from: usize) -> Option<u8> {
    let high = bits & (u64::MAX << (from % 64));
    lowest(if high == 0 { bits } else { high })
}

fn lowest(bits: u64) -> Option<u8> {
    if bits == 0 {
        None
    } else {
        u8::try_from(bits.trailing_zeros()).ok()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    /// Every word of six members, every preference, every member to avoid.
    #[test]
    fn pick_is_exhaustively_right() {
        for idle in 0_u64..64 {
            for prefer in (0..6).map(Some).chain([None]) {
                for avoid in (0..6).map(Some).chain([None]) {
                    let got = pick(idle, prefer, avoid, &[]);
                    let Some(member) = got else {
                        assert_eq!(idle, 0);
                        continue;
                    };
                    assert_ne!(idle & (1 << member), 0, "only idle members");
                    match prefer {
                        Some(p) if idle & (1 << p) != 0 => assert_eq!(member, p),
                        _ if avoid == Some(member) => assert_eq!(idle, 1 << member, "avoided only if alone"),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Three cores of two members.
    #[test]
    fn whole_idle_cores_go_first() {
        let cores = [0b11, 0b1100, 0b11_0000];
        for idle in 0_u64..64 {
            assert_eq!(
                has_idle_core(idle, &cores),
                cores.iter().any(|core| idle & core == *core)
            );
            for avoid in (0..6).map(Some).chain([None]) {
                let Some(member) = pick(idle, None, avoid, &cores) else {
                    assert_eq!(idle, 0);
                    continue;
                };
                let core = cores[usize::from(member / 2)];
                let better = |other: &u64| {
                    let rest = idle & other & !avoid.map_or(0, |member| 1 << member);
                    idle & other == *other && rest != 0
                };
                assert_ne!(idle & (1 << member), 0);
                assert!(idle & core == core || !cores.iter().any(better), "{idle:b} {avoid:?}");
                assert!(avoid != Some(member) || idle == 1 << member, "{idle:b} {avoid:?}");
            }
        }
    }

    #[test]
    fn rotation_visits_every_bit() {
        for bits in 0_u64..256 {
            for from in 0..8 {
                let mut left = bits;
                let mut seen = 0;
                while let Some(bit) = pick_rotated(left, from) {
                    assert_ne!(left & (1 << bit), 0);
                    left &= !(1 << bit);
                    seen += 1;
                }
                assert_eq!(seen, bits.count_ones());
                if let Some(first) = pick_rotated(bits, from) {
                    let expected = (from..from + 64).map(|i| i % 64).find(|i| bits & (1 << i) != 0);
                    assert_eq!(Some(usize::from(first)), expected);
                }
            }
        }
    }
}
