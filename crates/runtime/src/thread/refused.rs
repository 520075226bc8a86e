//! What the compiler refuses; compiled by `cargo test --doc` alone. Each refusal differs in little from something that
//! compiles. Where it is the order of lifetimes that is wrong, the compiler's error has no number.
//!
//! Closures and results cross over to another OS thread; what is made inside need not.
//!
//! ```
//! # let runtime = quadrille::Runtime::new().unwrap();
//! let thread = runtime.spawn_thread(|| {
//!     let inside = std::rc::Rc::new(1);
//!     quadrille::thread::yield_now();
//!     *inside
//! });
//! assert_eq!(thread.join().unwrap(), 1);
//! ```
//!
//! A closure that is not `Send`:
//!
//! ```compile_fail,E0277
//! # let runtime = quadrille::Runtime::new().unwrap();
//! let outside = std::rc::Rc::new(1);
//! runtime.spawn_thread(move || *outside);
//! ```
//!
//! A result that is not `Send`:
//!
//! ```compile_fail,E0277
//! # let runtime = quadrille::Runtime::new().unwrap();
//! runtime.spawn_thread(|| std::rc::Rc::new(1));
//! ```
//!
//! A closure that borrows from its spawner, which may end first:
//!
//! ```compile_fail,E0373
//! # let runtime = quadrille::Runtime::new().unwrap();
//! let numbers = [1, 2, 3];
//! runtime.spawn_thread(|| numbers.len());
//! drop(runtime);
//! ```
//!
//! In a scope that borrow is allowed:
//!
//! ```
//! # let runtime = quadrille::Runtime::new().unwrap();
//! # let _guard = runtime.enter();
//! let mut numbers = [1, 2, 3];
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| numbers[0] = 7);
//! });
//! assert_eq!(numbers[0], 7);
//! ```
//!
//! But not two of them that change the same:
//!
//! ```compile_fail,E0499
//! let mut numbers = [1, 2, 3];
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| numbers[0] = 7);
//!     s.spawn(|| numbers[0] = 8);
//! });
//! ```
//!
//! Nor a handle that leaves the scope, with a result that may borrow from it:
//!
//! ```compile_fail
//! let handle = quadrille::thread::scope(|s| s.spawn(|| 1));
//! handle.join().unwrap();
//! ```
//!
//! Nor a thread that is spawned by somebody who has kept the scope:
//!
//! ```compile_fail,E0521
//! let mut kept = None;
//! quadrille::thread::scope(|s| kept = Some(s));
//! kept.unwrap().spawn(|| 1);
//! ```
//!
//! Nor a scope that is shortened, by which a thread could borrow what ends before it:
//!
//! ```compile_fail
//! use quadrille::thread::Scope;
//!
//! fn shorten<'short, 'scope: 'short, 'env>(s: &'scope Scope<'scope, 'env>) -> &'short Scope<'short, 'env> {
//!     s
//! }
//! ```
//!
//! Nor one whose surroundings are shortened:
//!
//! ```compile_fail
//! use quadrille::thread::Scope;
//!
//! fn shorten<'scope, 'short: 'scope, 'env: 'short>(s: &'scope Scope<'scope, 'env>) -> &'scope Scope<'scope, 'short> {
//!     s
//! }
//! ```
//!
//! A thread of a scope lends to others what the scope may borrow, and what it owns by giving it away:
//!
//! ```
//! # let runtime = quadrille::Runtime::new().unwrap();
//! # let _guard = runtime.enter();
//! let outside = vec![1, 2, 3];
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| {
//!         let inside = 1;
//!         s.spawn(move || assert_eq!(outside[0], inside));
//!     });
//! });
//! ```
//!
//! But not what is on its own stack, which may end before them:
//!
//! ```compile_fail,E0373
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| {
//!         let inside = 1;
//!         s.spawn(|| assert_eq!(inside, 1));
//!     });
//! });
//! ```
//!
//! What a thread borrows can't be dropped before the scope has ended:
//!
//! ```compile_fail,E0505
//! let numbers = vec![1, 2, 3];
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| numbers.len());
//!     drop(numbers);
//! });
//! ```
//!
//! Nor changed:
//!
//! ```compile_fail,E0506
//! let mut number = 1;
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| assert_eq!(number, 1));
//!     number = 2;
//! });
//! ```
//!
//! A result may borrow what is there after the scope:
//!
//! ```
//! # let runtime = quadrille::Runtime::new().unwrap();
//! # let _guard = runtime.enter();
//! let numbers = [1, 2, 3];
//! let first = quadrille::thread::scope(|s| s.spawn(|| &numbers[0]).join().unwrap());
//! assert_eq!(*first, 1);
//! ```
//!
//! But not for longer:
//!
//! ```compile_fail,E0597
//! let first = {
//!     let numbers = [1, 2, 3];
//!     quadrille::thread::scope(|s| s.spawn(|| &numbers[0]).join().unwrap())
//! };
//! assert_eq!(*first, 1);
//! ```
//!
//! A closure that is not `Send`, or borrows what can't be shared, in a scope as elsewhere:
//!
//! ```compile_fail,E0277
//! let outside = std::rc::Rc::new(1);
//! quadrille::thread::scope(|s| {
//!     s.spawn(move || *outside);
//! });
//! ```
//!
//! ```compile_fail,E0277
//! let outside = std::cell::Cell::new(1);
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| outside.set(2));
//! });
//! ```
//!
//! Nor a result:
//!
//! ```compile_fail,E0277
//! quadrille::thread::scope(|s| {
//!     s.spawn(|| std::rc::Rc::new(1));
//! });
//! ```
//!
//! A guard is shared if the value is:
//!
//! ```
//! fn shared(_: impl Sync) {}
//! shared(quadrille::thread::sync::Mutex::new(1).lock().unwrap());
//! ```
//!
//! But not one of a value that isn't, although the mutex itself is:
//!
//! ```compile_fail,E0277
//! fn shared(_: impl Sync) {}
//! shared(quadrille::thread::sync::Mutex::new(std::cell::Cell::new(1)).lock().unwrap());
//! ```
//!
//! Nor of a value that can't be sent: who sees a guard may come to the mutex, and have the value when the guard is
//! gone.
//!
//! ```compile_fail,E0277
//! fn shared(_: impl Sync) {}
//! let inside: std::sync::Mutex<u8> = Default::default();
//! shared(quadrille::sync::Mutex::new(inside.lock().unwrap()).try_lock().unwrap());
//! ```
//!
//! An owned guard of a part keeps the lock, and not what a closure has brought along from elsewhere, of which its type
//! says nothing once the next part is chosen:
//!
//! ```
//! use quadrille::sync::{OwnedRwLockReadGuard as Guard, RwLock};
//!
//! static TEXT: &str = "longer than any guard";
//! let lock = std::sync::Arc::new(RwLock::new(()));
//! let part = Guard::map(lock.try_read_owned().unwrap(), |_| &TEXT);
//! assert_eq!(&*Guard::map(part, |text| *text), TEXT);
//! ```
//!
//! ```compile_fail,E0597
//! use quadrille::sync::{OwnedRwLockReadGuard as Guard, RwLock};
//!
//! let lock = std::sync::Arc::new(RwLock::new(()));
//! let text = String::from("gone before the guard");
//! let text: &str = &text;
//! let part = Guard::map(lock.try_read_owned().unwrap(), |_| &text);
//! assert_eq!(&*Guard::map(part, |text| *text), text);
//! ```
//!
//! Nor does one become a guard of what lives shorter, for a closure to bring that along:
//!
//! ```compile_fail
//! use quadrille::sync::OwnedRwLockReadGuard as Guard;
//!
//! fn shorter<'a>(guard: Guard<&'static str>) -> Guard<&'static str, &'a str> {
//!     guard
//! }
//! ```
//!
//! ```compile_fail,E0597
//! use quadrille::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
//!
//! let mutex = std::sync::Arc::new(Mutex::new(()));
//! let mut number = 5;
//! let brought = &mut number;
//! let part = OwnedMutexGuard::map(mutex.try_lock_owned().unwrap(), move |()| Box::leak(Box::new(brought)));
//! assert_eq!(*OwnedMappedMutexGuard::map(part, |number| &mut **number), 5);
//! ```
//!
//! Nor a lock that lends to several readers what only one may use:
//!
//! ```compile_fail,E0277
//! fn shared(_: impl Sync) {}
//! shared(quadrille::thread::sync::RwLock::new(std::cell::Cell::new(1)));
//! ```
//!
//! Nor a guard of a reader that is sent away with a value that can't be shared:
//!
//! ```compile_fail,E0277
//! fn sent(_: impl Send) {}
//! sent(quadrille::thread::sync::RwLock::new(std::cell::Cell::new(1)).read().unwrap());
//! ```
