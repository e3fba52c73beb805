//! Names reserved by the macro cannot be used, not even inside macros that it does not expand.

use hemiola::prelude::*;

macro_rules! as_it_is {
    ($($tokens:tt)*) => { $($tokens)* };
}

fn main() -> hemiola::Result<()> {
    hemiola::standalone(1).run(|cluster| {
        let mut array = cluster.zeros::<f64, 1>([10])?;
        parallel_for!(
            cluster,
            for i in 0..10 {
                array[i] = 1.0;
                as_it_is!(__n0[3] = 2.0;);
            }
        )?;
        Ok(())
    })?;
    Ok(())
}
