extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn main() {
    let cluster = Cluster;
    let text = String::from("x");
    let list = vec![1, 2, 3];
    parallel_for!(cluster, for _ in 0..4 {
        consume(text);
        for x in list {
            assert!(x > 0);
        }
    })
    .unwrap();
}

fn consume(_: String) {}
