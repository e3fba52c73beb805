//! Several errors at once: captured variables can be read, but not written or moved.

use hemiola::prelude::*;

fn main() -> hemiola::Result<()> {
    hemiola::standalone(1).run(|cluster| {
        let array = cluster.zeros::<f64, 1>([10])?;
        let (mut sum, mut list, name) = (0.0, vec![0.0; 10], String::new());
        parallel_for!(
            cluster,
            for i in 0..10 {
                sum += array[i];
                list[i] = array[i];
                list.push(1.0);
                drop(name);
            }
        )?;
        println!("{sum} {list:?}");
        Ok(())
    })?;
    Ok(())
}
