use hemiola::prelude::*;

fn program(cluster: &Cluster) -> hemiola::Result<()> {
    let mut total = 0.0;
    let mut counts = vec![0; 4];
    let mut pair = (0, 1);
    parallel_for!(cluster, for i in 0..4 {
        total += 1.0;
        counts[i] += 1;
        pair.1 = i;
    })?;
    println!("{total} {counts:?} {pair:?}");
    Ok(())
}

fn collect(cluster: &Cluster) -> hemiola::Result<Vec<String>> {
    let mut names = Vec::new();
    parallel_for!(cluster, for i in 0..4 {
        names.push(format!("{i}"));
    })?;
    Ok(names)
}

fn sort(cluster: &Cluster, list: &mut Vec<u32>) -> hemiola::Result<()> {
    parallel_for!(cluster, for _ in 0..4 {
        list.sort();
    })?;
    Ok(())
}

fn generic<T: Default + Sync>(cluster: &Cluster, mut value: T) -> hemiola::Result<T> {
    parallel_for!(cluster, for _ in 0..4 {
        value = T::default();
        reset(&mut value);
    })?;
    Ok(value)
}

fn reset<T>(_: &mut T) {}

fn main() {
    hemiola::standalone(1).run(program).unwrap();
}
