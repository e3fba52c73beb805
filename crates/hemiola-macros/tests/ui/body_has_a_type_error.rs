use hemiola::prelude::*;

fn program(cluster: &Cluster, w: &mut DistArray<f64, 1>) -> hemiola::Result<()> {
    let scale = 2.0_f32;
    parallel_for!(cluster, for i in 0..3 {
        w[i] = scale;
        w[i] += missing;
        w["x"] = 1.0;
        w.nothing();
    })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1).run(|cluster| program(cluster, &mut cluster.zeros([3])?)).unwrap();
}
