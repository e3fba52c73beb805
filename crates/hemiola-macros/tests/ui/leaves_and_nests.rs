//! Jumps out of the body, and a nested parallel loop.

use hemiola::prelude::*;

fn main() -> hemiola::Result<()> {
    hemiola::standalone(1).run(|cluster| {
        let mut array = cluster.zeros::<f64, 1>([10])?;
        parallel_for!(
            cluster,
            for i in 0..10 {
                if array[i] > 1.0 {
                    break;
                }
                if array[i] > 2.0 {
                    return;
                }
                let number: f64 = "1".parse()?;
                array[i] = number;
                parallel_for!(cluster, for j in 0..10 { array[j] += 1.0; });
            }
        )?;
        Ok(())
    })?;
    Ok(())
}
