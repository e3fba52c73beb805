use hemiola::prelude::*;

fn program(cluster: &Cluster, ratings: &DistArray<f64, 2>) -> hemiola::Result<()> {
    parallel_for!(cluster, for (i, rating) in ratings {
        println!("{i} {rating}");
    })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, &cluster.zeros([3, 2])?)).unwrap();
}
