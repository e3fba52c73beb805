//! Ticks and labels of an axis.
//!
//! Steps are 1, 2 or 5 times a power of ten. A tick is an integer number of steps. Its value and
//! label come from that number by one division, so that 0.3 is 0.3 and not 0.30000000000000004. All
//! labels of an axis share their decimals and their suffix.
//!
//! **Invariant:** ticks ascend, lie within the range, and no two have the same label.

/// A labelled value on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisTick {
    /// Value of the tick.
    pub value: f64,
    /// Text of the tick.
    pub label: String,
}

/// SI suffixes from 10⁻¹⁸ on, one per three powers.
const SUFFIXES: [&str; 13] = ["a", "f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];

/// `mantissa · 10^power` with integers.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    mantissa: i64,
    power: i32,
}

impl Decimal {
    fn value(self) -> f64 {
        // Powers of ten beyond 22 are not exact, which is not visible in a picture.
        let scale = 10f64.powi(self.power.abs());
        if self.power < 0 { self.mantissa as f64 / scale } else { self.mantissa as f64 * scale }
    }

    /// Formats the number in units of `10^group`, with as many decimals as it needs.
    fn label(self, group: i32) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        let decimals = (group - self.power).max(0);
        let digits = Decimal { mantissa: self.mantissa, power: self.power - group }.value();
        let digits = format!("{digits:.0$}", decimals as usize);
        match usize::try_from(group / 3 + 6).ok().and_then(|index| SUFFIXES.get(index)) {
            Some(suffix) => digits + suffix,
            None => format!("{digits}e{group}"),
        }
    }
}

/// Power of ten of the labels for values up to `top`: 0 from a thousandth to ten thousand,
/// otherwise a multiple of three.
fn group(top: f64) -> i32 {
    if top == 0.0 || (0.001..10_000.0).contains(&top) { 0 } else { floor_log10(top).div_euclid(3) * 3 }
}

/// Largest integer `n` with `10^n <= value`, with a tolerance for rounding of the logarithm.
fn floor_log10(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

fn ticks(decimals: &[Decimal]) -> Vec<AxisTick> {
    let top = decimals.iter().map(|tick| tick.value().abs()).fold(0.0, f64::max);
    let group = group(top);
    decimals.iter().map(|tick| AxisTick { value: tick.value(), label: tick.label(group) }).collect()
}

/// Returns at most `most` ticks, evenly spaced, from `low` to `high`; integers only if `whole`. The
/// ends are at least a billionth of their size apart, as those of a scale are: a smaller distance
/// has no distinct labels.
pub(crate) fn linear(low: f64, high: f64, most: usize, whole: bool) -> Vec<AxisTick> {
    let most = most.max(2) as f64;
    // Starts one power below the estimate and goes up until the ticks fit.
    let first = floor_log10((high - low) / most) - 1;
    let first = if whole { first.max(0) } else { first };
    for power in first.. {
        for digit in [1, 2, 5] {
            let step = Decimal { mantissa: digit, power }.value();
            // An end that misses a tick by rounding counts as one.
            let (from, to) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
            if to - from < most {
                let steps = from as i64..=to as i64;
                let decimals: Vec<_> = steps.map(|step| Decimal { mantissa: step * digit, power }).collect();
                return ticks(&decimals);
            }
        }
    }
    Vec::new()
}

/// Returns at most `most` ticks from `low` to `high`, both positive: powers of ten, with 2 and 5
/// times those if there are few, and linear ticks if even those are few.
pub(crate) fn logarithmic(low: f64, high: f64, most: usize) -> Vec<AxisTick> {
    let most = most.max(2);
    let within = |tick: &Decimal| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(&tick.value());
    let powers = || floor_log10(low)..=floor_log10(high);
    let digits = |digits: &'static [i64]| {
        let of = move |power| digits.iter().map(move |mantissa| Decimal { mantissa: *mantissa, power });
        powers().flat_map(of).filter(within).collect::<Vec<_>>()
    };
    let fine = digits(&[1, 2, 5]);
    if fine.len() < 3 {
        return linear(low, high, most, false);
    }
    let mut chosen = if fine.len() <= most { fine } else { digits(&[1]) };
    if chosen.len() > most {
        let every = chosen.len().div_ceil(most);
        chosen = chosen.into_iter().step_by(every).collect();
    }
    // Each tick has its own suffix: a thousandth and a million do not share one.
    chosen.into_iter().flat_map(|tick| ticks(&[tick])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ticks: Vec<AxisTick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.label).collect()
    }

    fn tick_size(ticks: &[AxisTick]) -> f64 {
        ticks.iter().map(|tick| tick.value.abs()).fold(0.0, f64::max)
    }

    /// Parses a label.
    fn read(label: &str) -> f64 {
        let digits = label.trim_end_matches(|letter: char| letter.is_alphabetic());
        let index = SUFFIXES.iter().position(|suffix| *suffix == &label[digits.len()..]);
        let power = 3 * (i32::try_from(index.expect("a suffix")).unwrap() - 6);
        format!("{digits}e{power}").parse().unwrap()
    }

    #[test]
    fn labels_are_what_a_person_would_write() {
        assert_eq!(labels(linear(0.0, 1.0, 6, false)), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(linear(0.842, 0.951, 6, false)), ["0.86", "0.88", "0.90", "0.92", "0.94"]);
        assert_eq!(labels(linear(0.0, 40.0, 6, true)), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(linear(0.0, 3.0, 6, true)), ["0", "1", "2", "3"]);
        assert_eq!(labels(linear(0.0, 1.9e7, 6, true)), ["0", "5M", "10M", "15M"]);
        assert_eq!(labels(linear(-1.0, 1.0, 5, false)), ["-1.0", "-0.5", "0", "0.5", "1.0"]);
        assert_eq!(labels(linear(0.0, 0.0005, 6, false)), ["0", "100µ", "200µ", "300µ", "400µ", "500µ"]);
        assert_eq!(labels(linear(0.0, 2e30, 4, false)), ["0", "1e30", "2e30"]);
        assert_eq!(labels(logarithmic(0.01, 1e6, 10)), ["0.01", "0.1", "1", "10", "100", "1000", "10k", "100k", "1M"]);
        assert_eq!(labels(logarithmic(1.0, 60.0, 6)), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(logarithmic(0.84, 0.96, 6)), ["0.85", "0.90", "0.95"]);
    }

    proptest! {
        #[test]
        fn linear_ticks_are_few_even_within_and_read_back(
            center in -1e9..1e9f64, exponent in -6..9i32, fraction in 1.0..10.0f64, most in 5usize..12, whole: bool
        ) {
            let span = (fraction * 10f64.powi(exponent)).max(1e-9 * center.abs());
            let (low, high) = (center - span / 2.0, center + span / 2.0);
            let ticks = linear(low, high, most, whole);
            let slack = span * 1e-6;
            prop_assert!(ticks.len() <= most);
            if !whole || span > 10.0 {
                prop_assert!(ticks.len() >= 2, "{ticks:?}");
            }
            for tick in &ticks {
                prop_assert!(tick.value >= low - slack && tick.value <= high + slack);
                prop_assert!(!whole || tick.value.fract() == 0.0);
                prop_assert!((read(&tick.label) - tick.value).abs() <= slack + 1e-12 * tick.value.abs(), "{tick:?}");
            }
            for pair in ticks.windows(2) {
                prop_assert!(pair[0].value < pair[1].value && pair[0].label != pair[1].label);
                let step = pair[1].value - pair[0].value;
                // The difference of two large values is not exact.
                let slack = 1e-9 + 1e-15 * tick_size(&ticks) / step;
                let digit = step / 10f64.powi(floor_log10(step * (1.0 + slack)));
                prop_assert!([1.0, 2.0, 5.0].iter().any(|good| (digit / good - 1.0).abs() < slack), "{step}");
            }
        }

        #[test]
        fn logarithmic_ticks_are_few_ascending_within_and_read_back(
            low in -15.0..15.0f64, decades in 0.01..25.0f64, most in 5usize..12
        ) {
            let (low, high) = (10f64.powf(low), 10f64.powf((low + decades).min(18.0)).max(10f64.powf(low) * 1.01));
            let ticks = logarithmic(low, high, most);
            prop_assert!((2..=most).contains(&ticks.len()), "{ticks:?}");
            for tick in &ticks {
                prop_assert!(tick.value >= low * 0.999_999 && tick.value <= high * 1.000_001, "{tick:?}");
                prop_assert!((read(&tick.label) / tick.value - 1.0).abs() < 1e-6, "{tick:?}");
            }
            for pair in ticks.windows(2) {
                prop_assert!(pair[0].value < pair[1].value && pair[0].label != pair[1].label);
            }
        }
    }
}
