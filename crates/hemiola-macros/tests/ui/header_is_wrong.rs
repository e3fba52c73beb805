use hemiola::prelude::*;

fn program(cluster: &Cluster, rows: &DistArray<f64, 1>) -> hemiola::Result<()> {
    parallel_for!(cluster, fast, for row in rows {})?;
    parallel_for!(cluster, for [i, j] in [0..3] {})?;
    parallel_for!(cluster, for [i, mut j] in [0.., 1..2] {})?;
    parallel_for!(for i in 0..3 {})?;
    parallel_for!(cluster, for i in (0..10).step_by(2) {})?;
    parallel_for!(cluster, for [i, j] in [(0..10).rev(), 0..3] {})?;
    parallel_for!(cluster, for i in (0..10).filter(|i| i % 2 == 0).map(|i| i + 1) {})?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, &cluster.zeros([3])?)).unwrap();
}
