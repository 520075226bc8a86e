//! Where io_uring is refused: by the kernel, by the environment, by the builder; and where it is not, but the kernel
//! has no thread for it.
//!
//! A filter of system calls and a limit are for good, and the environment is the whole process's: each in a child.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{Backend, File, TcpListener, TcpStream};
use crate::Runtime;
use crate::child::{assert_passed, child, kind, run_child};
use crate::sys::process::{forbid, forbid_threads};

/// Says `yes` or `no` to io_uring, or leaves it to the environment.
fn backend(builder: Option<bool>) -> Result<Backend, String> {
    let settings = Runtime::builder().worker_threads(2);
    let settings = match builder {
        Some(allowed) => settings.io_uring(allowed),
        None => settings,
    };
    let runtime = settings.build().map_err(|error| error.to_string())?;
    runtime.block_on(async { echo().await });
    Ok(runtime.handle().io_backend())
}

/// The operations work, whatever carries them out.
async fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    client.write_all("hello").await.0.unwrap();
    let (count, buffer) = server.read(Vec::with_capacity(16)).await;
    assert_eq!((count.unwrap(), &*buffer), (5, &b"hello"[..]));
}

fn refused(why: &str) -> Result<Backend, String> {
    Ok(Backend::Fallback { why: why.to_owned() })
}

#[test]
fn where_a_filter_forbids_a_call_the_fall_back_is_taken_and_names_it() {
    let calls = [
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_register", libc::SYS_io_uring_register),
        ("io_uring_enter", libc::SYS_io_uring_enter),
    ];
    if let Some(kind) = kind() {
        let (name, call) = calls.into_iter().find(|(name, _)| *name == kind).unwrap();
        // A kernel that refuses the first call is never asked for the others.
        let expected = match backend(None).unwrap() {
            Backend::Fallback { why } if name != "io_uring_setup" => why,
            _ => format!("{name}: "),
        };
        forbid(call);
        let Ok(Backend::Fallback { why }) = backend(None) else {
            panic!("{name} is forbidden");
        };
        assert!(why.contains(&expected), "{why}");
        assert!(why.contains("Operation not permitted") || why == expected, "{why}");
        return;
    }
    for (name, _) in calls {
        let test = "where_a_filter_forbids_a_call_the_fall_back_is_taken_and_names_it";
        assert_passed(&child(module_path!(), test, name).output().unwrap());
    }
}

#[test]
fn the_environment_forbids_it_unless_the_builder_allows_it() {
    const VARIABLE: &str = "QUADRILLE_IO_URING";
    match kind().as_deref() {
        Some("off") => {
            assert_eq!(backend(None), refused("QUADRILLE_IO_URING is off"));
            assert_eq!(backend(Some(false)), refused("the builder says no"));
            assert_ne!(backend(Some(true)), refused("QUADRILLE_IO_URING is off"));
        }
        Some("auto") => {
            assert_eq!(backend(None), backend(Some(true)));
            assert_eq!(backend(Some(false)), refused("the builder says no"));
        }
        Some("bad") => {
            let message = "QUADRILLE_IO_URING is \"maybe\", expected auto or off";
            assert_eq!(backend(None), Err(message.to_owned()));
            // What the program says is not looked up.
            assert_eq!(backend(Some(false)), refused("the builder says no"));
        }
        Some(other) => panic!("no such child: {other}"),
        None => {
            let name = "the_environment_forbids_it_unless_the_builder_allows_it";
            for (kind, value) in [
                ("off", "off"),
                ("off", " off "),
                ("auto", "auto"),
                ("auto", ""),
                ("bad", "maybe"),
            ] {
                let output = child(module_path!(), name, kind).env(VARIABLE, value).output().unwrap();
                assert_passed(&output);
            }
        }
    }
}

/// The kernel syncs a file on a thread of its own, and cancels what it gets none for.
#[test]
fn what_the_kernel_gets_no_thread_for_ends_with_an_error() {
    if kind().is_none() {
        let name = "what_the_kernel_gets_no_thread_for_ends_with_an_error";
        assert_passed(&run_child(module_path!(), name));
        return;
    }
    let path = std::env::temp_dir().join(format!("quadrille-uring-threads-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (sender, outcome) = channel();
    let synced = thread::spawn(move || {
        forbid_threads();
        let sync = async { File::from_std(file).sync_all().await };
        let outcome = runtime.block_on(async { crate::spawn(sync).await.unwrap() });
        sender.send((outcome, runtime.handle().io_backend())).unwrap();
    });
    let (outcome, backend) = outcome.recv_timeout(Duration::from_secs(30)).expect("it ends");
    synced.join().unwrap();
    if backend == Backend::IoUring {
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    }
}
