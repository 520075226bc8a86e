//! What is known of a source, in one word. Pure: bits in, bits out.

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// How many events a side had when somebody was told that it is ready. Goes round after 2^16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tick(u16);

/// What is known of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Nothing: no event came, and nobody has tried; or who tried needed the other side as well, and can't tell.
    Unknown,
    /// An event came since somebody found that nothing can be done.
    Ready,
    /// Somebody found that nothing can be done, and no event came since.
    NotReady,
}

/// The word.
///
/// | bits | is |
/// |---|---|
/// | 0..20 | the reading side: tick (16), readiness (2), somebody waits (1), ended (1) |
/// | 20..40 | the writing side, the same |
/// | 40 | closed by the shutdown of the reactor |
/// | 41..64 | generation |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

const SIDE_BITS: u32 = 20;
const TICK: u64 = 0xFFFF;
const READINESS: u32 = 16;
const UNKNOWN: u64 = 0;
const READY: u64 = 1;
const NOT_READY: u64 = 2;
const WAITS: u64 = 1 << 18;
const ENDED: u64 = 1 << 19;
const CLOSED: u64 = 1 << 40;
const GENERATION: u32 = 41;

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Read, Side::Write];

    fn shift(self) -> u32 {
        match self {
            Side::Read => 0,
            Side::Write => SIDE_BITS,
        }
    }
}

impl Word {
    /// The bit that says that somebody waits for `side`.
    pub(super) fn waits_bit(side: Side) -> u64 {
        WAITS << side.shift()
    }

    /// The bit of a source that is closed.
    pub(super) const CLOSED: u64 = CLOSED;

    /// How often the place of this source has changed hands, modulo 2^23.
    pub(super) fn generation(self) -> u32 {
        u32::try_from(self.0 >> GENERATION).expect("23 bits")
    }

    /// For the next owner of the place: nothing is known.
    pub(super) fn reborn(self) -> Self {
        Self((self.0 >> GENERATION).wrapping_add(1) << GENERATION)
    }

    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(super) fn waits(self, side: Side) -> bool {
        self.0 & Self::waits_bit(side) != 0
    }

    pub(super) fn tick(self, side: Side) -> Tick {
        Tick(u16::try_from(self.0 >> side.shift() & TICK).expect("16 bits"))
    }

    pub(super) fn readiness(self, side: Side) -> Readiness {
        match self.0 >> side.shift() >> READINESS & 3 {
            READY => Readiness::Ready,
            NOT_READY => Readiness::NotReady,
            _ => Readiness::Unknown,
        }
    }

    fn with_readiness(self, side: Side, bits: u64) -> Self {
        let shift = side.shift() + READINESS;
        Self(self.0 & !(3 << shift) | bits << shift)
    }

    /// After an event of `side`; `ended`: after which an operation that moves less than it could may not be the last to
    /// succeed.
    pub(super) fn with_event(self, side: Side, ended: bool) -> Self {
        let shift = side.shift();
        let tick = u64::from(self.tick(side).0.wrapping_add(1)) << shift;
        let ended = if ended { ENDED << shift } else { 0 };
        Self(self.0 & !(TICK << shift) | tick | ended).with_readiness(side, READY)
    }

    /// After an attempt that found nothing, by who was told `tick`; `None`: an event came since.
    pub(super) fn cleared(self, side: Side, tick: Tick) -> Option<Self> {
        (self.tick(side) == tick).then(|| self.with_readiness(side, NOT_READY))
    }

    /// After an attempt, by who was told `tick`, that says nothing of a side that is ready; `None`: it is not, or an
    /// event came since.
    pub(super) fn forgotten(self, side: Side, tick: Tick) -> Option<Self> {
        let is_ready = self.readiness(side) == Readiness::Ready;
        (is_ready && self.tick(side) == tick).then(|| self.with_readiness(side, UNKNOWN))
    }

    /// After an operation that succeeded and moved less than it could; `None`: an event came since, or the side has
    /// ended, so that there may be more to be heard of and no event for it.
    pub(super) fn exhausted(self, side: Side, tick: Tick) -> Option<Self> {
        if self.has_ended(side) {
            None
        } else {
            self.cleared(side, tick)
        }
    }

    /// Whether any event of `side` was of an end, an error or urgent data.
    pub(super) fn has_ended(self, side: Side) -> bool {
        self.0 >> side.shift() & ENDED != 0
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    /// Words that differ in everything that one side's operations must leave alone.
    const WORDS: [u64; 4] = [
        0,
        u64::MAX << GENERATION,
        CLOSED | 7 << GENERATION,
        0x5A5A_5A5A_5A5A_5A5A,
    ];

    #[test]
    fn an_event_touches_its_side_alone() {
        for word in WORDS.map(Word) {
            for (side, other) in [(Side::Read, Side::Write), (Side::Write, Side::Read)] {
                for ended in [false, true] {
                    let after = word.with_event(side, ended);
                    assert_eq!(after.readiness(side), Readiness::Ready);
                    assert_eq!(after.tick(side).0, word.tick(side).0.wrapping_add(1));
                    assert_eq!(after.waits(side), word.waits(side));
                    let rest = |word: Word| {
                        let other = (word.readiness(other), word.tick(other), word.waits(other));
                        (other, word.generation(), word.is_closed())
                    };
                    assert_eq!(rest(after), rest(word));
                }
            }
        }
    }

    #[test]
    fn the_tick_goes_round_and_stays_in_its_bits() {
        for side in Side::BOTH {
            let mut word = Word(0);
            for _ in 0..=TICK {
                word = word.with_event(side, false);
            }
            assert_eq!(word, Word(0).with_readiness(side, READY));
        }
    }

    #[test]
    fn clearing_an_old_tick_keeps_a_newer_event() {
        for side in Side::BOTH {
            let old = Word(0).with_event(side, false);
            let new = old.with_event(side, false);
            assert_eq!(new.cleared(side, old.tick(side)), None);
            let cleared = new.cleared(side, new.tick(side)).unwrap();
            assert_eq!(cleared.readiness(side), Readiness::NotReady);
            assert_eq!(cleared.with_event(side, false).readiness(side), Readiness::Ready);
        }
    }

    #[test]
    fn of_a_side_that_is_ready_nothing_is_known_once_it_is_forgotten() {
        for side in Side::BOTH {
            let old = Word(0).with_event(side, false);
            let new = old.with_event(side, false);
            let tick = new.tick(side);
            assert_eq!(new.forgotten(side, old.tick(side)), None);
            assert_eq!(new.forgotten(side, tick).unwrap().readiness(side), Readiness::Unknown);
            // Who found nothing knows more.
            assert_eq!(new.cleared(side, tick).unwrap().forgotten(side, tick), None);
        }
    }

    /// Nothing more may come, and there may be an end or an error to be heard of.
    #[test]
    fn a_side_that_has_ended_is_never_exhausted() {
        for side in Side::BOTH {
            let open = Word(0).with_event(side, false);
            let tick = open.tick(side);
            assert_eq!(open.exhausted(side, tick), open.cleared(side, tick));
            let ended = open.with_event(side, true);
            assert_eq!(ended.exhausted(side, ended.tick(side)), None);
            assert!(
                ended.cleared(side, ended.tick(side)).is_some(),
                "but an attempt that fails says so"
            );
        }
    }

    #[test]
    fn the_next_owner_knows_nothing() {
        for word in WORDS.map(Word) {
            let next = word.with_event(Side::Read, true).reborn();
            assert_eq!(next.generation(), (word.generation() + 1) % (1 << 23));
            assert_eq!(next.0 << (64 - GENERATION), 0);
        }
    }
}
