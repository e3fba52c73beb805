//! Update rules as loops over slices. Each is a single pass that compilers vectorize.

/// `gradient = gradient · scale + decay · values`.
pub(super) fn scale(gradient: &mut [f32], values: &[f32], scale: f32, decay: f32) {
    for (gradient, value) in gradient.iter_mut().zip(values) {
        *gradient = *gradient * scale + decay * value;
    }
}

pub(super) fn plain(values: &mut [f32], gradient: &[f32], rate: f32) {
    for (value, gradient) in values.iter_mut().zip(gradient) {
        *value -= rate * gradient;
    }
}

pub(super) fn momentum(
    values: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
    (keep, nesterov, rate): (f32, bool, f32),
) {
    for ((value, gradient), velocity) in values.iter_mut().zip(gradient).zip(velocity) {
        *velocity = keep * *velocity + gradient;
        let step = if nesterov { gradient + keep * *velocity } else { *velocity };
        *value -= rate * step;
    }
}

pub(super) fn adagrad(values: &mut [f32], gradient: &[f32], squares: &mut [f32], (epsilon, rate): (f32, f32)) {
    for ((value, gradient), square) in values.iter_mut().zip(gradient).zip(squares) {
        *square += gradient * gradient;
        *value -= rate * gradient / (square.sqrt() + epsilon);
    }
}

pub(super) fn rmsprop(
    values: &mut [f32],
    gradient: &[f32],
    squares: &mut [f32],
    (keep, epsilon, rate): (f32, f32, f32),
) {
    for ((value, gradient), square) in values.iter_mut().zip(gradient).zip(squares) {
        *square = keep * *square + (1.0 - keep) * gradient * gradient;
        *value -= rate * gradient / (square.sqrt() + epsilon);
    }
}

pub(super) fn adam(
    values: &mut [f32],
    gradient: &[f32],
    (first, second): (&mut [f32], &mut [f32]),
    ([keep1, keep2], epsilon, rate, corrections): ([f32; 2], f32, f32, [f64; 2]),
) {
    let rate = rate / corrections[0] as f32;
    let root = (1.0 / corrections[1].sqrt()) as f32;
    for (((value, gradient), first), second) in values.iter_mut().zip(gradient).zip(first).zip(second) {
        *first = keep1 * *first + (1.0 - keep1) * gradient;
        *second = keep2 * *second + (1.0 - keep2) * gradient * gradient;
        *value -= rate * *first / (second.sqrt() * root + epsilon);
    }
}
