use hemiola::prelude::*;

fn program(cluster: &Cluster) -> hemiola::Result<()> {
    'epochs: for _ in 0..3 {
        parallel_for!(cluster, for i in 0..4 {
            if i == 2 {
                continue 'epochs;
            }
        })?;
    }
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(program).unwrap();
}
