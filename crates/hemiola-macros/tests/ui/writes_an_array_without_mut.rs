use hemiola::prelude::*;

fn local(cluster: &Cluster) -> hemiola::Result<()> {
    let squares = cluster.zeros::<usize, 1>([4])?;
    parallel_for!(cluster, for i in 0..4 {
        squares[i] = i * squares[i];
    })?;
    Ok(())
}

struct Model {
    weights: DistArray<f64, 1>,
}

impl Model {
    fn train(&self, cluster: &Cluster) -> hemiola::Result<()> {
        parallel_for!(cluster, for i in 0..4 {
            self.weights[i] += 1.0;
        })?;
        Ok(())
    }
}

fn main() {
    hemiola::standalone(1)
        .run(|cluster| {
            local(cluster)?;
            Model { weights: cluster.zeros([4])? }.train(cluster)
        })
        .unwrap();
}
