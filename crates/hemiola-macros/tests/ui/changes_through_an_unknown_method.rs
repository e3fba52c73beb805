use hemiola::prelude::*;

fn program(cluster: &Cluster, lists: &mut DistArray<Vec<usize>, 1>) -> hemiola::Result<()> {
    parallel_for!(cluster, for i in 0..3 {
        lists[i] = vec![i];
        lists[0].shrink_to_fit();
        lists.resolve();
    })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, &mut cluster.zeros([3])?)).unwrap();
}
