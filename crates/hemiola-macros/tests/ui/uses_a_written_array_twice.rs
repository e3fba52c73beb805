use hemiola::prelude::*;

fn two_names(cluster: &Cluster, array: &mut DistArray<u64, 1>) -> hemiola::Result<()> {
    let other = &*array;
    parallel_for!(cluster, for i in 0..4 {
        array[i] += other[i];
    })?;
    Ok(())
}

fn iterated_and_written(cluster: &Cluster, array: &mut DistArray<u64, 1>) -> hemiola::Result<()> {
    parallel_for!(cluster, for (i, value) in &*array {
        array[i] = *value;
    })?;
    Ok(())
}

fn behind_a_buffer(cluster: &Cluster, array: &mut DistArray<u64, 1>) -> hemiola::Result<()> {
    let buffer = array.buffered(|cell: &mut u64, more: u64| *cell += more);
    parallel_for!(cluster, for i in 0..4 {
        buffer[i] += 1;
        array[i] = 0;
    })?;
    Ok(())
}

fn main() {
    hemiola::standalone(1)
        .run(|cluster| {
            let mut array = cluster.zeros([4])?;
            two_names(cluster, &mut array)?;
            iterated_and_written(cluster, &mut array)?;
            behind_a_buffer(cluster, &mut array)
        })
        .unwrap();
}
