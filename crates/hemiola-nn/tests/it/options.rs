//! What a trainer can be told.

use crate::net::{BATCH, Net, distance, share, train};
use hemiola_nn::{Clip, Optimizer, Schedule, Trainer};
use hemiola_strategy::Builder;
use parking_lot::Mutex;

#[test]
fn passes_that_are_accumulated_are_one_step() {
    let optimizer = Optimizer::adam(0.01);
    for builder in [Builder::AllReduce { chunk: Some(2) }, Builder::Poseidon, Builder::Parallax] {
        let (whole, _) = train(2, 6, &optimizer, |set| set.strategy(builder)).unwrap();
        let found = Mutex::new(Vec::new());
        hemiola_cluster::standalone(2)
            .run(|cluster| {
                let mut trainer = Trainer::new(cluster, Net::new(), optimizer.clone())
                    .examples(BATCH / 2)
                    .strategy(builder)
                    .build()?;
                for step in 0..6 {
                    let examples = share(step, cluster);
                    let (first, rest) = examples.split_at(examples.len() / 3);
                    // One peer makes another pass than the other.
                    if cluster.is_root() {
                        let (second, rest) = rest.split_at(1);
                        trainer.accumulate(first.len(), |net| net.loss(first))?;
                        trainer.accumulate(second.len(), |net| net.loss(second))?;
                        trainer.step(rest.len(), |net| net.loss(rest))?;
                    } else {
                        trainer.accumulate(first.len(), |net| net.loss(first))?;
                        trainer.step(rest.len(), |net| net.loss(rest))?;
                    }
                }
                found.lock().push(trainer.settled()?.values());
                Ok(())
            })
            .unwrap();
        for values in found.into_inner() {
            let far = distance(&values, &whole[0]);
            assert!(far < 1e-4, "{builder}: {far}");
        }
    }
}

#[test]
fn batches_may_be_uneven_and_empty() {
    let optimizer = Optimizer::sgd(0.1);
    let (alone, _) = train(1, 8, &optimizer, |builder| builder).unwrap();
    for builder in [Builder::AllReduce { chunk: None }, Builder::Poseidon, Builder::Parallax, Builder::ParameterServer]
    {
        let found = Mutex::new(Vec::new());
        hemiola_cluster::standalone(3)
            .run(|cluster| {
                let mut trainer = Trainer::new(cluster, Net::new(), optimizer.clone()).strategy(builder).build()?;
                for step in 0..8 {
                    let all: Vec<usize> = (0..BATCH).map(|at| step * BATCH + at).collect();
                    let mine = match cluster.rank().index() {
                        0 => &all[..1],
                        1 => &all[1..],
                        _ => &[],
                    };
                    trainer.step(mine.len(), |net| net.loss(mine))?;
                }
                found.lock().push(trainer.settled()?.values());
                Ok(())
            })
            .unwrap();
        for values in found.into_inner() {
            let far = distance(&values, &alone[0]);
            assert!(far < 1e-4, "{builder}: {far}");
        }
    }
}

#[test]
fn clipping_is_the_same_for_all_strategies() {
    for clip in [Clip::Norm(0.05), Clip::Value(0.01)] {
        let optimizer = Optimizer::sgd(1.0);
        let (alone, _) = train(1, 5, &optimizer, |set| set.clip(clip)).unwrap();
        let (free, _) = train(1, 5, &optimizer, |set| set).unwrap();
        assert!(distance(&alone[0], &free[0]) > 0.01, "nothing is clipped");
        // A step of one is as long as the clipped gradient.
        if let Clip::Norm(most) = clip {
            let start = Net::new().values();
            let length: f32 = start.iter().zip(&alone[0]).map(|(one, other)| (one - other).powi(2)).sum::<f32>().sqrt();
            assert!(f64::from(length) <= 5.0 * most + 1e-4, "{length}");
        }
        for builder in [Builder::AllReduce { chunk: Some(2) }, Builder::Byteps, Builder::Poseidon, Builder::Parallax] {
            let (all, _) = train(2, 5, &optimizer, |set| set.clip(clip).strategy(builder)).unwrap();
            assert_eq!(all[0], all[1]);
            let far = distance(&all[0], &alone[0]);
            assert!(far < 1e-4, "{builder} {clip:?}: {far}");
        }
    }
}

#[test]
fn a_training_goes_on_from_a_checkpoint_with_other_peers_and_strategies() {
    for optimizer in [Optimizer::adam(0.01), Optimizer::sgd(0.05).momentum(0.9)] {
        let (straight, _) = train(2, 12, &optimizer, |set| set.schedule(Schedule::cosine(12))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("net");
        hemiola_cluster::standalone(3)
            .run(|cluster| {
                let builder = Trainer::new(cluster, Net::new(), optimizer.clone());
                let builder = builder.strategy(Builder::Parallax).schedule(Schedule::cosine(12));
                let mut trainer = builder.checkpoints(&folder).build()?;
                for step in 0..5 {
                    let examples = share(step, cluster);
                    trainer.step(examples.len(), |net| net.loss(&examples))?;
                }
                trainer.checkpoint()
            })
            .unwrap();
        for (peers, builder) in
            [(2, Builder::Partitioned { most: Some(2) }), (1, Builder::ParameterServer), (4, Builder::Poseidon)]
        {
            let (all, _) = train(peers, 12, &optimizer, |set| {
                set.strategy(builder).schedule(Schedule::cosine(12)).checkpoints(&folder).resume()
            })
            .unwrap();
            let far = distance(&all[0], &straight[0]);
            assert!(far < 2e-4, "{builder} on {peers} peers: {far}");
        }
    }
}

#[test]
fn optimizers_of_burn_train_and_go_on() {
    let optimizer = Optimizer::from(burn::optim::AdamConfig::new().build()).rate(0.01);
    let (alone, _) = train(1, 8, &optimizer, |set| set).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("net");
    for builder in [Builder::Balanced, Builder::AllReduce { chunk: Some(4) }] {
        let (all, _) = train(2, 8, &optimizer, |set| set.strategy(builder)).unwrap();
        let far = distance(&all[0], &alone[0]);
        assert!(far < 1e-4, "{builder}: {far}");
    }
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let builder = Trainer::new(cluster, Net::new(), optimizer.clone()).strategy(Builder::Balanced);
            let mut trainer = builder.checkpoints(&folder).build()?;
            for step in 0..3 {
                let examples = share(step, cluster);
                trainer.step(examples.len(), |net| net.loss(&examples))?;
            }
            trainer.checkpoint()
        })
        .unwrap();
    let (all, _) =
        train(2, 8, &optimizer, |set| set.strategy(Builder::Balanced).checkpoints(&folder).resume()).unwrap();
    assert!(distance(&all[0], &alone[0]) < 1e-4);
}

#[test]
fn a_trace_shows_messages_beside_passes() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let mut trainer = Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).trace().build()?;
            for step in 0..3 {
                let examples = share(step, cluster);
                trainer.step(examples.len(), |net| net.loss(&examples))?;
            }
            drop(trainer.settled()?);
            let spans = trainer.trace();
            assert_eq!(spans.iter().filter(|span| span.what == "backward").count(), 3);
            assert!(spans.iter().any(|span| span.what.contains("words.weight")));
            let file = hemiola_nn::trace::perfetto(&[(cluster.rank(), spans)]);
            assert!(file.contains("traceEvents"));
            Ok(())
        })
        .unwrap();
}
