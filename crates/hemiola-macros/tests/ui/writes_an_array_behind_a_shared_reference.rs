use hemiola::prelude::*;

fn program(cluster: &Cluster, squares: &DistArray<usize, 1>) -> hemiola::Result<()> {
    parallel_for!(cluster, for i in 0..4 {
        squares[i] = i * i;
    })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, &cluster.zeros([4])?)).unwrap();
}
