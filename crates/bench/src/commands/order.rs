//! In which order the rows of a workload run in a repetition.
//!
//! A run finds caches, clock and host as the one before has left them. Were the order always the same, each row would
//! follow the same neighbour, and what that leaves behind would be part of its figure. A row therefore has another
//! place in each repetition, and another neighbour: E. J. Williams's designs (1949), in which over `rows` repetitions
//! (with an odd number of rows twice as many) each row follows each other equally often. Drawn lots would come near to
//! that only with more repetitions than there are: of two rows one would often come first in six of seven.

/// The order of `rows` rows in the repetition with this number, from 0 on.
pub(super) fn order(rows: usize, repetition: usize) -> Vec<usize> {
    // From both ends inwards: 0, 1, n-1, 2, n-2 … has each distance once; added to, all rows get it.
    let zigzag = (0..rows).map(|place| {
        if place % 2 == 1 {
            place.div_ceil(2)
        } else {
            rows - place / 2
        }
    });
    let is_odd = rows % 2 == 1;
    let shift = if is_odd { repetition / 2 } else { repetition };
    let mut order: Vec<usize> = zigzag.map(|row| (row + shift) % rows).collect();
    if is_odd && repetition % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_row_has_every_place_and_every_neighbour_equally_often() {
        for rows in 2..=9 {
            let repetitions = if rows % 2 == 1 { 2 * rows } else { rows };
            let (mut places, mut neighbours) = (BTreeMap::new(), BTreeMap::new());
            for repetition in 0..repetitions {
                let order = order(rows, repetition);
                for (place, &row) in order.iter().enumerate() {
                    *places.entry((place, row)).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *neighbours.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            let times = repetitions / rows;
            assert_eq!((places.len(), neighbours.len()), (rows * rows, rows * (rows - 1)));
            assert!(places.values().chain(neighbours.values()).all(|&count| count == times));
        }
    }

    #[test]
    fn one_row_or_none_is_an_order_too() {
        assert_eq!((order(0, 3), order(1, 3)), (vec![], vec![0]));
    }

    #[test]
    fn of_two_each_begins_every_other_time() {
        assert_eq!([0, 1, 2].map(|repetition| order(2, repetition)[0]), [0, 1, 0]);
    }
}
