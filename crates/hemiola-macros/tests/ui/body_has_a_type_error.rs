extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let w = cluster.array::<f64, 1>([3]);
    let scale = 2.0_f32;
    parallel_for!(cluster, for i in 0..3 {
        w[i] = scale;
        w[i] += missing;
        w["x"] = 1.0;
        w.nothing();
    })
    .unwrap();
}
