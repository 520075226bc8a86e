//! CPU masks of any length. `rustix` and `libc`'s `cpu_set_t` end at CPU 1023, and a kernel that is built for more CPUs
//! refuses to fill a mask that short, so the buffer is an array that grows.

#![expect(unsafe_code, reason = "the two calls take a pointer and a length")]

use std::io;

use libc::{c_ulong, cpu_set_t};

use crate::PuSet;

/// What a first try offers: 1024 CPUs.
const BUFFER_BITS_MIN: usize = 1024;
const WORD_BITS: usize = c_ulong::BITS as usize;

/// The CPUs that the calling thread may run on.
pub(crate) fn affinity() -> io::Result<PuSet> {
    let mut bits = BUFFER_BITS_MIN;
    loop {
        let mut mask: Vec<c_ulong> = vec![0; bits / WORD_BITS];
        let bytes = size_of_val(mask.as_slice());
        // SAFETY: the call writes at most `bytes` bytes to the pointer.
        // - valid for that: `mask` is that long, and this function owns it;
        // - aligned: the kernel's mask and `cpu_set_t` are arrays of `c_ulong`;
        // - any bits are a valid `c_ulong`. Pid 0 is the calling thread.
        let result = unsafe { libc::sched_getaffinity(0, bytes, mask.as_mut_ptr().cast::<cpu_set_t>()) };
        if result == 0 {
            return Ok(members(&mask));
        }
        let error = io::Error::last_os_error();
        bits *= 2;
        // EINVAL says that the kernel's own mask is longer.
        if error.raw_os_error() != Some(libc::EINVAL) || bits > PuSet::LIMIT as usize {
            return Err(error);
        }
    }
}

/// Allows the calling thread these CPUs and no other.
pub(crate) fn set_affinity(cpus: &PuSet) -> io::Result<()> {
    let bits = cpus.last().map_or(0, |last| last as usize + 1).max(BUFFER_BITS_MIN);
    let mut mask: Vec<c_ulong> = vec![0; bits.div_ceil(WORD_BITS)];
    for cpu in cpus.iter() {
        mask[cpu as usize / WORD_BITS] |= 1 << (cpu as usize % WORD_BITS);
    }
    let bytes = size_of_val(mask.as_slice());
    // SAFETY: the call reads at most `bytes` bytes from the pointer.
    // - valid for that: `mask` is that long and lives to the end of this function;
    // - aligned: `cpu_set_t` is an array of `c_ulong`. Pid 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, bytes, mask.as_ptr().cast::<cpu_set_t>()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn members(mask: &[c_ulong]) -> PuSet {
    let mut cpus = PuSet::new();
    for (first, word) in (0..PuSet::LIMIT).step_by(WORD_BITS).zip(mask) {
        let mut rest = *word;
        while rest != 0 {
            cpus.insert(first + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
    cpus
}
