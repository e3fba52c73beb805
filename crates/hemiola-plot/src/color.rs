//! Colors by role. The color scheme maps each role to a color.
//!
//! **Invariant:** in both schemes all series have a contrast of at least 3 to the background, text
//! of at least 4.5. Any two series differ visibly for readers with normal vision, and for those
//! without red, green or blue cones. The tests compute this. A search maximized the smallest
//! difference, starting from the colors of Okabe and Ito (2008). Dashes distinguish neighbouring
//! series where no color does, as in print.

use std::fmt;

/// Role of a color in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorRole {
    /// Background of the picture.
    Background,
    /// Grid lines of a chart.
    Grid,
    /// Axes, and less important text.
    Muted,
    /// Text of normal importance.
    Text,
    /// Data series by number; colors repeat after eight.
    Series(usize),
}

impl ColorRole {
    /// CSS class of the role.
    pub(crate) fn class(self) -> String {
        match self {
            Self::Background => "ground".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Muted => "muted".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Series(number) => format!("series-{}", number % LIGHT.len()),
        }
    }
}

/// Color scheme of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark colors on white.
    #[default]
    Light,
    /// Light colors on nearly black.
    Dark,
}

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RgbColor(pub(crate) [u8; 3]);

const fn color(code: u32) -> RgbColor {
    let [_, red, green, blue] = code.to_be_bytes();
    RgbColor([red, green, blue])
}

const LIGHT: [RgbColor; 8] = [
    color(0x3a_4d_dd),
    color(0xce_81_13),
    color(0x11_8f_a0),
    color(0x8b_01_7d),
    color(0x71_4f_1b),
    color(0x00_95_ff),
    color(0x9c_6b_50),
    color(0x5c_1c_21),
];

const DARK: [RgbColor; 8] = [
    color(0x4a_99_ff),
    color(0xff_6d_00),
    color(0x28_f0_b6),
    color(0xb7_6e_95),
    color(0xf5_ea_46),
    color(0x75_4c_e0),
    color(0x7f_c5_eb),
    color(0xbc_2e_15),
];

impl ColorScheme {
    /// Returns the color of a role in this scheme.
    pub(crate) fn color(self, role: ColorRole) -> RgbColor {
        match (self, role) {
            (Self::Light, ColorRole::Background) => color(0xff_ff_ff),
            (Self::Light, ColorRole::Grid) => color(0xe3_e7_eb),
            (Self::Light, ColorRole::Muted) => color(0x57_60_6a),
            (Self::Light, ColorRole::Text) => color(0x1b_1f_24),
            (Self::Light, ColorRole::Series(number)) => LIGHT[number % LIGHT.len()],
            (Self::Dark, ColorRole::Background) => color(0x0d_11_17),
            (Self::Dark, ColorRole::Grid) => color(0x27_2e_37),
            (Self::Dark, ColorRole::Muted) => color(0x9a_a4_af),
            (Self::Dark, ColorRole::Text) => color(0xe8_ed_f2),
            (Self::Dark, ColorRole::Series(number)) => DARK[number % DARK.len()],
        }
    }
}

impl fmt::Display for RgbColor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(formatter, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DashPattern {
    /// A line without gaps.
    Solid,
    /// A line of long dashes.
    Dashed,
    /// Dashes as long as the line is thick.
    Dotted,
    /// Long and short dashes in turn.
    DashDotted,
}

impl DashPattern {
    /// Returns the pattern of a series. Neighbours differ, and so do series that share a color.
    #[must_use]
    pub fn of_series(number: usize) -> Self {
        const ORDER: [DashPattern; 4] =
            [DashPattern::Solid, DashPattern::Dashed, DashPattern::Dotted, DashPattern::DashDotted];
        ORDER[(number + number / LIGHT.len()) % ORDER.len()]
    }

    /// Lengths of dashes and gaps in turn, for a line of this width.
    pub(crate) fn pattern(self, width: f64) -> Vec<f64> {
        let lengths: &[f64] = match self {
            Self::Solid => &[],
            Self::Dashed => &[3.6, 1.8],
            Self::Dotted => &[1.1, 1.5],
            Self::DashDotted => &[4.2, 1.5, 1.1, 1.5],
        };
        lengths.iter().map(|length| length * width).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Vector = [f64; 3];

    fn times(matrix: &[Vector; 3], vector: Vector) -> Vector {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// Converts the bytes of a color to linear light.
    fn light(color: RgbColor) -> Vector {
        color.0.map(|byte| {
            let value = f64::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Contrast as defined by the Web Content Accessibility Guidelines.
    fn contrast(a: RgbColor, b: RgbColor) -> f64 {
        let luminance = |color| light(color).iter().zip([0.2126, 0.7152, 0.0722]).map(|(a, b)| a * b).sum::<f64>();
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        f64::max(a, b) / f64::min(a, b)
    }

    /// Vision with all cones, and without one kind each (Machado, Oliveira and Fernandes 2009).
    const VISION_MATRICES: [[Vector; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
    ];

    /// Perceived difference of two colors: the distance in Oklab, where black and white are 1
    /// apart.
    fn difference(eye: &[Vector; 3], a: RgbColor, b: RgbColor) -> f64 {
        const CONES: [Vector; 3] = [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ];
        const LAB: [Vector; 3] = [
            [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
        ];
        let seen = |color| {
            let light = times(eye, light(color)).map(|light| light.clamp(0.0, 1.0));
            times(&LAB, times(&CONES, light).map(f64::cbrt))
        };
        seen(a).iter().zip(seen(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn everything_stands_out_from_the_background() {
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            let contrast = |role| contrast(scheme.color(role), scheme.color(ColorRole::Background));
            assert!(contrast(ColorRole::Text) > 7.0 && contrast(ColorRole::Muted) > 4.5, "{scheme:?}");
            assert!((0..8).all(|number| contrast(ColorRole::Series(number)) >= 3.0), "{scheme:?}");
        }
    }

    #[test]
    fn counts_are_readable_on_every_shade_of_a_confusion_matrix() {
        use crate::confusion::{SHADE_COLOR, count_color};
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            let [ground, full] = [ColorRole::Background, SHADE_COLOR].map(|role| scheme.color(role).0);
            for percent in 0..=100 {
                let shade = f64::from(percent) / 100.0;
                let mixed = |part: usize| f64::from(ground[part]) * (1.0 - shade) + f64::from(full[part]) * shade;
                let cell = RgbColor([0, 1, 2].map(|part| mixed(part).round() as u8));
                let found = contrast(scheme.color(count_color(shade)), cell);
                assert!(found > 3.7, "{scheme:?}, shade {shade}: {found}");
            }
        }
    }

    #[test]
    fn series_are_distinguishable_with_every_color_vision() {
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            for (eye, matrix) in VISION_MATRICES.iter().enumerate() {
                for (a, b) in (0..8).flat_map(|b| (0..b).map(move |a| (a, b))) {
                    let found =
                        difference(matrix, scheme.color(ColorRole::Series(a)), scheme.color(ColorRole::Series(b)));
                    let least = if b < 4 { 0.1 } else { 0.08 };
                    assert!(found > least, "{scheme:?}, eye {eye}: series {a} and {b} differ by {found}");
                }
            }
        }
    }

    #[test]
    fn series_of_one_colour_have_other_dashes() {
        for number in 0..8 {
            assert_ne!(DashPattern::of_series(number), DashPattern::of_series(number + 1));
            assert_ne!(DashPattern::of_series(number), DashPattern::of_series(number + 8));
        }
    }
}
