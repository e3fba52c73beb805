//! Variables in tables of the parameter server: BSP has the bits of reduce and broadcast, stale
//! tables reach the same optimum and equal copies, and every one of them resumes.

use crate::linear_model::{MomentumKernel, assert_within, built, spec, train_on};
use hemiola_cluster::standalone;
use hemiola_core::rng::SplitMix64;
use hemiola_strategy::{
    LinkSpec, ModelSpec, ResourceSpec, Strategy, StrategyBuilder, Synchronizer, TableConsistency, VariableSpec,
};
use hemiola_sync::{GradientClip, ModelSync, PassKind, VariableId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Strategy of tables on some peers.
fn tables(peers: usize, consistency: TableConsistency) -> Strategy {
    let network = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
    StrategyBuilder::Tables { consistency }.build(&spec(peers), &network).unwrap()
}

/// The same variables on the same peers, synchronized by reduce and broadcast.
fn reduced(mut strategy: Strategy) -> Strategy {
    let nodes = strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes);
    nodes.for_each(|node| node.synchronizer = Synchronizer::ParameterServer);
    strategy
}

#[test]
fn a_bsp_table_gives_the_bits_of_reduce_and_broadcast() {
    let folder = tempfile::tempdir().unwrap();
    for peers in [1, 2, 3, 4, 6] {
        let strategy = tables(peers, TableConsistency::Bsp);
        let expected =
            train_on(peers, Some(reduced(strategy.clone()).into()), &folder.path().join("reduced"), false, 10);
        let found = train_on(peers, Some(strategy.into()), &folder.path().join("table"), false, 10);
        assert_eq!(found, expected, "{peers} peers");
    }
}

#[test]
fn stale_tables_reach_the_optimum_of_one_process_with_equal_copies() {
    let folder = tempfile::tempdir().unwrap();
    let alone = train_on(1, built(StrategyBuilder::default()), &folder.path().join("alone"), false, 400);
    for builder in StrategyBuilder::TABLES {
        for peers in [2, 3] {
            let all = train_on(peers, built(builder), &folder.path().join("tables"), false, 400);
            assert!(all.iter().all(|values| *values == all[0]), "{builder}: copies differ");
            assert_within(2e-3, &all[0], &alone[0], &format!("{builder} on {peers} peers"));
        }
    }
}

#[test]
fn tables_resume_on_another_number_of_peers() {
    let folder = tempfile::tempdir().unwrap();
    let alone = train_on(1, built(StrategyBuilder::default()), &folder.path().join("alone"), false, 400);
    for builder in StrategyBuilder::TABLES {
        let half = folder.path().join(builder.to_string());
        train_on(3, built(builder), &half, false, 20);
        for (peers, then) in [(2, builder), (1, builder), (4, StrategyBuilder::Balanced)] {
            let resumed = train_on(peers, built(then), &half, true, 400);
            assert_within(2e-3, &resumed[0], &alone[0], &format!("{builder}, then {then} on {peers} peers"));
        }
    }
    // BSP repeats the bits of an undisturbed run on as many peers.
    let bsp = StrategyBuilder::TABLES[0];
    let straight = train_on(3, built(bsp), &folder.path().join("straight"), false, 40);
    let resumed = train_on(3, None, &folder.path().join(bsp.to_string()), true, 40);
    assert_eq!(resumed, straight);
}

/// Model of two variables, one of them larger than a chunk of 2 MB.
fn large() -> ModelSpec {
    ModelSpec::new(vec![VariableSpec::dense("large", [600, 1000]), VariableSpec::dense("small", [3])]).unwrap()
}

/// Largest lead of a peer over the slowest one, in steps, with random pauses.
fn largest_lead(builder: StrategyBuilder, steps: u64) -> u64 {
    const PEERS: usize = 3;
    let (done, lead) = ([const { AtomicU64::new(0) }; PEERS], AtomicU64::new(0));
    standalone(PEERS)
        .run(|cluster| {
            let model = ModelSpec::new(vec![VariableSpec::dense("w", [4])]).map_err(hemiola_sync::Error::from)?;
            let mut sync =
                ModelSync::builder(cluster, model, vec![vec![1.0; 4]], MomentumKernel).strategy(builder).build()?;
            let (me, variable) = (cluster.rank().index(), VariableId::new(0));
            let mut random = SplitMix64::new(me as u64);
            for step in 0..steps {
                let gradients = sync.begin_pass(PassKind::Step);
                let values = sync.next_values(variable, PassKind::Step).wait();
                // All values that this peer needs have arrived: the consistency model lets it
                // compute.
                let slowest = done.iter().map(|done| done.load(Ordering::SeqCst)).min().unwrap_or(0);
                lead.fetch_max(step - slowest.min(step), Ordering::SeqCst);
                for _ in 0..random.below(if me == 0 { 3000 } else { 100 }) {
                    std::thread::yield_now();
                }
                sync.forward_complete(PassKind::Step, 1, 0.0, 0.01);
                done[me].store(step + 1, Ordering::SeqCst);
                gradients.send(variable, values);
                sync.end_pass(PassKind::Step)?;
            }
            sync.wait()
        })
        .unwrap();
    lead.into_inner()
}

#[test]
fn the_staleness_bound_holds_and_an_asynchronous_table_has_none() {
    assert_eq!(largest_lead(StrategyBuilder::TABLES[0], 60), 0);
    for bound in [1, 3] {
        let builder = StrategyBuilder::Tables { consistency: TableConsistency::Ssp(bound) };
        assert!(largest_lead(builder, 120) <= bound, "SSP({bound})");
    }
    // The other peers end while the first one still computes: nobody waits for it.
    let fast_ended = standalone(2).run(|cluster| {
        let model = ModelSpec::new(vec![VariableSpec::dense("w", [4])]).map_err(hemiola_sync::Error::from)?;
        let sync = ModelSync::builder(cluster, model, vec![vec![1.0; 4]], MomentumKernel);
        let mut sync = sync.strategy(StrategyBuilder::TABLES[2]).build()?;
        if cluster.is_root() {
            // The others have taken all their steps before the first one of this peer.
            cluster.barrier()?;
        }
        for _ in 0..50 {
            let gradients = sync.begin_pass(PassKind::Step);
            let values = sync.next_values(VariableId::new(0), PassKind::Step).wait();
            sync.forward_complete(PassKind::Step, 1, 0.0, 0.01);
            gradients.send(VariableId::new(0), values);
            sync.end_pass(PassKind::Step)?;
        }
        if !cluster.is_root() {
            cluster.barrier()?;
        }
        sync.wait()?;
        Ok(sync.newest_values(VariableId::new(0)).wait())
    });
    let values = fast_ended.unwrap();
    assert_eq!(values[0], values[1]);
    assert!(values[0][0] < 0.7, "100 updates have decreased the weights: {values:?}");
}

#[test]
fn large_variables_lie_in_several_chunks_and_absent_gradients_count_as_zero() {
    for builder in StrategyBuilder::TABLES {
        let trained = Mutex::new(vec![Vec::new(); 2]);
        standalone(2)
            .run(|cluster| {
                let model = large();
                let values = model.variables.iter().map(|variable| vec![0.5; variable.elements() as usize]).collect();
                let mut sync = ModelSync::builder(cluster, model, values, MomentumKernel).strategy(builder).build()?;
                assert_eq!(sync.strategy().plans[0].nodes.len(), 2, "2.4 MB are two chunks");
                for step in 0..3 {
                    let gradients = sync.begin_pass(PassKind::Step);
                    let values = sync.next_values(VariableId::new(0), PassKind::Step).wait();
                    let small = sync.next_values(VariableId::new(1), PassKind::Step).wait();
                    // One peer has no example in the second step.
                    let examples = u64::from(step != 1 || cluster.is_root());
                    sync.forward_complete(PassKind::Step, examples, 0.0, 0.1);
                    if examples > 0 {
                        gradients.send(VariableId::new(0), vec![1.0; values.len()]);
                    }
                    assert_eq!(small, [0.5; 3]);
                    sync.end_pass(PassKind::Step)?;
                }
                sync.wait()?;
                trained.lock()[cluster.rank().index()] = sync.newest_values(VariableId::new(0)).wait();
                Ok(())
            })
            .unwrap();
        let trained = trained.into_inner();
        assert_eq!(trained[0], trained[1]);
        assert!(trained[0].iter().all(|value| value.to_bits() == trained[0][0].to_bits() && *value < 0.3), "{builder}");
    }
}

#[test]
fn a_gradient_that_is_not_finite_names_the_variable_and_clipping_by_norm_is_refused() {
    let model = || ModelSpec::new(vec![VariableSpec::dense("w", [4])]).unwrap();
    for builder in StrategyBuilder::TABLES {
        let error = standalone(2).run(|cluster| {
            let sync = ModelSync::builder(cluster, model(), vec![vec![1.0; 4]], MomentumKernel);
            let mut sync = sync.strategy(builder).build()?;
            for _ in 0..3 {
                let gradients = sync.begin_pass(PassKind::Step);
                let _values = sync.next_values(VariableId::new(0), PassKind::Step).wait();
                sync.forward_complete(PassKind::Step, 1, 0.0, 0.1);
                gradients.send(VariableId::new(0), vec![1.0, f32::NAN, 0.0, 0.0]);
                sync.end_pass(PassKind::Step)?;
            }
            sync.wait()
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("step 1: the gradient of `w` is not finite"), "{builder}: {error}");
        let error = standalone(2).run(|cluster| {
            let sync = ModelSync::builder(cluster, model(), vec![vec![1.0; 4]], MomentumKernel).strategy(builder);
            sync.clip(Some(GradientClip::Norm(1.0))).build().map(drop)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("clipping by norm with `w` in a table is not supported"), "{error}");
    }
}
