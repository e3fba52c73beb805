//! Settings of a trainer.

use crate::test_net::{BATCH, Net, distance, share, train};
use hemiola_nn::{GradientClip, LrSchedule, Optimizer, Trainer};
use hemiola_strategy::StrategyBuilder;
use parking_lot::Mutex;

#[test]
fn accumulated_passes_are_one_step() {
    let optimizer = Optimizer::adam(0.01);
    for builder in [StrategyBuilder::AllReduce { chunk: Some(2) }, StrategyBuilder::Poseidon, StrategyBuilder::Parallax]
    {
        let (whole, _) = train(2, 6, &optimizer, |set| set.strategy(builder)).unwrap();
        let found = Mutex::new(Vec::new());
        hemiola_cluster::standalone(2)
            .run(|cluster| {
                let mut trainer = Trainer::builder(cluster, Net::new(), optimizer.clone())
                    .batch_size(BATCH / 2)
                    .strategy(builder)
                    .build()?;
                for step in 0..6 {
                    let examples = share(step, cluster);
                    let (first, rest) = examples.split_at(examples.len() / 3);
                    // The peers accumulate different numbers of passes.
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
                found.lock().push(trainer.synced_model()?.values());
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
    for builder in [
        StrategyBuilder::AllReduce { chunk: None },
        StrategyBuilder::Poseidon,
        StrategyBuilder::Parallax,
        StrategyBuilder::ParameterServer,
    ] {
        let found = Mutex::new(Vec::new());
        hemiola_cluster::standalone(3)
            .run(|cluster| {
                let mut trainer = Trainer::builder(cluster, Net::new(), optimizer.clone()).strategy(builder).build()?;
                for step in 0..8 {
                    let all: Vec<usize> = (0..BATCH).map(|at| step * BATCH + at).collect();
                    let mine = match cluster.rank().index() {
                        0 => &all[..1],
                        1 => &all[1..],
                        _ => &[],
                    };
                    trainer.step(mine.len(), |net| net.loss(mine))?;
                }
                found.lock().push(trainer.synced_model()?.values());
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
fn clipping_is_equal_for_all_strategies() {
    for clip in [GradientClip::Norm(0.05), GradientClip::Value(0.01)] {
        let optimizer = Optimizer::sgd(1.0);
        let (alone, _) = train(1, 5, &optimizer, |set| set.clip(clip)).unwrap();
        let (free, _) = train(1, 5, &optimizer, |set| set).unwrap();
        assert!(distance(&alone[0], &free[0]) > 0.01, "nothing is clipped");
        // With a learning rate of 1, an update is as long as the clipped gradient.
        if let GradientClip::Norm(most) = clip {
            let start = Net::new().values();
            let length: f32 = start.iter().zip(&alone[0]).map(|(one, other)| (one - other).powi(2)).sum::<f32>().sqrt();
            assert!(f64::from(length) <= 5.0 * most + 1e-4, "{length}");
        }
        for builder in [
            StrategyBuilder::AllReduce { chunk: Some(2) },
            StrategyBuilder::Byteps,
            StrategyBuilder::Poseidon,
            StrategyBuilder::Parallax,
        ] {
            let (all, _) = train(2, 5, &optimizer, |set| set.clip(clip).strategy(builder)).unwrap();
            assert_eq!(all[0], all[1]);
            let far = distance(&all[0], &alone[0]);
            assert!(far < 1e-4, "{builder} {clip:?}: {far}");
        }
    }
}

#[test]
fn training_resumes_with_other_peers_and_strategies() {
    for optimizer in [Optimizer::adam(0.01), Optimizer::sgd(0.05).momentum(0.9)] {
        let (straight, _) = train(2, 12, &optimizer, |set| set.schedule(LrSchedule::cosine(12))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("net");
        hemiola_cluster::standalone(3)
            .run(|cluster| {
                let builder = Trainer::builder(cluster, Net::new(), optimizer.clone());
                let builder = builder.strategy(StrategyBuilder::Parallax).schedule(LrSchedule::cosine(12));
                let mut trainer = builder.checkpoints(&folder).build()?;
                for step in 0..5 {
                    let examples = share(step, cluster);
                    trainer.step(examples.len(), |net| net.loss(&examples))?;
                }
                trainer.checkpoint()
            })
            .unwrap();
        for (peers, builder) in [
            (2, StrategyBuilder::Partitioned { most: Some(2) }),
            (1, StrategyBuilder::ParameterServer),
            (4, StrategyBuilder::Poseidon),
        ] {
            let (all, _) = train(peers, 12, &optimizer, |set| {
                set.strategy(builder).schedule(LrSchedule::cosine(12)).checkpoints(&folder).resume()
            })
            .unwrap();
            let far = distance(&all[0], &straight[0]);
            assert!(far < 2e-4, "{builder} on {peers} peers: {far}");
        }
    }
}

#[test]
fn burn_optimizers_train_and_resume() {
    let optimizer = Optimizer::from(burn::optim::AdamConfig::new().build()).with_learning_rate(0.01);
    let (alone, _) = train(1, 8, &optimizer, |set| set).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("net");
    for builder in [StrategyBuilder::Balanced, StrategyBuilder::AllReduce { chunk: Some(4) }] {
        let (all, _) = train(2, 8, &optimizer, |set| set.strategy(builder)).unwrap();
        let far = distance(&all[0], &alone[0]);
        assert!(far < 1e-4, "{builder}: {far}");
    }
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let builder = Trainer::builder(cluster, Net::new(), optimizer.clone()).strategy(StrategyBuilder::Balanced);
            let mut trainer = builder.checkpoints(&folder).build()?;
            for step in 0..3 {
                let examples = share(step, cluster);
                trainer.step(examples.len(), |net| net.loss(&examples))?;
            }
            trainer.checkpoint()
        })
        .unwrap();
    let (all, _) =
        train(2, 8, &optimizer, |set| set.strategy(StrategyBuilder::Balanced).checkpoints(&folder).resume()).unwrap();
    assert!(distance(&all[0], &alone[0]) < 1e-4);
}

#[test]
fn a_trace_shows_messages_beside_passes() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let mut trainer = Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).trace().build()?;
            for step in 0..3 {
                let examples = share(step, cluster);
                trainer.step(examples.len(), |net| net.loss(&examples))?;
            }
            drop(trainer.synced_model()?);
            let spans = trainer.trace();
            assert_eq!(spans.iter().filter(|span| span.name == "backward").count(), 3);
            assert!(spans.iter().any(|span| span.name.contains("words.weight")));
            let file = hemiola_nn::trace::chrome_trace(&[(cluster.rank(), spans)]);
            assert!(file.contains("traceEvents"));
            Ok(())
        })
        .unwrap();
}
