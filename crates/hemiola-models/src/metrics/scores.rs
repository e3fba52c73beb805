//! Metrics of scores of two classes: the areas under the ROC curve and the precision-recall curve.
//!
//! Both depend on the order of the scores alone. **Invariant:** equal scores are one point of a
//! curve, so the order in which examples are given does not matter.

/// Returns the probability that an example of the second class (`true`) scores higher than one of
/// the first; ties count half. This is the area under the ROC curve. `None` if a class has no
/// examples.
#[must_use]
pub fn roc_auc(scored: &[(f64, bool)]) -> Option<f64> {
    let sorted = ascending(scored);
    let positive = sorted.iter().filter(|(_, positive)| *positive).count() as f64;
    let negative = sorted.len() as f64 - positive;
    if positive == 0.0 || negative == 0.0 {
        return None;
    }
    let (mut below, mut pairs) = (0.0, 0.0);
    for equal in sorted.chunk_by(|left, right| left.0.total_cmp(&right.0).is_eq()) {
        let ones = equal.iter().filter(|(_, positive)| *positive).count() as f64;
        let zeros = equal.len() as f64 - ones;
        pairs += ones * (below + 0.5 * zeros);
        below += zeros;
    }
    Some(pairs / (positive * negative))
}

/// Returns the average precision `Σ (R_n − R_{n−1}) P_n` of the second class, with precision and
/// recall at each score as a threshold, from the highest down. This is the area under the
/// precision-recall curve without interpolation. `None` if there is no example of the second class.
#[must_use]
pub fn average_precision(scored: &[(f64, bool)]) -> Option<f64> {
    let sorted = ascending(scored);
    let positive = sorted.iter().filter(|(_, positive)| *positive).count();
    if positive == 0 {
        return None;
    }
    let (mut found, mut taken, mut area) = (0, 0, 0.0);
    for equal in sorted.chunk_by(|left, right| left.0.total_cmp(&right.0).is_eq()).rev() {
        let ones = equal.iter().filter(|(_, positive)| *positive).count();
        found += ones;
        taken += equal.len();
        area += ones as f64 * (found as f64 / taken as f64);
    }
    Some(area / positive as f64)
}

fn ascending(scored: &[(f64, bool)]) -> Vec<(f64, bool)> {
    // 0 and -0 are the same score.
    let mut sorted: Vec<(f64, bool)> = scored.iter().map(|(score, positive)| (score + 0.0, *positive)).collect();
    sorted.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::rng::SplitMix64;

    fn scored(count: usize, values: usize, seed: u64) -> Vec<(f64, bool)> {
        let mut random = SplitMix64::new(seed);
        (0..count).map(|_| (random.below(values) as f64 / 7.0, random.below(3) == 0)).collect()
    }

    #[test]
    fn auc_counts_correctly_ordered_pairs() {
        let of = |scores: &[(f64, bool)]| roc_auc(scores);
        assert_eq!(of(&[(0.1, false), (0.4, true), (0.3, false), (0.9, true)]), Some(1.0));
        assert_eq!(of(&[(0.1, true), (0.4, false)]), Some(0.0));
        assert_eq!(of(&[(0.5, true), (0.5, false), (0.5, false)]), Some(0.5));
        assert_eq!(of(&[(0.0, true), (-0.0, false)]), Some(0.5));
        assert_eq!(of(&[(0.1, false), (0.3, true), (0.3, false), (0.2, true)]), Some(0.625));
        assert_eq!(of(&[(0.1, true)]), None);
        for seed in 0..5 {
            let all = scored(120, 40, seed);
            let (mut pairs, mut ordered) = (0.0, 0.0);
            for (high, _) in all.iter().filter(|(_, positive)| *positive) {
                for (low, _) in all.iter().filter(|(_, positive)| !positive) {
                    pairs += 1.0;
                    ordered += if high > low { 1.0 } else { 0.5 * f64::from(u8::from(high.total_cmp(low).is_eq())) };
                }
            }
            assert!((roc_auc(&all).unwrap() - ordered / pairs).abs() < 1e-12);
        }
    }

    #[test]
    fn average_precision_is_the_sum_over_thresholds() {
        for seed in 0..5 {
            let all = scored(150, 60, seed);
            let mut thresholds: Vec<f64> = all.iter().map(|(score, _)| *score).collect();
            thresholds.sort_by(|left, right| right.total_cmp(left));
            thresholds.dedup();
            let positive = all.iter().filter(|(_, positive)| *positive).count() as f64;
            let (mut area, mut before) = (0.0, 0.0);
            for threshold in thresholds {
                let taken = all.iter().filter(|(score, _)| *score >= threshold).count() as f64;
                let found = all.iter().filter(|(score, positive)| *positive && *score >= threshold).count() as f64;
                area += (found / positive - before) * found / taken;
                before = found / positive;
            }
            assert!((average_precision(&all).unwrap() - area).abs() < 1e-12);
        }
        assert_eq!(average_precision(&[(0.3, false)]), None);
        assert_eq!(average_precision(&[(0.3, true), (0.2, false)]), Some(1.0));
    }
}
