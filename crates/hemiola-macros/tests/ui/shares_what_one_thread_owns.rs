//! A value that is not `Sync` cannot be captured.

use hemiola::prelude::*;
use std::cell::Cell;

fn main() -> hemiola::Result<()> {
    hemiola::standalone(1).run(|cluster| {
        let counter = Cell::new(0);
        parallel_for!(
            cluster,
            for _ in 0..10 {
                counter.set(counter.get() + 1);
            }
        )?;
        Ok(())
    })?;
    Ok(())
}
