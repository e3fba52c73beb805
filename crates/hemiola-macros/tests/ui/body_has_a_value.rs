extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    parallel_for!(cluster, for i in 0..3 { i + 1 }).unwrap();
}
