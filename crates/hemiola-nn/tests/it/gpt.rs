//! GPT-2 beside a reference in `NumPy`, with weights in Hugging Face's format; and its dropout.

use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_nn::models::{Gpt, GptConfig, NeuralNet as _, TextBatch};
use hemiola_nn::saved::gpt_weights;
use hemiola_nn::{Optimizer, Trainer};
use hemiola_testkit::require;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

#[derive(Deserialize)]
struct Reference {
    tokens: Vec<i64>,
    logits: Vec<f32>,
}

fn config() -> GptConfig {
    GptConfig {
        vocabulary_size: 11,
        context_length: 7,
        embedding_size: 12,
        heads: 3,
        blocks: 2,
        dropout: 0.0,
        ..GptConfig::default()
    }
}

fn tokens(numbers: &[i64], positions: usize, device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), [numbers.len() / positions, positions]), device)
}

#[test]
fn logits_and_files_are_those_of_hugging_face() {
    let python = require!(hemiola_testkit::python(&["numpy", "safetensors"]));
    let folder = tempfile::tempdir().unwrap();
    let (theirs, ours) = (folder.path().join("theirs.safetensors"), folder.path().join("ours.safetensors"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/gpt_reference.py");
    let output = Command::new(&python).arg(&script).arg("write").arg(&theirs).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reference: Reference = serde_json::from_slice(&output.stdout).unwrap();

    let device = Device::flex();
    let wanted = GptConfig { vocabulary_size: 1, blocks: 9, ..config() };
    let (found, net) = gpt_weights::read(&theirs, &wanted, &device).unwrap();
    assert_eq!(found, config(), "sizes are those of the file");
    let logits: Vec<f32> = net.forward(tokens(&reference.tokens, 7, &device)).into_data().try_into_vec().unwrap();
    let scale = reference.logits.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    for (found, expected) in logits.iter().zip(&reference.logits) {
        // Two blocks in single precision.
        assert!((found - expected).abs() < 2e-5 * scale, "{found} instead of {expected}");
    }

    gpt_weights::write(&ours, &net).unwrap();
    let status = Command::new(&python).arg(&script).arg("compare").arg(&theirs).arg(&ours).status().unwrap();
    assert!(status.success());
}

#[test]
fn damaged_files_of_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let device = Device::flex();
    let problem = |config: &GptConfig| gpt_weights::read(&path, config, &device).unwrap_err().to_string();
    assert!(problem(&config()).contains("weights.safetensors"));
    std::fs::write(&path, b"nothing").unwrap();
    assert!(problem(&config()).contains("weights.safetensors"));
    let net = config().init(&device);
    gpt_weights::write(&path, &net).unwrap();
    let (read, _) = gpt_weights::read(&path, &config(), &device).unwrap();
    assert_eq!(read, config());
    // 12 elements have no heads of 64.
    assert!(problem(&GptConfig { heads: 5, ..config() }).contains("heads"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 40]).unwrap();
    assert!(problem(&config()).contains("weights.safetensors"));
}

const EXAMPLES: usize = 8;

fn batch(examples: std::ops::Range<usize>, device: &Device) -> TextBatch {
    let numbers: Vec<i64> = examples
        .flat_map(|example| (0..8).map(move |at| ((example * 5 + at * at * 3) % 11).try_into().unwrap()))
        .collect();
    let part = |skip: usize| -> Vec<i64> { numbers.chunks(8).flat_map(|row| row[skip..skip + 7].to_vec()).collect() };
    TextBatch { tokens: tokens(&part(0), 7, device), targets: tokens(&part(1), 7, device) }
}

/// Losses of some steps on this many peers, and the loss of the trained net in evaluation.
fn losses(peers: usize, config: &GptConfig) -> (Vec<f64>, f64) {
    let runs = hemiola_cluster::standalone(peers).run(|cluster| {
        let device = Device::flex().autodiff();
        let optimizer = Optimizer::adamw(0.01).weight_decay(0.1);
        let mut trainer =
            Trainer::builder(cluster, config.init(&device), optimizer).batch_size(EXAMPLES / peers).build()?;
        let share = EXAMPLES / peers;
        let own = batch(cluster.rank().index() * share..(cluster.rank().index() + 1) * share, &device);
        let mut losses = Vec::new();
        for _ in 0..6 {
            let own = trainer.step(share, |net: &Gpt| net.loss(&own))?;
            losses.push(cluster.all_gather(f64::from(own))?.into_iter().sum::<f64>() / peers as f64);
        }
        let net = trainer.synced_model()?;
        Ok((losses, net.evaluate(&batch(0..EXAMPLES, &Device::flex())).loss))
    });
    runs.unwrap().remove(0)
}

#[test]
fn dropout_drops_the_same_elements_on_any_number_of_peers() {
    let dropping = GptConfig { dropout: 0.3, label_smoothing: 0.1, ..config() };
    let (one, after) = losses(1, &dropping);
    assert_eq!(losses(1, &dropping), (one.clone(), after), "runs repeat their bits");
    for peers in [2, 4] {
        let (all, evaluated) = losses(peers, &dropping);
        for (found, expected) in all.iter().zip(&one) {
            // Sums in another order, after some steps of AdamW.
            assert!((found - expected).abs() < 1e-4, "{peers} peers: {all:?} instead of {one:?}");
        }
        assert!((evaluated - after).abs() < 1e-4);
    }
    let (without, _) = losses(1, &GptConfig { dropout: 0.0, ..dropping });
    assert!((without[0] - one[0]).abs() > 1e-3, "dropout changes the loss of the first step");
}
