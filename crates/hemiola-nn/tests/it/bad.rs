//! What must not go on in silence.

use crate::net::{Net, share};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hemiola_nn::layers::LinearConfig;
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::{Builder, Cluster, Link};

fn said(run: Result<Vec<()>, hemiola_cluster::Error>) -> String {
    run.unwrap_err().to_string()
}

#[test]
fn different_models_are_refused_with_the_first_difference() {
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let outputs = 3 + cluster.rank().index();
        let model = LinearConfig::new(4, outputs).init(&Device::flex().autodiff());
        Trainer::new(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("weight has the shape [4, 3] here and [4, 4] there"), "{error}");
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let model = LinearConfig::new(4, 3).with_bias(cluster.is_root()).init(&Device::flex().autodiff());
        Trainer::new(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("bias is only here"), "{error}");
}

#[test]
fn different_settings_are_refused() {
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let rate = if cluster.is_root() { 0.1 } else { 0.2 };
        Trainer::new(cluster, Net::new(), Optimizer::sgd(rate)).build().map(drop)
    }));
    assert!(error.contains("trains in another way") && error.contains("rate 0.2"), "{error}");
}

#[test]
fn a_model_without_variables_is_refused() {
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let model = Net::new();
        let model = if cluster.is_root() { model } else { model.no_grad() };
        Trainer::new(cluster, model, Optimizer::sgd(0.1)).build().map(drop)
    }));
    assert!(error.contains("no parameter that needs a gradient"), "{error}");
}

#[test]
fn a_strategy_for_something_else_is_refused() {
    let network = Cluster::uniform(3, Link::bits(1e9, 1e-4));
    let other = hemiola_strategy::Model::new(vec![hemiola_strategy::Variable::dense("other", [3])]).unwrap();
    let strategy = Builder::Balanced.build(&other, &network).unwrap();
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).strategy(strategy.clone()).build().map(drop)
    }));
    assert!(error.contains("it was made for 3 peers") && error.contains("no such variable"), "{error}");
}

#[test]
fn a_loss_that_is_no_number_stops_with_step_and_checkpoint() {
    for (builder, what) in [(Builder::AllReduce { chunk: Some(2) }, "the loss"), (Builder::Balanced, "the loss")] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("net");
        let error = said(hemiola_cluster::standalone(2).run(|cluster| {
            let builder = Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).strategy(builder);
            let mut trainer = builder.checkpoints(&folder).build()?;
            for step in 0..6 {
                let examples = share(step, cluster);
                let ill = step == 3 && cluster.rank().index() == 1;
                trainer.step(examples.len(), |net| {
                    let loss = net.loss(&examples);
                    if ill { loss * f32::NAN } else { loss }
                })?;
                if step == 1 {
                    trainer.checkpoint()?;
                }
            }
            trainer.settled().map(drop)
        }));
        assert!(error.contains("step 4") && error.contains(what) && error.contains("last good checkpoint"), "{error}");
    }
}

#[test]
fn a_gradient_that_is_no_number_is_named() {
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let mut trainer = Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        for step in 0..3 {
            let examples = share(step, cluster);
            // The loss is zero, and its gradient is not a number: the root has none at zero.
            trainer.step(examples.len(), |net| {
                let zero: Tensor<1> = net.idle.val().sum() * 0.0;
                net.loss(&examples) * 0.0 + zero.sqrt()
            })?;
        }
        trainer.settled().map(drop)
    }));
    assert!(error.contains("step 1") && error.contains("the gradient of"), "{error}");
}

#[test]
fn a_step_without_any_example_is_refused() {
    let error = said(hemiola_cluster::standalone(2).run(|cluster| {
        let mut trainer = Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        trainer.step(0, |net| net.loss(&[]))?;
        trainer.settled().map(drop)
    }));
    assert!(error.contains("step 1: no peer has an example"), "{error}");
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("net");
    let build = |optimizer: Optimizer, small: bool| {
        hemiola_cluster::standalone(2).run(|cluster| {
            if small {
                let model = LinearConfig::new(4, 2).init(&Device::flex().autodiff());
                return Trainer::new(cluster, model, optimizer.clone()).checkpoints(&folder).resume().build().map(drop);
            }
            let builder = Trainer::new(cluster, Net::new(), optimizer.clone()).checkpoints(&folder).resume();
            builder.build()?.checkpoint()
        })
    };
    build(Optimizer::adam(0.1), false).unwrap();
    let error = said(build(Optimizer::sgd(0.1), false));
    assert!(error.contains("made with the optimizer adam, and this is sgd"), "{error}");
    let error = said(build(Optimizer::adam(0.1), true));
    assert!(error.contains("another model"), "{error}");
    // What the disk has lost is noticed.
    let file = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("values"));
    std::fs::write(file.unwrap(), b"nothing").unwrap();
    let error = said(build(Optimizer::adam(0.1), false));
    assert!(error.contains("net"), "{error}");
}

#[test]
fn a_peer_that_leaves_in_the_middle_is_named() {
    let error = said(hemiola_cluster::standalone(3).run(|cluster| {
        let mut trainer = Trainer::new(cluster, Net::new(), Optimizer::sgd(0.1)).build()?;
        for step in 0..50 {
            let examples = share(step, cluster);
            if step == 10 && cluster.rank().index() == 2 {
                return Err(hemiola_cluster::Error::program("the third peer has had enough"));
            }
            trainer.step(examples.len(), |net| net.loss(&examples))?;
        }
        trainer.settled().map(drop)
    }));
    assert!(error.contains("had enough"), "{error}");
}
