extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let rows = cluster.array::<f64, 1>([3]);
    parallel_for!(cluster, fast, for row in &rows {}).unwrap();
    parallel_for!(cluster, for [i, j] in [0..3] {}).unwrap();
    parallel_for!(cluster, for [i, mut j] in [0.., 1..2] {}).unwrap();
    parallel_for!(for i in 0..3 {}).unwrap();
}
