//! Tutorial, page 1: matrix factorization as a serial loop in plain Rust.
//!
//! `cargo run --release --example tutorial_serial`:
//! ```text
//! epoch 1: rmse 0.4341
//! epoch 2: rmse 0.3506
//! epoch 3: rmse 0.0730
//! epoch 4: rmse 0.0459
//! epoch 5: rmse 0.0298
//! ```

const USERS: usize = 1000;
const ITEMS: usize = 400;
const RANK: usize = 8;
const LEARNING_RATE: f32 = 0.02;

#[expect(clippy::print_stdout, reason = "this program prints its results")]
fn main() {
    let mut ratings = Vec::new();
    for u in 0..USERS {
        for i in 0..ITEMS {
            if is_known([u, i]) {
                ratings.push(([u, i], rating_of([u, i])));
            }
        }
    }
    let mut w: Vec<[f32; RANK]> = (0..USERS).map(|u| std::array::from_fn(|k| start([u, k]))).collect();
    let mut h: Vec<[f32; RANK]> = (0..ITEMS).map(|i| std::array::from_fn(|k| start([i, k]))).collect();
    for epoch in 1..=5 {
        let mut loss = 0.0;
        for &([u, i], rating) in &ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
            for k in 0..RANK {
                (wu[k], hi[k]) = (wu[k] + LEARNING_RATE * error * hi[k], hi[k] + LEARNING_RATE * error * wu[k]);
            }
            loss += f64::from(error * error);
        }
        println!("epoch {epoch}: rmse {:.4}", (loss / ratings.len() as f64).sqrt());
    }
}

/// One rating in five is known.
fn is_known([u, i]: [usize; 2]) -> bool {
    (u * 31 + i * 17).is_multiple_of(5)
}

/// Synthetic rating of a user for an item.
fn rating_of([u, i]: [usize; 2]) -> f32 {
    3.0 + ((u % 7) * (i % 5)) as f32 / 12.0
}

/// Initial value of factor `k` of a row.
fn start([row, k]: [usize; 2]) -> f32 {
    0.1 + ((row * 7 + k * 3) % 10) as f32 / 20.0
}
