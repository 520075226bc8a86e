//! The budget in processes and files: who never has to wait gives way all the same.

use futures_lite::AsyncReadExt;
use quadrille::Runtime;
use quadrille::fs::File;
use quadrille::io::stdout;
use quadrille::process::{Child, Command};

use crate::greedy::all_give_way;

/// A process that was waited for.
async fn ended() -> Child {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().await.unwrap();
    child
}

async fn file() -> File {
    File::open("/dev/zero").await.unwrap()
}

#[test]
fn what_is_done_at_once_gives_way() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let task = runtime.handle().spawn_pinned(|| async {
        all_give_way! {
            "Command::status": Command::new("/nothing/is/here") => |s| s.status().await.unwrap_err();
            "Command::output": Command::new("/nothing/is/here") => |s| s.output().await.unwrap_err();
            "Child::wait": ended().await => |s| s.wait().await.unwrap();
            "Child::kill": ended().await => |s| s.kill().await.unwrap();
            "File::read into nothing": file().await => |s| s.read(&mut []).await.unwrap();
            "File::read_at into nothing": file().await => |s| s.read_at(&mut [], 0).await.unwrap();
            "AsyncRead into nothing": file().await => |s| AsyncReadExt::read(s, &mut []).await.unwrap();
            "File::write of nothing": file().await => |s| s.write(&[]).await.unwrap();
            "File::read_exact into nothing": file().await => |s| s.read_exact(&mut []).await.unwrap();
            "File::read_exact_at into nothing": file().await => |s| s.read_exact_at(&mut [], 0).await.unwrap();
            "File::write_all of nothing": file().await => |s| s.write_all(&[]).await.unwrap();
            "File::write_all_at of nothing": file().await => |s| s.write_all_at(&[], 0).await.unwrap();
            "File::flush": file().await => |s| s.flush().await.unwrap();
            "Stdout::write of nothing": stdout() => |s| s.write(&[]).await.unwrap();
            "Stdout::write_all of nothing": stdout() => |s| s.write_all(&[]).await.unwrap();
            "Stdout::flush": stdout() => |s| s.flush().await.unwrap();
        }
    });
    runtime.block_on(task).unwrap();
}
