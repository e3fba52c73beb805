extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let lists = cluster.array::<Vec<usize>, 1>([3]);
    parallel_for!(cluster, for i in 0..3 {
        lists[i] = vec![i];
        lists[0].shrink_to_fit();
        lists.trample();
    })
    .unwrap();
}
