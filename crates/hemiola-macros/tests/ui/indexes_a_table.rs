use hemiola::prelude::*;

fn main() {
    hemiola::standalone(1).run(|cluster| {
        let table = cluster.table::<f32>("weights").rows(10).build()?;
        let sum = cluster.accumulator::<f32>();
        parallel_for!(
            cluster,
            for i in 0..10 {
                sum += table[i][0];
            }
        )?;
        println!("{}", table[3][0]);
        Ok(())
    });
}
