//! A row cannot outlive an iteration, and two rows of one array cannot be borrowed mutably at once.

use hemiola::prelude::*;
use std::sync::Mutex;

fn main() -> hemiola::Result<()> {
    hemiola::standalone(1).run(|cluster| {
        let mut array = cluster.zeros::<f64, 2>([10, 2])?;
        let kept: Mutex<Vec<&[f64]>> = Mutex::new(Vec::new());
        parallel_for!(
            cluster,
            for i in 0..10 {
                kept.lock().unwrap().push(&array[i]);
            }
        )?;
        parallel_for!(
            cluster,
            for i in 1..10 {
                let (one, two) = (&mut array[i], &mut array[i - 1]);
                one[0] += two[0];
            }
        )?;
        Ok(())
    })?;
    Ok(())
}
