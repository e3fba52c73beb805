extern crate self as hemiola;

#[path = "../mock/mod.rs"]
pub mod loops;

use hemiola_macros::parallel_for;
use loops::Cluster;

fn find(cluster: &Cluster, limit: usize) -> Result<usize, String> {
    let mut rows = 0;
    for outer in 0..3 {
        parallel_for!(cluster, for i in 0..4 {
            if i == limit {
                break;
            }
            let value = checked(i)?;
            if value == outer {
                return Ok(rows);
            }
            parallel_for!(cluster, for j in 0..2 {})?;
        })?;
        rows += 1;
    }
    Ok(rows)
}

fn checked(i: usize) -> Result<usize, String> {
    Ok(i)
}

fn main() {
    find(&Cluster, 3).unwrap();
}
