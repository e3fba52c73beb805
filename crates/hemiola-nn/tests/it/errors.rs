//! Misuse and failures are reported, with the facts that a user needs.

use crate::test_net::{Net, share};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hemiola_nn::layers::LinearConfig;
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::{LinkSpec, ResourceSpec, StrategyBuilder};

fn error_of(run: Result<Vec<()>, hemiola_cluster::Error>) -> String {
    run.unwrap_err().to_string()
}

#[test]
fn different_models_are_refused_with_the_first_difference() {
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let outputs = 3 + cluster.rank().index();
        let model = LinearConfig::new(4, outputs).init(&Device::flex().autodiff());
        Trainer::builder(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("weight has the shape [4, 3] here and [4, 4] there"), "{error}");
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let model = LinearConfig::new(4, 3).with_bias(cluster.is_root()).init(&Device::flex().autodiff());
        Trainer::builder(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("bias is only here"), "{error}");
}

#[test]
fn different_settings_are_refused() {
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let rate = if cluster.is_root() { 0.1 } else { 0.2 };
        Trainer::builder(cluster, Net::new(), Optimizer::sgd(rate)).build().map(drop)
    }));
    assert!(error.contains("has other settings") && error.contains("rate 0.2"), "{error}");
}

#[test]
fn a_model_without_variables_is_refused() {
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let model = Net::new();
        let model = if cluster.is_root() { model } else { model.no_grad() };
        Trainer::builder(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("no parameter that needs a gradient"), "{error}");
}

#[test]
fn a_strategy_for_another_model_is_refused() {
    let network = ResourceSpec::uniform(3, LinkSpec::bits(1e9, 1e-4));
    let other = hemiola_strategy::ModelSpec::new(vec![hemiola_strategy::VariableSpec::dense("other", [3])]).unwrap();
    let strategy = StrategyBuilder::Balanced.build(&other, &network).unwrap();
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).strategy(strategy.clone()).build().map(drop)
    }));
    assert!(error.contains("it was made for 3 peers") && error.contains("no such variable"), "{error}");
}

#[test]
fn a_nan_loss_stops_with_step_and_checkpoint() {
    for (builder, what) in
        [(StrategyBuilder::AllReduce { chunk: Some(2) }, "the loss"), (StrategyBuilder::Balanced, "the loss")]
    {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("net");
        let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
            let builder = Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).strategy(builder);
            let mut trainer = builder.checkpoints(&folder).build()?;
            for step in 0..6 {
                let examples = share(step, cluster);
                let is_nan = step == 3 && cluster.rank().index() == 1;
                trainer.step(examples.len(), |net| {
                    let loss = net.loss(&examples);
                    if is_nan { loss * f32::NAN } else { loss }
                })?;
                if step == 1 {
                    trainer.checkpoint()?;
                }
            }
            trainer.synced_model().map(drop)
        }));
        assert!(error.contains("step 4") && error.contains(what) && error.contains("last good checkpoint"), "{error}");
    }
}

#[test]
fn a_nan_gradient_is_named() {
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let mut trainer = Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        for step in 0..3 {
            let examples = share(step, cluster);
            // The loss is zero, and its gradient is NaN: the square root has no derivative at zero.
            trainer.step(examples.len(), |net| {
                let zero: Tensor<1> = net.idle.val().sum() * 0.0;
                net.loss(&examples) * 0.0 + zero.sqrt()
            })?;
        }
        trainer.synced_model().map(drop)
    }));
    assert!(error.contains("step 1") && error.contains("the gradient of"), "{error}");
}

#[test]
fn an_empty_step_is_refused() {
    let error = error_of(hemiola_cluster::standalone(2).run(|cluster| {
        let mut trainer = Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        trainer.step(0, |net| net.loss(&[]))?;
        trainer.synced_model().map(drop)
    }));
    assert!(error.contains("step 1: no peer has an example"), "{error}");
}

#[test]
fn a_checkpoint_of_another_training_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("net");
    let build = |optimizer: Optimizer, small: bool| {
        hemiola_cluster::standalone(2).run(|cluster| {
            if small {
                let model = LinearConfig::new(4, 2).init(&Device::flex().autodiff());
                return Trainer::builder(cluster, model, optimizer.clone())
                    .checkpoints(&folder)
                    .resume()
                    .build()
                    .map(drop);
            }
            let builder = Trainer::builder(cluster, Net::new(), optimizer.clone()).checkpoints(&folder).resume();
            builder.build()?.checkpoint()
        })
    };
    build(Optimizer::adam(0.1), false).unwrap();
    let error = error_of(build(Optimizer::sgd(0.1), false));
    assert!(error.contains("made with the optimizer `adam`, and this is `sgd`"), "{error}");
    let error = error_of(build(Optimizer::adam(0.1), true));
    assert!(error.contains("another model"), "{error}");
    // A damaged file is detected.
    let file = std::fs::read_dir(folder.join("generation-1"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("values"));
    std::fs::write(file.unwrap(), b"nothing").unwrap();
    let error = error_of(build(Optimizer::adam(0.1), false));
    assert!(error.contains("net"), "{error}");
}

#[test]
fn a_peer_that_fails_is_named() {
    let error = error_of(hemiola_cluster::standalone(3).run(|cluster| {
        let mut trainer = Trainer::builder(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        for step in 0..50 {
            let examples = share(step, cluster);
            if step == 10 && cluster.rank().index() == 2 {
                return Err(hemiola_cluster::Error::program("the third peer fails"));
            }
            trainer.step(examples.len(), |net| net.loss(&examples))?;
        }
        trainer.synced_model().map(drop)
    }));
    assert!(error.contains("the third peer fails"), "{error}");
}
