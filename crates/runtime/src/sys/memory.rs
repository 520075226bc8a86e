//! Memory for stacks: mapped, guarded, measured, given back to the system.

use std::ffi::c_void;
use std::io::{self, Read as _};
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::advice;
use crate::primitives::{Ordering, StaticUsize};

/// Bytes of a page. The system is asked once.
///
/// By the C library: rustix reads the auxiliary vector that the kernel gave, and follows its pointer to the vDSO, which
/// under valgrind is not there.
#[inline]
pub(crate) fn page_size() -> usize {
    /// Zero until somebody has asked.
    static BYTES: StaticUsize = StaticUsize::new(0);
    // Ordering: Relaxed; a constant, and who finds none asks.
    match BYTES.load(Ordering::Relaxed) {
        0 => ask_page_size(&BYTES),
        bytes => bytes,
    }
}

#[cold]
fn ask_page_size(bytes: &StaticUsize) -> usize {
    // SAFETY: takes a number and reads what the C library knows; any number is allowed.
    let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let size = usize::try_from(answer).ok().filter(|size| size.is_power_of_two());
    let size =
        size.unwrap_or_else(|| panic!("the system says that a page has {answer} bytes: expected a power of two"));
    // Ordering: Relaxed; as above.
    bytes.store(size, Ordering::Relaxed);
    size
}

/// Anonymous memory that may be read and written. It takes up memory page by page, when it is first written.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to the thread that made it; unmapping is a system call from any
// thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives numbers and makes guards, which is a system call; neither touches the memory as a value.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, a positive multiple of the page size, without huge pages: the first byte written would take up
    /// 2 MiB.
    ///
    /// No memory is set aside for it, except where the system never promises more than it has (overcommit mode 2).
    ///
    /// # Errors
    ///
    /// The system's: no address space (`RLIMIT_AS`), too many mappings, or too much promised.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE;
        #[cfg(target_os = "linux")]
        let flags = flags | MapFlags::NORESERVE | MapFlags::STACK;
        // OpenBSD faults if a stack pointer points to any other memory. FreeBSD's flag of this name means another
        // thing.
        #[cfg(target_os = "openbsd")]
        let flags = flags | MapFlags::STACK;
        // SAFETY: without MAP_FIXED the system chooses a place that nothing uses.
        let start = unsafe { mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let mapping = Self {
            start: NonNull::new(start).expect("a mapping that the system places is not at address 0"),
            len,
        };
        #[cfg(target_os = "linux")]
        // SAFETY: advice about memory that is ours and holds nothing. MAP_STACK says the same since Linux 6.7; a kernel
        // without huge pages refuses, and need not be told.
        let _ = unsafe { mm::madvise(start, len, mm::Advice::LinuxNoHugepage) };
        Ok(mapping)
    }

    /// The lowest address. Pointers that are made from it may access the mapping.
    pub(crate) fn start(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// Makes `ranges` (offsets, multiples of the page size) fault on access, by marks in the page table: the mapping
    /// stays one. The marks stay when the pages are [released](release).
    ///
    /// # Errors
    ///
    /// `InvalidInput` where there are no such marks: before Linux 6.13, on other systems, and for locked memory.
    /// Nothing is marked then.
    ///
    /// # Panics
    ///
    /// If a range is not inside of the mapping.
    #[cfg(target_os = "linux")]
    pub(crate) fn guard_by_marks(&self, ranges: impl Iterator<Item = Range<usize>>) -> io::Result<()> {
        /// Not in libc's bindings; the same number on every architecture.
        const MADV_GUARD_INSTALL: i32 = 102;
        let ranges: Vec<Range<usize>> = ranges
            .map(|range| {
                let start = self.at(&range).expose_provenance();
                start..start + range.len()
            })
            .collect();
        // SAFETY: `at` checked that the ranges are inside of our mapping; whoever has a stack there has not begun to
        // use it, because `&Mapping` is not shared before its guards are made. A second mark does nothing.
        if ranges.len() > 1 && unsafe { advice::about_all(&ranges, MADV_GUARD_INSTALL) } {
            return Ok(());
        }
        ranges.into_iter().try_for_each(|range| {
            let address = ptr::with_exposed_provenance_mut::<c_void>(range.start);
            loop {
                // SAFETY: as above.
                if unsafe { libc::madvise(address, range.len(), MADV_GUARD_INSTALL) } == 0 {
                    return Ok(());
                }
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        })
    }

    /// There are no such marks on this system: always an error, see above.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn guard_by_marks(&self, _ranges: impl Iterator<Item = Range<usize>>) -> io::Result<()> {
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Makes `range` (offsets, multiples of the page size) fault on access, by a mapping of its own: two more mappings
    /// for the process, which Linux counts (`vm.max_map_count`).
    ///
    /// # Errors
    ///
    /// The system's, out of memory or of mappings.
    ///
    /// # Panics
    ///
    /// If `range` is not inside of the mapping.
    pub(crate) fn guard_by_protection(&self, range: Range<usize>) -> io::Result<()> {
        let address = self.at(&range);
        // SAFETY: as in `guard_by_marks`: inside of our mapping, and not in use.
        unsafe { mm::mprotect(address, range.len(), MprotectFlags::empty())? };
        Ok(())
    }

    fn at(&self, range: &Range<usize>) -> *mut c_void {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {}",
            self.len
        );
        self.start.as_ptr().wrapping_byte_add(range.start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its owner drops it when nothing in it is used any more: the pool's slabs go
        // after the last stack has come back (N2 in `thread/stack`).
        let unmapped = unsafe { mm::munmap(self.start.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a whole mapping of ours: {unmapped:?}");
    }
}

#[cfg(target_os = "linux")]
const RELEASE: i32 = libc::MADV_DONTNEED;
#[cfg(not(target_os = "linux"))]
const RELEASE: i32 = libc::MADV_FREE;

/// Gives the pages of `range` back to the system. Guards in it stay; other pages read as zeros when they are used again
/// (on other systems than Linux: zeros or what they held).
///
/// The system may refuse, for locked memory: then the pages stay, which is no error to anybody.
///
/// # Safety
///
/// `range` is made of whole pages inside of mappings of ours, and nobody uses what is in it, now or later.
pub(crate) unsafe fn release(range: Range<usize>) {
    let start = ptr::with_exposed_provenance_mut::<c_void>(range.start);
    // SAFETY: the caller's contract: whole pages of ours, whose contents nobody wants.
    let _ = unsafe { libc::madvise(start, range.len(), RELEASE) };
}

/// [Releases](release) all of `ranges`: with one system call, and one interrupt to each processor that runs this
/// program, where the kernel takes many at once.
///
/// # Safety
///
/// As for [`release`], for each.
pub(crate) unsafe fn release_all(ranges: &[Range<usize>]) {
    // SAFETY: the caller's contract; what is released twice stays so.
    if ranges.len() > 1 && unsafe { advice::about_all(ranges, RELEASE) } {
        return;
    }
    for range in ranges {
        // SAFETY: the caller's contract.
        unsafe { release(range.clone()) };
    }
}

/// The lowest address in `range` (whole pages) whose page takes up memory. `None`: there is none, or this system
/// doesn't tell.
pub(crate) fn lowest_resident(range: Range<usize>) -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        // As many pages as one page of a page table knows.
        const AT_ONCE: usize = 512;
        let page = page_size();
        let mut states = [0_u8; AT_ONCE];
        for start in range.clone().step_by(AT_ONCE * page) {
            let pages = ((range.end - start) / page).min(AT_ONCE);
            let address = ptr::with_exposed_provenance_mut::<c_void>(start);
            // SAFETY: writes a byte a page to `states`, which has room for `AT_ONCE`; the range is only looked up, and
            // one that is not mapped is an error.
            if unsafe { libc::mincore(address, pages * page, states.as_mut_ptr()) } != 0 {
                return None;
            }
            if let Some(first) = states[..pages].iter().position(|state| state & 1 != 0) {
                return Some(start + first * page);
            }
        }
        None
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = range;
        None
    }
}

/// How many mappings a process may have, `vm.max_map_count`. `None`: no limit is known.
pub(crate) fn mappings_max() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    text.trim().parse().ok()
}

/// The lines of a file, counted without room for more than some of it: it may be asked where there are no mappings left
/// for memory.
fn count_lines(path: &str) -> io::Result<usize> {
    let (mut file, mut some, mut lines) = (std::fs::File::open(path)?, [0_u8; 4096], 0);
    loop {
        match file.read(&mut some)? {
            0 => return Ok(lines),
            length => lines += some[..length].iter().filter(|byte| **byte == b'\n').count(),
        }
    }
}

/// How many mappings this process has. 0 if the system doesn't tell.
pub(crate) fn mappings() -> usize {
    count_lines("/proc/self/maps").unwrap_or(0)
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use std::os::fd::AsRawFd as _;

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    use crate::child::{assert_passed, is_child, run_child};

    #[test]
    fn what_is_written_is_resident_until_it_is_released() {
        let page = page_size();
        // Longer than one look.
        let mapping = Mapping::new(1000 * page).unwrap();
        let all = mapping.start()..mapping.start() + 1000 * page;
        assert_eq!(lowest_resident(all.clone()), None);
        for at in [999, 600, 3] {
            // SAFETY: inside of the mapping, which nobody else uses.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(all.start + at * page).write_volatile(1) };
            let expected = cfg!(target_os = "linux").then_some(all.start + at * page);
            assert_eq!(lowest_resident(all.clone()), expected);
        }
        // SAFETY: nobody uses it.
        unsafe { release(all.clone()) };
        assert_eq!(lowest_resident(all), None);
    }

    /// Every range, and nothing beside them, by one call or by many.
    #[cfg(target_os = "linux")]
    fn check_many_at_once() {
        let page = page_size();
        // More than the kernel takes at once.
        let mapping = Mapping::new(3 * 1100 * page).unwrap();
        let at = |index: usize| mapping.start() + index * page;
        // SAFETY: inside of the mapping, which nobody else uses.
        let write = |address| unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
        let guards = || (0..1100).map(|i| 3 * i * page..(3 * i + 1) * page);
        let has_marks = mapping.guard_by_marks(guards()).is_ok();
        let (_read, written) = io::pipe().unwrap();
        let is_there = |address| {
            let byte = ptr::with_exposed_provenance(address);
            // SAFETY: read by the system, which answers with an error if it may not be.
            unsafe { libc::write(written.as_raw_fd(), byte, 1) == 1 }
        };
        for index in 0..1100 {
            (1..3).for_each(|page| write(at(3 * index + page)));
            assert_eq!(is_there(at(3 * index)), !has_marks, "{index}");
            assert!(is_there(at(3 * index + 1)));
        }
        let ranges: Vec<_> = (0..1100).map(|i| at(3 * i + 1)..at(3 * i + 2)).collect();
        // SAFETY: nobody uses them.
        unsafe { release_all(&ranges) };
        for range in ranges {
            assert_eq!(lowest_resident(range.clone()), None);
            assert_eq!(lowest_resident(range.end..range.end + page), Some(range.end));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn many_ranges_are_guarded_and_released() {
        check_many_at_once();
    }

    /// The kernel's version, as far as it matters.
    #[cfg(target_os = "linux")]
    fn kernel() -> Option<(u32, u32)> {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let mut parts = text.split(['.', '-', '\n']).map_while(|part| part.parse().ok());
        Some((parts.next()?, parts.next()?))
    }

    /// Whoever never takes many at once is right, and slow.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_kernel_that_takes_many_at_once_is_asked_to() {
        let page = page_size();
        let mapping = Mapping::new(4 * page).unwrap();
        let at = |index: usize| mapping.start() + index * page;
        let ranges = [at(0)..at(1), at(2)..at(3)];
        // SAFETY: nobody uses the mapping.
        let taken = unsafe { advice::about_all(&ranges, RELEASE) };
        if kernel().is_some_and(|version| version >= (6, 13)) {
            assert!(taken, "{:?}", io::Error::last_os_error());
        }
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn where_many_at_once_are_forbidden_they_are_guarded_and_released_one_by_one() {
        if is_child() {
            crate::sys::process::forbid(libc::SYS_process_madvise);
            return check_many_at_once();
        }
        let name = "where_many_at_once_are_forbidden_they_are_guarded_and_released_one_by_one";
        assert_passed(&run_child(module_path!(), name));
    }

    #[test]
    fn the_system_tells_its_limit_and_our_mappings() {
        if cfg!(target_os = "linux") {
            assert!(mappings_max().unwrap() > 1000);
            assert!(mappings() > 10);
        }
    }

    #[test]
    #[should_panic(expected = "4096")]
    fn a_guard_outside_of_the_mapping_is_refused() {
        let len = page_size();
        let _ = Mapping::new(len).unwrap().guard_by_protection(0..len + 4096);
    }
}
