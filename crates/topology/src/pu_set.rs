//! Sets of CPU numbers as the operating system counts them, in Linux's cpulist notation.

use alloc::{format, vec::Vec};
use core::{fmt, ops::BitAnd, str::FromStr};

use crate::TopologyError;

/// A set of CPU numbers of the operating system ([`Pu::os_index`](crate::Pu::os_index)), not of dense [`PuId`]s.
///
/// It grows with the largest member, up to [`PuSet::LIMIT`]. `FromStr` and `Display` speak Linux's cpulist: numbers and
/// inclusive ranges, separated by commas.
///
/// ```
/// use quadrille_topology::PuSet;
///
/// let set: PuSet = "0-3,8,2048".parse()?;
/// assert!(set.contains(2) && set.contains(2048) && !set.contains(4));
/// assert_eq!(set.len(), 6);
/// assert_eq!(set.to_string(), "0-3,8,2048");
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
///
/// [`PuId`]: crate::PuId
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PuSet {
    /// Bit `b` of word `w` is CPU `64 * w + b`; the last word is never zero, so that equal sets are equal vectors.
    words: Vec<u64>,
}

impl PuSet {
    /// CPU numbers are below this (2^20); a larger one is taken for garbage rather than for a reason to allocate.
    pub const LIMIT: u32 = 1 << 20;

    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a CPU; says whether it is new.
    ///
    /// # Panics
    /// If `os_index` is not below [`PuSet::LIMIT`].
    #[track_caller]
    pub fn insert(&mut self, os_index: u32) -> bool {
        assert!(os_index < Self::LIMIT, "CPU {os_index} is not below {}", Self::LIMIT);
        let (word, bit) = Self::place(os_index);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a CPU out; says whether it was in.
    pub fn remove(&mut self, os_index: u32) -> bool {
        let was_in = self.contains(os_index);
        if was_in {
            let (word, bit) = Self::place(os_index);
            self.words[word] &= !bit;
            self.trim();
        }
        was_in
    }

    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, os_index: u32) -> bool {
        let (word, bit) = Self::place(os_index);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// How many CPUs are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether no CPU is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The smallest member.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The largest member.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let word = self.words.len().checked_sub(1)?;
        Some(Self::number(word, 63 - self.words[word].leading_zeros()))
    }

    /// Whether every member of `self` is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|n| other.contains(n))
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(word, &bits)| {
            (0..u64::BITS)
                .filter(move |b| bits & (1 << b) != 0)
                .map(move |b| Self::number(word, b))
        })
    }

    /// The members as inclusive ranges, ascending and never adjacent.
    fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for n in self.iter() {
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == n => *end = n,
                _ => ranges.push((n, n)),
            }
        }
        ranges
    }

    fn place(os_index: u32) -> (usize, u64) {
        ((os_index / u64::BITS) as usize, 1 << (os_index % u64::BITS))
    }

    /// Inverse of `place`; `LIMIT` keeps the product small.
    fn number(word: usize, bit: u32) -> u32 {
        u32::try_from(word).unwrap_or(u32::MAX / u64::BITS) * u64::BITS + bit
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u32> for PuSet {
    /// # Panics
    /// If a number is not below [`PuSet::LIMIT`].
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::new();
        for n in numbers {
            set.insert(n);
        }
        set
    }
}

impl BitAnd for &PuSet {
    type Output = PuSet;

    /// The members of both.
    fn bitand(self, other: Self) -> PuSet {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut set = PuSet { words };
        set.trim();
        set
    }
}

impl fmt::Display for PuSet {
    /// A cpulist such as `0-3,8`; the empty set prints as nothing, as the kernel prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (start, end)) in self.ranges().into_iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{start}")?;
            if end > start {
                write!(f, "-{end}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PuSet({self})")
    }
}

impl FromStr for PuSet {
    type Err = TopologyError;

    /// Reads a cpulist; blank input is the empty set.
    fn from_str(list: &str) -> Result<Self, TopologyError> {
        let mut set = Self::new();
        if list.trim().is_empty() {
            return Ok(set);
        }
        for token in list.split(',').map(str::trim) {
            let (start, end) = parse_range(token)?;
            for n in start..=end {
                set.insert(n);
            }
        }
        Ok(set)
    }
}

/// `8` or `0-3`, inclusive.
pub(crate) fn parse_range(token: &str) -> Result<(u32, u32), TopologyError> {
    let (start, end) = token.split_once('-').unwrap_or((token, token));
    let number = |digits: &str| -> Result<u32, TopologyError> {
        let digits = digits.trim();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(TopologyError::syntax(format!(
                "`{token}` in a CPU list: expected a number or a range such as 0-3"
            )));
        }
        match digits.parse::<u32>() {
            Ok(n) if n < PuSet::LIMIT => Ok(n),
            _ => Err(TopologyError::too_large(format!(
                "`{token}` in a CPU list: expected CPU numbers below {}",
                PuSet::LIMIT
            ))),
        }
    };
    let range = (number(start)?, number(end)?);
    if range.0 > range.1 {
        return Err(TopologyError::syntax(format!(
            "`{token}` in a CPU list: expected a range that ascends"
        )));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[track_caller]
    fn check(text: &str, members: &[u32], printed: &str) {
        let set: PuSet = text.parse().unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), members, "{text}");
        assert_eq!(set.len(), members.len());
        assert_eq!(set.to_string(), printed);
        assert_eq!(set.to_string().parse::<PuSet>().unwrap(), set);
        assert_eq!(members.iter().copied().collect::<PuSet>(), set);
        assert_eq!(set.first(), members.first().copied());
        assert_eq!(set.last(), members.last().copied());
    }

    #[test]
    fn cpulists_parse_and_print() {
        check("", &[], "");
        check("\n", &[], "");
        check("0", &[0], "0");
        check("0-3,8\n", &[0, 1, 2, 3, 8], "0-3,8");
        check(" 5 , 3-4 ,1", &[1, 3, 4, 5], "1,3-5");
        check("0,0,0-1", &[0, 1], "0-1");
        check(
            "63-65,1023-1024,8191",
            &[63, 64, 65, 1023, 1024, 8191],
            "63-65,1023-1024,8191",
        );
        check("1048575", &[1_048_575], "1048575");
    }

    #[test]
    fn every_set_of_ten_cpus_round_trips() {
        // 60 and up, so that a word boundary lies inside.
        for bits in 0_u32..1 << 10 {
            let set: PuSet = (0..10).filter(|b| bits & (1 << b) != 0).map(|b| b + 60).collect();
            assert_eq!(set.to_string().parse::<PuSet>().unwrap(), set);
            assert_eq!(set.len(), bits.count_ones() as usize);
        }
    }

    #[test]
    fn wrong_lists_name_the_token() {
        for (text, token) in [
            ("a", "`a`"),
            ("0,,1", "``"),
            ("0-3,x-5", "`x-5`"),
            ("5-3", "`5-3`"),
            ("1-2-3", "`1-2-3`"),
            ("-1", "`-1`"),
            ("+1", "`+1`"),
            ("0x3", "`0x3`"),
        ] {
            let e = text.parse::<PuSet>().unwrap_err();
            assert!(e.is_syntax() && e.to_string().contains(token), "{text}: {e}");
        }
        for text in ["1048576", "0-4294967295", "99999999999999999999"] {
            let e = text.parse::<PuSet>().unwrap_err();
            assert!(e.is_too_large() && e.to_string().contains(text), "{text}: {e}");
        }
    }

    #[test]
    fn set_operations() {
        let a: PuSet = "0-3,100,2000".parse().unwrap();
        let b: PuSet = "2-5,100".parse().unwrap();
        let both = &a & &b;
        assert_eq!(both.to_string(), "2-3,100");
        assert_eq!(both, &b & &a);
        assert!(both.is_subset(&a) && both.is_subset(&b) && !a.is_subset(&b));
        let mut c = a.clone();
        assert!(c.remove(2000) && !c.remove(2000) && !c.remove(77_777));
        assert_eq!(c, "0-3,100".parse().unwrap());
        assert!(!c.insert(100) && c.insert(101));
        assert!((&a & &PuSet::new()).is_empty());
    }
}
