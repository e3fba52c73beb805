extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let mut total = 0.0;
    let mut counts = vec![0; 4];
    let mut pair = (0, 1);
    parallel_for!(cluster, for i in 0..4 {
        total += 1.0;
        counts[i] += 1;
        pair.1 = i;
    })
    .unwrap();
    println!("{total} {counts:?} {pair:?}");
}

fn collect(cluster: &Cluster) -> Vec<String> {
    let mut names = Vec::new();
    parallel_for!(cluster, for i in 0..4 {
        names.push(format!("{i}"));
    })
    .unwrap();
    names
}

fn sort(cluster: &Cluster, list: &mut Vec<u32>) {
    parallel_for!(cluster, for _ in 0..4 {
        list.sort();
    })
    .unwrap();
}

fn generic<T: Default>(cluster: &Cluster, mut value: T) -> T {
    parallel_for!(cluster, for _ in 0..4 {
        value = T::default();
        reset(&mut value);
    })
    .unwrap();
    value
}

fn reset<T>(_: &mut T) {}
