//! Files and directories.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, SeekFrom};
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::pin::{Pin, pin};
use std::sync::mpsc;

use futures_lite::future::{block_on, poll_once};
use futures_lite::{AsyncReadExt, AsyncSeekExt, AsyncWrite as _, AsyncWriteExt, StreamExt};
use quadrille::fs::{self, DirBuilder, File, OpenOptions};
use quadrille::sync::oneshot;
use quadrille::{JoinSet, Runtime, Wait};

use crate::scratch::Scratch;

/// The code of the system, which std's functions give for the same.
fn code<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().expect("it fails").raw_os_error()
}

#[quadrille::test]
async fn files_by_their_paths() -> io::Result<()> {
    let scratch = Scratch::new("paths");
    let (a, b) = (scratch.join("a"), scratch.join("b"));
    fs::write(&a, "hello").await?;
    assert_eq!(fs::read(&a).await?, b"hello");
    assert_eq!(fs::copy(&a, &b).await?, 5);
    assert_eq!(fs::read_to_string(&b).await?, "hello");
    fs::rename(&b, scratch.join("c")).await?;
    assert!(!fs::try_exists(&b).await?);
    assert_eq!(fs::read_to_string(scratch.join("c")).await?, "hello");
    fs::remove_file(&a).await?;
    assert!(!a.exists());
    Ok(())
}

#[quadrille::test]
async fn one_file_has_many_names() -> io::Result<()> {
    let scratch = Scratch::new("names");
    let (a, b, link) = (scratch.join("a"), scratch.join("b"), scratch.join("link"));
    fs::write(&a, "hello").await?;
    fs::hard_link(&a, &b).await?;
    assert_eq!(fs::metadata(&a).await?.nlink(), 2);
    fs::symlink("a", &link).await?;
    assert_eq!(fs::read_link(&link).await?.as_os_str(), "a");
    assert!(fs::symlink_metadata(&link).await?.is_symlink());
    assert!(fs::metadata(&link).await?.is_file());
    assert_eq!(fs::canonicalize(&link).await?, fs::canonicalize(&a).await?);
    let mut permissions = fs::metadata(&a).await?.permissions();
    permissions.set_mode(0o600);
    fs::set_permissions(&a, permissions).await?;
    assert_eq!(fs::metadata(&b).await?.mode() & 0o777, 0o600);
    Ok(())
}

#[quadrille::test]
async fn directories_are_made_listed_and_removed() -> io::Result<()> {
    let scratch = Scratch::new("directories");
    let deep = scratch.join("x/y/z");
    assert_eq!(code(fs::create_dir(&deep).await), code(std::fs::create_dir(&deep)));
    fs::create_dir_all(&deep).await?;
    fs::create_dir_all(&deep).await?;
    DirBuilder::new().mode(0o700).create(deep.join("private")).await?;
    assert_eq!(fs::metadata(deep.join("private")).await?.mode() & 0o777, 0o700);
    assert_eq!(
        code(fs::remove_dir(&deep).await),
        code(std::fs::remove_dir(&deep)),
        "it isn't empty"
    );
    fs::remove_dir(deep.join("private")).await?;
    fs::remove_dir_all(scratch.join("x")).await?;
    assert!(fs::read_dir(scratch.path()).await?.next_entry().await?.is_none());
    Ok(())
}

#[quadrille::test]
async fn a_listing_is_complete_however_often_it_is_interrupted() -> io::Result<()> {
    let scratch = Scratch::new("listing");
    let expected: BTreeSet<String> = (0..300).map(|number| format!("file-{number}")).collect();
    for name in &expected {
        std::fs::write(scratch.join(name), name)?;
    }
    let mut entries = fs::read_dir(scratch.path()).await?;
    let mut seen = BTreeSet::new();
    loop {
        // Polled once and dropped before each call that waits.
        let entry = match poll_once(entries.next_entry()).await {
            Some(entry) => entry?,
            None => entries.next_entry().await?,
        };
        let Some(entry) = entry else { break };
        assert!(entry.file_type().await?.is_file());
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(entry.metadata().await?.len(), name.len() as u64);
        assert_eq!(entry.path(), scratch.join(&name));
        assert_eq!(entry.ino(), std::fs::metadata(entry.path())?.ino());
        assert!(seen.insert(name));
    }
    assert_eq!(seen, expected);
    let stream = fs::read_dir(scratch.path()).await?;
    let names: Vec<_> = stream
        .map(|entry| entry.map(|entry| entry.file_name()))
        .try_collect()
        .await?;
    assert_eq!(names.len(), expected.len());
    Ok(())
}

#[quadrille::test]
async fn errors_are_those_of_std() {
    let missing = "/no/such/place";
    assert_eq!(code(fs::read(missing).await), code(std::fs::read(missing)));
    assert_eq!(code(fs::metadata(missing).await), code(std::fs::metadata(missing)));
    assert_eq!(code(fs::read_dir(missing).await), code(std::fs::read_dir(missing)));
    assert_eq!(
        code(fs::read_dir("/proc/self/status").await),
        code(std::fs::read_dir("/proc/self/status"))
    );
    assert_eq!(code(File::open(missing).await), code(std::fs::File::open(missing)));
    assert_eq!(code(File::create("/").await), code(std::fs::File::create("/")));
    assert_eq!(code(File::create_new("/").await), code(std::fs::File::create_new("/")));
    assert_eq!(
        fs::read_to_string("/proc/self/exe").await.unwrap_err().kind(),
        ErrorKind::InvalidData
    );
    assert_eq!(
        OpenOptions::new().open("/").await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[quadrille::test]
async fn a_write_that_fails_is_told_once_by_whoever_comes_next() -> io::Result<()> {
    // Writing to it fails for want of space.
    let mut file = OpenOptions::new().write(true).open("/dev/full").await?;
    file.write_all(b"lost").await?;
    assert_eq!(file.flush().await.unwrap_err().kind(), ErrorKind::StorageFull);
    file.flush().await?;
    file.write_all(b"lost").await?;
    assert_eq!(file.write(b"more").await.unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all(b"lost").await?;
    assert_eq!(file.sync_all().await.unwrap_err().kind(), ErrorKind::StorageFull);
    // Kept through calls that are not asked for it.
    file.write_all(b"lost").await?;
    file.metadata().await?;
    let file = file.try_into_std().unwrap_err();
    assert_eq!(file.into_std().await.unwrap_err().kind(), ErrorKind::StorageFull);
    Ok(())
}

/// Starts a read of four bytes, which can't be done before its future is dropped: the one thread for such work is held.
async fn read_and_drop(file: &mut File) {
    let (begun, begins) = oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    let holds = quadrille::spawn_blocking(move || {
        begun.send(()).unwrap();
        let _ = released.recv();
    });
    begins.await.unwrap();
    assert!(poll_once(file.read(&mut [0; 4])).await.is_none());
    drop(release);
    holds.await.unwrap();
}

#[test]
fn what_was_read_ahead_does_not_move_the_position() {
    let scratch = Scratch::new("ahead");
    let path = scratch.join("file");
    let runtime = Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let scenario = async {
        fs::write(&path, "0123456789").await?;
        let mut file = File::options().read(true).write(true).open(&path).await?;
        let mut bytes = [0; 4];
        read_and_drop(&mut file).await;
        file.read_exact(&mut bytes[..1]).await?;
        assert_eq!(bytes[0], b'0');
        assert_eq!(file.stream_position().await?, 1);
        read_and_drop(&mut file).await;
        file.write_all(b"x").await?;
        file.flush().await?;
        assert_eq!(fs::read_to_string(&path).await?, "0x23456789");
        read_and_drop(&mut file).await;
        assert_eq!(file.seek(SeekFrom::Current(1)).await?, 3);
        read_and_drop(&mut file).await;
        let error = file.seek(SeekFrom::Current(-4)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let mut clone = file.try_clone().await?;
        assert_eq!(clone.read(&mut bytes).await?, 4);
        assert_eq!(&bytes, b"3456");
        read_and_drop(&mut file).await;
        let mut std = file.into_std().await?;
        assert_eq!(io::Seek::stream_position(&mut std)?, 7);
        io::Result::Ok(())
    };
    runtime.block_on(scenario).unwrap();
}

/// A generator of numbers, the same for every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).unwrap()
    }
}

/// A file, and what it should be.
struct Model {
    file: File,
    bytes: Vec<u8>,
    position: usize,
}

impl Model {
    /// Reads `length` bytes, or up to the end.
    async fn read(&mut self, length: usize, dropped: bool) -> io::Result<()> {
        let mut buffer = vec![0; length];
        if dropped {
            let read = poll_once(self.file.read(&mut buffer)).await;
            self.position += read.transpose()?.unwrap_or(0);
        }
        let end = (self.position + length).min(self.bytes.len()).max(self.position);
        buffer.truncate(end - self.position);
        self.file.read_exact(&mut buffer).await?;
        assert_eq!(buffer, self.bytes.get(self.position..end).unwrap_or_default());
        self.position = end;
        Ok(())
    }

    async fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data).await?;
        if !data.is_empty() {
            let end = self.position + data.len();
            self.bytes.resize(self.bytes.len().max(end), 0);
            self.bytes[self.position..end].copy_from_slice(data);
            self.position = end;
        }
        Ok(())
    }

    async fn seek(&mut self, to: usize, dropped: bool) -> io::Result<()> {
        let seek = SeekFrom::Start(to as u64);
        if dropped {
            let _ = poll_once(self.file.seek(seek)).await;
        }
        assert_eq!(self.file.seek(seek).await?, to as u64);
        self.position = to;
        Ok(())
    }

    async fn cut(&mut self, length: usize) -> io::Result<()> {
        self.file.set_len(length as u64).await?;
        self.bytes.resize(length, 0);
        Ok(())
    }

    async fn check_position(&mut self) -> io::Result<()> {
        assert_eq!(self.file.stream_position().await?, self.position as u64);
        Ok(())
    }
}

/// Reads, writes, seeks and cuts in any order, some of them dropped once before, against bytes in memory.
#[quadrille::test]
async fn a_file_is_bytes_and_a_position() -> io::Result<()> {
    let scratch = Scratch::new("model");
    for seed in 0..8 {
        let mut numbers = Numbers(seed);
        let path = scratch.join(&seed.to_string());
        let mut model = Model {
            file: File::create_new(&path).await?,
            bytes: Vec::new(),
            position: 0,
        };
        model.file.set_max_buf_size(1 + numbers.below(300));
        for step in 0..300_u32 {
            let length = numbers.below(200);
            let dropped = numbers.below(3) == 0;
            let outcome = match numbers.below(5) {
                0 => model.read(length, dropped).await,
                1 => model.write(&vec![step.to_le_bytes()[0]; length]).await,
                2 => model.seek(length, dropped).await,
                3 => model.cut(length).await,
                _ => model.check_position().await,
            };
            outcome.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        }
        assert_eq!(model.file.metadata().await?.len(), model.bytes.len() as u64);
        model.file.sync_data().await?;
        assert_eq!(fs::read(&path).await?, model.bytes, "seed {seed}");
    }
    Ok(())
}

#[quadrille::test]
async fn operations_at_an_offset_leave_the_position_alone() -> io::Result<()> {
    const LENGTH: usize = 5_000_000;
    let scratch = Scratch::new("offset");
    let mut file = File::create_new(scratch.join("file")).await?;
    let data: Vec<u8> = (0..LENGTH).map(|number| number.to_le_bytes()[1]).collect();
    file.write_all_at(&data, 10).await?;
    let mut back = vec![0; LENGTH];
    file.read_exact_at(&mut back, 10).await?;
    assert!(back == data);
    assert_eq!(file.stream_position().await?, 0);
    let mut all = Vec::new();
    assert_eq!(file.read_to_end(&mut all).await?, LENGTH + 10);
    assert!(all[..10] == [0; 10] && all[10..] == data);
    let error = file.read_exact_at(&mut back, 11).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.read_at(&mut back, 1 << 40).await?, 0);
    let file = std::sync::Arc::new(file);
    let mut set = JoinSet::new();
    for part in 0..10 {
        let file = file.clone();
        set.spawn(async move {
            let offset = part * 1000;
            file.write_all_at(&[u8::try_from(part).unwrap(); 1000], offset)
                .await
                .unwrap();
            let mut bytes = [0; 1000];
            file.read_exact_at(&mut bytes, offset).await.unwrap();
            bytes.iter().all(|byte| u64::from(*byte) == part)
        });
    }
    assert!(set.join_all().await.into_iter().all(|right| right));
    Ok(())
}

#[quadrille::test]
async fn files_have_the_traits_of_futures_io() -> io::Result<()> {
    let scratch = Scratch::new("traits");
    let mut file = File::create_new(scratch.join("file")).await?;
    AsyncWriteExt::write_all(&mut file, b"hello world").await?;
    AsyncWriteExt::flush(&mut file).await?;
    assert_eq!(AsyncSeekExt::seek(&mut file, SeekFrom::Start(6)).await?, 6);
    let mut text = String::new();
    AsyncReadExt::read_to_string(&mut file, &mut text).await?;
    assert_eq!(text, "world");
    file.close().await?;
    let mut lines = Vec::new();
    file.rewind().await?;
    futures_lite::io::copy(&mut file, &mut lines).await?;
    assert_eq!(lines, b"hello world");
    Ok(())
}

#[quadrille::test]
async fn std_and_back() -> io::Result<()> {
    let scratch = Scratch::new("std");
    let std = std::fs::File::create_new(scratch.join("file"))?;
    let mut file = File::from_std(std);
    file.write_all(b"abc").await?;
    file.flush().await?;
    file.set_modified(std::time::UNIX_EPOCH).await?;
    let std = file.try_into_std().unwrap();
    assert_eq!(std.metadata()?.mtime(), 0);
    let file = File::from(std);
    let mut permissions = file.metadata().await?.permissions();
    permissions.set_mode(0o400);
    file.set_permissions(permissions).await?;
    assert_eq!(file.into_std().await?.metadata()?.mode() & 0o777, 0o400);
    Ok(())
}

#[test]
fn threads_use_files() {
    let scratch = Scratch::new("threads");
    let path = scratch.join("file");
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let thread = runtime.spawn_thread(move || {
        let mut file = File::create_new(&path).wait().unwrap();
        file.write_all(b"from a thread").wait().unwrap();
        file.rewind().wait().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).wait().unwrap();
        assert_eq!(text, "from a thread");
        fs::read(&path).wait().unwrap()
    });
    assert_eq!(thread.join().unwrap(), b"from a thread");
}

#[test]
#[should_panic(expected = "no quadrille runtime here")]
fn outside_of_a_runtime_it_panics() {
    let _ = block_on(fs::read("/"));
}

/// By the method and by the trait, in one operation each, which takes no more than it may.
#[quadrille::test]
async fn several_buffers_are_written_as_one() -> io::Result<()> {
    let scratch = Scratch::new("vectored");
    let path = scratch.join("a");
    let mut file = File::create(&path).await?;
    let pieces = [b"head ".as_slice(), b"", b"body ", b"tail\n"].map(IoSlice::new);
    let jobs = || quadrille::Handle::current().metrics().blocking.jobs;
    let before = jobs();
    assert_eq!(file.write_vectored(&pieces).await?, 15);
    assert_eq!(
        poll_fn(|cx| Pin::new(&mut file).poll_write_vectored(cx, &pieces)).await?,
        15
    );
    file.flush().await?;
    assert_eq!(jobs() - before, 2);
    assert_eq!(file.write_vectored(&[IoSlice::new(b""), IoSlice::new(b"")]).await?, 0);
    file.set_max_buf_size(7);
    assert_eq!(file.write_vectored(&pieces).await?, 7);
    file.flush().await?;
    assert_eq!(
        fs::read_to_string(&path).await?,
        "head body tail\nhead body tail\nhead bo"
    );
    Ok(())
}

#[quadrille::test]
async fn a_clone_takes_as_much_at_a_time() -> io::Result<()> {
    let scratch = Scratch::new("bound");
    let mut file = File::create(scratch.join("a")).await?;
    file.set_max_buf_size(7);
    let mut clone = file.try_clone().await?;
    assert_eq!(clone.max_buf_size(), 7);
    assert_eq!(clone.write(b"0123456789").await?, 7);
    Ok(())
}

/// What was read ahead of a pipe can't be given back to it: it stays with the handle that has read it.
#[quadrille::test]
async fn a_pipe_with_something_read_ahead_is_cloned() -> io::Result<()> {
    let (reader, mut writer) = io::pipe()?;
    let mut file = File::from_std(OwnedFd::from(reader).into());
    assert!(poll_once(pin!(file.read(&mut [0; 16]))).await.is_none(), "a job reads");
    io::Write::write_all(&mut writer, b"hello")?;
    let clone = file.try_clone().await?;
    let mut text = [0; 5];
    file.read_exact(&mut text).await?;
    assert_eq!(&text, b"hello");
    assert!(
        clone.into_std().await?.metadata()?.len() == 0,
        "nothing was read by that one"
    );
    assert!(poll_once(pin!(file.read(&mut [0; 16]))).await.is_none(), "a job reads");
    io::Write::write_all(&mut writer, b"lost")?;
    let error = file.into_std().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSeekable);
    Ok(())
}

/// A socket, like a terminal, can't go back; what is read there and what is written are two things.
#[quadrille::test]
async fn writing_to_what_cannot_seek_keeps_what_was_read_ahead() -> io::Result<()> {
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
    let mut file = File::from(OwnedFd::from(ours));
    assert!(poll_once(pin!(file.read(&mut [0; 16]))).await.is_none(), "a job reads");
    io::Write::write_all(&mut theirs, b"in")?;
    let mut heard = [0; 4];
    for word in [b"out1", b"out2"] {
        file.write_all(word).await?;
        file.flush().await?;
        io::Read::read_exact(&mut theirs, &mut heard)?;
        assert_eq!(&heard, word);
    }
    assert_eq!(file.read(&mut heard).await?, 2);
    assert_eq!(&heard[..2], b"in");
    Ok(())
}

#[quadrille::test]
async fn a_descriptor_is_taken_over_by_its_number() -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let number = writer.into_raw_fd();
    // SAFETY: it is that of a pipe's end which nobody has any more.
    let mut file = unsafe { File::from_raw_fd(number) };
    assert_eq!(file.as_raw_fd(), number);
    file.write_all(b"hello").await?;
    file.flush().await?;
    // The file has it alone: this is the end.
    drop(file);
    assert_eq!(io::read_to_string(&mut reader)?, "hello");
    Ok(())
}

/// To answer that it would block is not for who polls, by the traits of futures-io: that waits for somebody who was
/// never asked to wake it.
#[quadrille::test]
async fn what_does_not_block_is_waited_for() -> io::Result<()> {
    let (reader, mut writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let mut file = File::from(OwnedFd::from(reader));
    let mut buffer = [0; 5];
    let mut read = Box::pin(file.read(&mut buffer));
    // Whether the thread tries before the bytes are there is left to chance; the full pipe below does not depend on it.
    assert!(poll_once(read.as_mut()).await.is_none());
    io::Write::write_all(&mut writer, b"hello")?;
    assert_eq!(read.await?, 5);
    assert_eq!(&buffer, b"hello");

    let (mut reader, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    let mut file = File::from(OwnedFd::from(writer));
    // Longer than any pipe: it is full many times.
    let sent: Vec<u8> = (0..1_500_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    file.write_all(&sent).await?;
    let reads = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut reader, &mut bytes).map(|_| bytes)
    });
    file.flush().await?;
    drop(file);
    assert!(reads.join().unwrap()? == sent);
    Ok(())
}
