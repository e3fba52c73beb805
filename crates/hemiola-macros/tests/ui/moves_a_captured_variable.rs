use hemiola::prelude::*;

fn program(cluster: &Cluster) -> hemiola::Result<()> {
    let text = String::from("x");
    let list = vec![1, 2, 3];
    parallel_for!(cluster, for _ in 0..4 {
        consume(text);
        for x in list {
            assert!(x > 0);
        }
    })?;
    Ok(())
}

fn consume(_: String) {}

fn main() {
    hemiola::standalone(1).run(program).unwrap();
}
