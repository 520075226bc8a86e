//! Fetching a cache line before it is needed.

/// Bytes of a cache line; on a machine with larger ones, some are fetched twice.
pub(crate) const LINE: usize = 64;

/// Asks for the cache line of `address`, which need not be valid; nothing where Rust has no word for it.
///
/// For reading: a line that is fetched for writing is torn away from a core that works on it.
#[inline(always)]
pub(crate) fn line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(quadrille_loom)))]
    // SAFETY: every x86_64 has SSE; a prefetch gives no value and does not fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(quadrille_loom))))]
    let _ = address;
}

/// The same for so many bytes from an address on.
#[inline(always)]
pub(crate) fn bytes<const N: usize>(address: *const u8) {
    for offset in (0..N).step_by(LINE) {
        line(address.wrapping_add(offset));
    }
}
