use hemiola::prelude::*;

fn program(cluster: &Cluster) -> hemiola::Result<()> {
    parallel_for!(cluster, for i in 0..3 { i + 1 })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(program).unwrap();
}
