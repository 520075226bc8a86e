//! A thread that watches for the next job.

use super::*;
use crate::blocking::watch::Post;

const SOME: Nanos = Nanos(1);
const ROUNDS: usize = if cfg!(miri) { 2 } else { 100 };

fn watch(config: &str) -> Watch {
    Watch::new(config.parse().unwrap())
}

#[test]
fn nobody_watches_for_no_time() {
    let (watch, mut post) = (watch("default"), Post::default());
    assert!(watch.begins(&mut post).is_none());
    watch.lasts(SOME);
    assert!(watch.begins(&mut post).is_some());
}

#[test]
fn one_watches_at_a_time_and_is_promised_one_job() {
    let (watch, mut post) = (watch("default"), Post::default());
    watch.lasts(SOME);
    assert!(!Watch::is_promised(&mut post), "nobody watches");
    assert!(watch.begins(&mut post).is_some());
    assert!(watch.begins(&mut post).is_none());
    assert!(Watch::is_promised(&mut post));
    assert!(!Watch::is_promised(&mut post), "the next job is for somebody else");
    assert!(watch.begins(&mut post).is_none(), "the first is not back");
    Watch::ends(&mut post);
    assert!(watch.begins(&mut post).is_some());
}

#[test]
fn what_never_pays_is_left_out_until_it_does() {
    let (watch, mut post) = (watch("spin-vain=2,spin-probe=4"), Post::default());
    watch.lasts(SOME);
    let attempt = |post: &mut Post, is_promised: bool| {
        let begins = watch.begins(post).is_some();
        if begins {
            assert_eq!(is_promised && Watch::is_promised(post), is_promised);
            Watch::ends(post);
        }
        begins
    };
    let in_vain: Vec<bool> = (0..6).map(|_| attempt(&mut post, false)).collect();
    assert_eq!(in_vain, [true, true, false, false, false, true]);
    let paying: Vec<bool> = (0..6).map(|_| attempt(&mut post, true)).collect();
    assert_eq!(paying, [false, false, false, true, true, true]);
}

/// Nothing else ends these watches within a test: neither would return.
#[test]
fn who_watches_is_told_of_a_job_and_of_the_end() {
    let pool = pool(1, LONG);
    pool.watch_for(Nanos(u64::MAX));
    for _ in 0..ROUNDS {
        pool.run(|| ());
        pool.wait_until(|state| state.post.is_watched());
    }
    assert_eq!(pool.census(), (1, 1, 0));
    assert_eq!(pool.shutdown(None), 0);
}

/// Whoever was promised a job, which another has taken, is not awake yet.
#[test]
fn who_watches_is_told_though_another_is_on_his_way() {
    let pool = pool(1, LONG);
    pool.watch_for(Nanos(u64::MAX));
    pool.run(|| ());
    pool.wait_until(|state| state.post.is_watched());
    pool.shared.lock().permits += 1;
    pool.run(|| ());
    pool.wait_until(|state| state.post.is_watched());
    pool.shared.lock().permits -= 1;
    assert_eq!(pool.shutdown(None), 0);
}

#[test]
fn who_sleeps_is_woken_while_another_watches() {
    let pool = pool(2, LONG);
    pool.watch_for(Nanos(u64::MAX));
    for _ in 0..ROUNDS {
        let busy = [pool.occupy(|| ()), pool.occupy(|| ())];
        busy.iter().for_each(|release| release.send(()).unwrap());
        pool.wait_until(|state| state.idle == 2 && state.post.is_watched());
    }
    assert_eq!(pool.shutdown(None), 0);
}
