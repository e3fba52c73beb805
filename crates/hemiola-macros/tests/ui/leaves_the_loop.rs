use hemiola::prelude::*;

fn find(cluster: &Cluster, limit: usize) -> hemiola::Result<usize> {
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

fn checked(i: usize) -> hemiola::Result<usize> {
    Ok(i)
}

fn main() {
    hemiola::standalone(1).run(|cluster| find(cluster, 3)).unwrap();
}
