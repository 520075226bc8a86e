//! Which pool a stack, or the promise of one, is of, and which class there: in one word.
//!
//! Promises and stacks are handed on from frame to frame when a thread begins. What is copied in other pieces than it
//! was just written in waits until that is in the cache; one word can't be.

use std::ptr::NonNull;

use super::class::Class;
use super::pool::Pool;

/// The bits of an address of a pool that are zero, and have the class.
const CLASS: usize = align_of::<Pool>() - 1;

const _: () = assert!(Class::COUNT <= CLASS, "a class fits");

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin(NonNull<Pool>);

impl Origin {
    pub(super) fn new(pool: NonNull<Pool>, class: Class) -> Self {
        Self(pool.map_addr(|address| address | class.index()))
    }

    /// The pool. That it is there is the promise's affair (N2).
    #[inline]
    pub(super) fn pool(self) -> NonNull<Pool> {
        self.0.map_addr(|address| {
            // Not zero: no pool begins within the first bytes of memory.
            let begin = address.get() & !CLASS;
            begin.try_into().expect("the address of a pool")
        })
    }

    #[inline]
    pub(super) fn class(self) -> Class {
        Class::at(self.0.addr().get() & CLASS)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::thread::stack::slab::Guarding;

    #[test]
    fn pool_and_class_are_what_they_were() {
        let pool = Box::new(Pool::new(1, Guarding::default()));
        let pool = NonNull::from(&*pool);
        for class in Class::all() {
            let origin = Origin::new(pool, class);
            assert_eq!((origin.pool(), origin.class()), (pool, class));
        }
    }
}
