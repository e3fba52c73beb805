//! Tests of the sharded lock with real threads. They are not in its file, because that one is also
//! included by the tests under loom.

use crate::sharded_rwlock::ShardedRwLock;

#[test]
fn writers_are_exclusive_and_readers_are_not() {
    let lock = ShardedRwLock::new(2, 5);
    let (one, two) = (lock.read(0), lock.read(1));
    assert_eq!((*one, *two), (5, 5));
    assert!(lock.try_write().is_none());
    drop(one);
    assert!(lock.try_write().is_none(), "one lock shard is still held");
    drop(two);
    *lock.try_write().expect("no guard is held") = 6;
    *lock.write() += 1;
    assert_eq!(*lock.read(1), 7);
}

#[test]
fn readers_see_no_partial_write() {
    const TIMES: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let lock = ShardedRwLock::new(2, (0_u64, 0_u64));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let lock = &lock;
            scope.spawn(move || {
                for _ in 0..TIMES {
                    let seen = lock.read(reader);
                    assert_eq!(seen.0, seen.1);
                }
            });
            scope.spawn(move || {
                for _ in 0..TIMES {
                    let mut change = lock.write();
                    change.0 += 1;
                    change.1 += 1;
                }
            });
        }
    });
    assert_eq!(*lock.read(0), (2 * TIMES, 2 * TIMES));
}
