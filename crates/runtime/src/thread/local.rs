//! Storage of a user-level thread's own, as std's thread-locals: made when first used, dropped when the thread ends.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;

use super::rarely::Rarely;
use super::suspend::Frame;
use crate::panics::quietly;
use crate::sched::context::may_block;

/// Declares variables of which every thread has its own, like [`std::thread_local!`], by which a user-level thread
/// means its own and not its worker's.
///
/// ```
/// use std::cell::{Cell, RefCell};
///
/// quadrille::thread_local! {
///     static COUNT: Cell<u32> = const { Cell::new(0) };
///     /// Public, with documentation, made when first used.
///     pub static WORDS: RefCell<Vec<String>> = RefCell::new(Vec::new());
/// }
///
/// let runtime = quadrille::Runtime::new()?;
/// let threads = [1, 2, 3].map(|number| {
///     runtime.spawn_thread(move || {
///         COUNT.set(number);
///         quadrille::thread::yield_now();
///         WORDS.with_borrow_mut(|words| words.push("once".to_owned()));
///         (COUNT.get(), WORDS.with_borrow(Vec::len))
///     })
/// });
/// let seen = threads.map(|thread| thread.join().unwrap());
/// assert_eq!(seen, [(1, 1), (2, 1), (3, 1)]);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = const $init:block; $($rest:tt)*) => {
        $crate::thread_local!($(#[$attribute])* $visibility static $name: $type = const $init);
        $crate::thread_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = const $init:block) => {
        $(#[$attribute])*
        $visibility static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new(|| const { $init });
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr; $($rest:tt)*) => {
        $crate::thread_local!($(#[$attribute])* $visibility static $name: $type = $init);
        $crate::thread_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $init:expr) => {
        $(#[$attribute])*
        $visibility static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new(|| $init);
    };
}

/// A variable of which every thread has its own, declared by [`thread_local!`](crate::thread_local!).
///
/// A value is made on its thread when it is first used, and dropped there when the thread ends, later ones first; a
/// destructor may wait, also when the thread was told to end ([for a second](crate::Wait::wait)). On an
/// ordinary thread of the operating system it is that thread's. A task has none.
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        Self { init }
    }

    /// Calls `f` with the calling thread's value.
    ///
    /// # Panics
    /// In a task, and in a destructor that runs after the value was dropped; see [`try_with`](Self::try_with).
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `f` with the calling thread's value, if it has one or may have one.
    ///
    /// # Errors
    /// In a task, and in a destructor that runs after the value was dropped.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        self.with_made(self.init, f)
    }

    /// Calls `f` with the calling thread's value, which `init` makes where there is none.
    fn with_made<R>(&'static self, init: impl FnOnce() -> T, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        Frame::with(|frame| match frame {
            Some(frame) => frame.locals().with(self, init, f),
            None if may_block() => OfOsThread::with(|locals| locals?.with(self, init, f)),
            None => Err(AccessError(())),
        })
    }

    /// Makes the calling thread's value of `new`, as std's `set` without its initialiser; gives `new` back where there
    /// is a value.
    #[track_caller]
    fn start_with<V>(&'static self, new: V, wrap: impl FnOnce(V) -> T) -> Result<(), V> {
        let new = Cell::new(Some(new));
        let take = || new.take().expect("it is taken once");
        match self.with_made(|| wrap(take()), |_| ()) {
            Ok(()) => new.into_inner().map_or(Ok(()), Err),
            Err(error) => panic!("{error}"),
        }
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value; the first one, too, without its initialiser.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn set(&'static self, value: T) {
        if let Err(value) = self.start_with(value, Cell::new) {
            self.with(|cell| cell.set(value));
        }
    }

    /// A copy of the value.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// The value, in whose place the default is left.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets the value, and returns the one before.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with a reference to the value.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the value is borrowed to be changed.
    #[track_caller]
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with a reference to change the value.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the value is borrowed.
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets the value; the first one, too, without its initialiser.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the value is borrowed.
    #[track_caller]
    pub fn set(&'static self, value: T) {
        if let Err(value) = self.start_with(value, RefCell::new) {
            drop(self.replace(value));
        }
    }

    /// The value, in whose place the default is left.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the value is borrowed.
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets the value, and returns the one before.
    ///
    /// # Panics
    /// As [`with`](Self::with), and if the value is borrowed.
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// There is no value to use: the caller is a task, or a destructor that runs when the value is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variable of threads was used by a task, or after it was dropped")
    }
}

impl std::error::Error for AccessError {}

/// What a thread has of its own.
#[derive(Debug)]
pub(super) struct Locals {
    entries: RefCell<Rarely<Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// Address of the static.
    key: *const (),
    /// `None` from when it is being dropped.
    value: Option<Box<dyn Any>>,
}

impl Locals {
    pub(super) const fn new() -> Self {
        Self {
            entries: RefCell::new(Rarely::new()),
        }
    }

    /// The value of `key`, if one was made.
    fn find<T>(&self, key: &'static LocalKey<T>) -> Option<Result<*const T, AccessError>> {
        let entries = self.entries.borrow();
        let entry = entries.iter().find(|entry| entry.key == ptr::from_ref(key).cast())?;
        Some(match &entry.value {
            Some(value) => Ok(ptr::from_ref(value.downcast_ref().expect("a key has one type"))),
            None => Err(AccessError(())),
        })
    }

    fn with<T, R>(
        &self,
        key: &'static LocalKey<T>,
        init: impl FnOnce() -> T,
        f: impl FnOnce(&T) -> R,
    ) -> Result<R, AccessError> {
        let value = match self.find(key) {
            Some(found) => found?,
            None => self.make(key, init)?,
        };
        // SAFETY: the value lies in a box that is dropped by `end` alone, when what the thread runs has ended, `f` with
        // it. It is lent out shared only, and a destructor that `end` calls does not find it any more.
        Ok(f(unsafe { &*value }))
    }

    /// Makes the value of `key`.
    fn make<T>(&self, key: &'static LocalKey<T>, init: impl FnOnce() -> T) -> Result<*const T, AccessError> {
        // May use other keys, and this one.
        let new: Box<T> = Box::new(init());
        if self.find(key).is_none() {
            self.entries.borrow_mut().push(Entry {
                key: ptr::from_ref(key).cast(),
                value: Some(new),
            });
        }
        // Only now: a pointer that was made before the box was moved would not be valid behind it.
        self.find(key).expect("it is there")
    }

    /// Drops every value, later ones first, and those that destructors make meanwhile.
    #[inline]
    pub(super) fn end(&self) {
        // Most threads have none.
        if !self.entries.borrow().is_empty() {
            self.drop_values();
        }
    }

    #[cold]
    fn drop_values(&self) {
        loop {
            let next = {
                let mut entries = self.entries.borrow_mut();
                let last = entries.iter_mut().rev().find_map(|entry| entry.value.take());
                if last.is_none() {
                    // All keys are gone: what is used from here on is made anew, by nobody of the thread's.
                    entries.clear();
                }
                last
            };
            let Some(value) = next else {
                return;
            };
            quietly(|| drop(value));
        }
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a thread of the operating system has of its own.
struct OfOsThread(Locals);

std::thread_local! {
    static OF_OS_THREAD: OfOsThread = const { OfOsThread(Locals::new()) };
    /// The same while its values are dropped, when std does not lend it any more; else null.
    static ENDING: Cell<*const Locals> = const { Cell::new(ptr::null()) };
}

impl OfOsThread {
    /// Calls `f` with what the calling thread has of its own, unless that is gone.
    fn with<R>(f: impl FnOnce(Result<&Locals, AccessError>) -> R) -> R {
        let mut f = Some(f);
        let mut call = |locals: Result<&Locals, AccessError>| f.take().map(|f| f(locals));
        let called = OF_OS_THREAD.try_with(|own| call(Ok(&own.0))).unwrap_or_else(|_gone| {
            // SAFETY: not null only while `drop` below runs, on this thread, which lends the values until its end.
            let ending = unsafe { ENDING.get().as_ref() };
            call(ending.ok_or(AccessError(())))
        });
        called.expect("it is called once")
    }
}

impl Drop for OfOsThread {
    fn drop(&mut self) {
        ENDING.set(&raw const self.0);
        self.0.end();
        ENDING.set(ptr::null());
    }
}
