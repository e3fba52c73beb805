use super::*;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdaGradConfig, AdamConfig, AdamWConfig, SgdConfig};

fn gradient(step: u32, place: usize) -> f32 {
    (step as f32 * 0.7 + place as f32).sin()
}

fn trained(optimizer: &Optimizer, pieces: &[usize]) -> Vec<f32> {
    let length: usize = pieces.iter().sum();
    let mut values: Vec<f32> = (0..length).map(|place| place as f32 * 0.1 - 0.3).collect();
    let mut states = vec![OptimizerState::default(); pieces.len()];
    for step in 0..20 {
        let mut start = 0;
        for (piece, state) in pieces.iter().zip(&mut states) {
            let place = start..start + piece;
            let mut gradients: Vec<f32> = place.clone().map(|place| 4.0 * gradient(step, place)).collect();
            optimizer.update(0.05, &mut values[place.clone()], &mut gradients, 0.25, state);
            start = place.end;
        }
    }
    values
}

#[test]
fn partitioning_does_not_change_updates() {
    for optimizer in [
        Optimizer::sgd(1.0),
        Optimizer::sgd(1.0).momentum(0.9).nesterov().weight_decay(0.01),
        Optimizer::adagrad(1.0),
        Optimizer::rmsprop(1.0),
        Optimizer::adam(1.0),
        Optimizer::adamw(1.0),
        AdamConfig::new().build().into(),
    ] {
        let whole = trained(&optimizer, &[7]);
        assert_eq!(whole, trained(&optimizer, &[3, 4]), "{optimizer:?}");
        assert!(whole.iter().all(|value| value.is_finite()));
    }
}

#[test]
fn rules_match_those_of_burn() {
    let pairs: [(Optimizer, Optimizer); 4] = [
        (Optimizer::adam(1.0), AdamConfig::new().with_epsilon(1e-8).build().into()),
        (
            Optimizer::adamw(1.0).weight_decay(0.02),
            AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.02).build().into(),
        ),
        (Optimizer::adagrad(1.0), AdaGradConfig::new().with_epsilon(1e-10).build().into()),
        (
            Optimizer::sgd(1.0).momentum(0.9),
            SgdConfig::new()
                .with_momentum(Some(MomentumConfig::new().with_momentum(0.9).with_dampening(0.0)))
                .build()
                .into(),
        ),
    ];
    for (own, burns) in pairs {
        let (own_values, burns_values) = (trained(&own, &[5]), trained(&burns, &[5]));
        for (own_value, burns_value) in own_values.iter().zip(&burns_values) {
            assert!((own_value - burns_value).abs() < 2e-5, "{own:?}: {own_values:?} {burns_values:?}");
        }
    }
}

#[test]
fn rows_without_a_gradient_stay() {
    for optimizer in [Optimizer::sgd(1.0).momentum(0.5), Optimizer::adam(1.0)] {
        let (mut values, mut state) = (vec![1.0_f32; 12], OptimizerState::default());
        optimizer.update_rows(0.1, &mut values, (&[0, 3], &mut [1.0, 2.0, -1.0, 0.5, 0.5, 3.0], 3), 1.0, &mut state);
        assert!(values[3..9].iter().all(|value| value.to_bits() == 1.0_f32.to_bits()));
        assert!(values[..3].iter().chain(&values[9..]).all(|value| (*value - 1.0).abs() > 1e-3));
        // Rows with a gradient get the update that a dense gradient gives them.
        let (mut whole, mut other) = (vec![1.0_f32; 12], OptimizerState::default());
        let mut gradient = vec![0.0; 12];
        gradient[..3].copy_from_slice(&[1.0, 2.0, -1.0]);
        gradient[9..].copy_from_slice(&[0.5, 0.5, 3.0]);
        optimizer.update(0.1, &mut whole, &mut gradient, 1.0, &mut other);
        assert_eq!(whole, values);
    }
}

#[test]
fn burn_optimizer_states_are_restored() {
    let optimizer: Optimizer = AdamConfig::new().build().into();
    let (mut values, mut state) = (vec![0.5_f32; 4], OptimizerState::default());
    optimizer.update(0.1, &mut values, &mut [1.0, 2.0, 3.0, 4.0], 1.0, &mut state);
    let saved = optimizer.save_burn_state(&state).unwrap();
    let mut loaded = OptimizerState::default();
    optimizer.load_burn_state(saved, &mut loaded).unwrap();
    let mut other = values.clone();
    optimizer.update(0.1, &mut values, &mut [1.0, -2.0, 3.0, 4.0], 1.0, &mut state);
    optimizer.update(0.1, &mut other, &mut [1.0, -2.0, 3.0, 4.0], 1.0, &mut loaded);
    assert_eq!(values, other);
    assert!(
        Optimizer::adam(0.1)
            .load_burn_state(optimizer.save_burn_state(&state).unwrap(), &mut OptimizerState::default())
            .is_err()
    );
}
