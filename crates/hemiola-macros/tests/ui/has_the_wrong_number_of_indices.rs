extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let ratings = cluster.array::<f64, 2>([3, 2]);
    parallel_for!(cluster, for (i, rating) in &ratings {
        println!("{i} {rating}");
    })
    .unwrap();
}
