//! Newtypes for every index into a [`Topology`](crate::Topology): dense, from zero, at most 65,535 of each.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl $name {
            /// The index as a `usize`, to index a slice with.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A hardware thread (processing unit), dense from zero. The number the kernel uses is [`Pu::os_index`](crate::Pu).
    PuId
);
id!(
    /// A physical core.
    CoreId
);
id!(
    /// A set of hardware threads that share a level-2 cache.
    L2Id
);
id!(
    /// A group of hardware threads that wake tasks through one queue, see [`Groups`](crate::Groups).
    GroupId
);
id!(
    /// A last-level-cache domain.
    LlcId
);
id!(
    /// A NUMA node.
    NodeId
);
