extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    'epochs: for _ in 0..3 {
        parallel_for!(cluster, for i in 0..4 {
            if i == 2 {
                continue 'epochs;
            }
        })
        .unwrap();
    }
}
