//! Lending the descriptor of what has one.

/// `AsFd` and `AsRawFd` for types that have it in a field.
macro_rules! impl_as_fd {
    ($field:tt: $($type:ty),+) => {$(
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }

        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&self.$field)
            }
        }
    )+};
}
pub(crate) use impl_as_fd;
