use hemiola::prelude::*;

fn program(cluster: &Cluster, n: u64) -> hemiola::Result<()> {
    parallel_for!(cluster, for i in 0..n {})?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, 3)).unwrap();
}
