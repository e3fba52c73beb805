//! Inks: what a shape is drawn with, by role. Which colour that is depends on the ground.
//!
//! **Invariant:** on either ground all series stand out by a contrast of at least 3, text by at least 4.5; and any two series
//! differ visibly for readers with normal vision, and for those without red, green or blue cones. The tests compute this. The
//! colours were found by a search for the largest of the smallest differences, starting from those of Okabe and Ito (2008).
//! Dashes tell neighbouring series apart where no colour does, as in print.

use std::fmt;

/// What is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    /// What everything is drawn on.
    Ground,
    /// Lines that guide the eye.
    Grid,
    /// Text that is less important, and axes.
    Muted,
    /// Text.
    Text,
    /// Data; after eight, colours begin again.
    Series(usize),
}

impl Ink {
    /// Its name in style sheets.
    pub(crate) fn class(self) -> String {
        match self {
            Self::Ground => "ground".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Muted => "muted".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Series(number) => format!("series-{}", number % LIGHT.len()),
        }
    }
}

/// What a picture is drawn on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ground {
    /// Dark on white.
    #[default]
    Light,
    /// Light on nearly black.
    Dark,
}

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) [u8; 3]);

const fn color(code: u32) -> Color {
    let [_, red, green, blue] = code.to_be_bytes();
    Color([red, green, blue])
}

const LIGHT: [Color; 8] = [
    color(0x3a_4d_dd),
    color(0xce_81_13),
    color(0x11_8f_a0),
    color(0x8b_01_7d),
    color(0x71_4f_1b),
    color(0x00_95_ff),
    color(0x9c_6b_50),
    color(0x5c_1c_21),
];

const DARK: [Color; 8] = [
    color(0x4a_99_ff),
    color(0xff_6d_00),
    color(0x28_f0_b6),
    color(0xb7_6e_95),
    color(0xf5_ea_46),
    color(0x75_4c_e0),
    color(0x7f_c5_eb),
    color(0xbc_2e_15),
];

impl Ground {
    /// The colour of an ink on this ground.
    pub(crate) fn color(self, ink: Ink) -> Color {
        match (self, ink) {
            (Self::Light, Ink::Ground) => color(0xff_ff_ff),
            (Self::Light, Ink::Grid) => color(0xe3_e7_eb),
            (Self::Light, Ink::Muted) => color(0x57_60_6a),
            (Self::Light, Ink::Text) => color(0x1b_1f_24),
            (Self::Light, Ink::Series(number)) => LIGHT[number % LIGHT.len()],
            (Self::Dark, Ink::Ground) => color(0x0d_11_17),
            (Self::Dark, Ink::Grid) => color(0x27_2e_37),
            (Self::Dark, Ink::Muted) => color(0x9a_a4_af),
            (Self::Dark, Ink::Text) => color(0xe8_ed_f2),
            (Self::Dark, Ink::Series(number)) => DARK[number % DARK.len()],
        }
    }
}

impl fmt::Display for Color {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(formatter, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// The pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// Without gaps.
    Solid,
    /// Long pieces.
    Dashed,
    /// Pieces as long as the line is thick.
    Dotted,
    /// Long and short in turn.
    DashDotted,
}

impl Dash {
    /// The pattern of a series: neighbours differ, and so do those that share a colour.
    #[must_use]
    pub fn of_series(number: usize) -> Self {
        const ORDER: [Dash; 4] = [Dash::Solid, Dash::Dashed, Dash::Dotted, Dash::DashDotted];
        ORDER[(number + number / LIGHT.len()) % ORDER.len()]
    }

    /// Lengths of pieces and gaps in turn for a line of this width.
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

    /// From the bytes of a colour to amounts of light.
    fn light(color: Color) -> Vector {
        color.0.map(|byte| {
            let value = f64::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Contrast as the Web Content Accessibility Guidelines define it.
    fn contrast(a: Color, b: Color) -> f64 {
        let luminance = |color| light(color).iter().zip([0.2126, 0.7152, 0.0722]).map(|(a, b)| a * b).sum::<f64>();
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        f64::max(a, b) / f64::min(a, b)
    }

    /// What is seen with all cones, and without one kind each (Machado, Oliveira and Fernandes 2009).
    const EYES: [[Vector; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
    ];

    /// How different two colours look to an eye: the distance in Oklab, where black and white are 1 apart.
    fn difference(eye: &[Vector; 3], a: Color, b: Color) -> f64 {
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
    fn everything_stands_out_from_its_ground() {
        for ground in [Ground::Light, Ground::Dark] {
            let contrast = |ink| contrast(ground.color(ink), ground.color(Ink::Ground));
            assert!(contrast(Ink::Text) > 7.0 && contrast(Ink::Muted) > 4.5, "{ground:?}");
            assert!((0..8).all(|number| contrast(Ink::Series(number)) >= 3.0), "{ground:?}");
        }
    }

    #[test]
    fn series_can_be_told_apart_by_everybody() {
        for ground in [Ground::Light, Ground::Dark] {
            for (eye, matrix) in EYES.iter().enumerate() {
                for (a, b) in (0..8).flat_map(|b| (0..b).map(move |a| (a, b))) {
                    let found = difference(matrix, ground.color(Ink::Series(a)), ground.color(Ink::Series(b)));
                    let least = if b < 4 { 0.1 } else { 0.08 };
                    assert!(found > least, "{ground:?}, eye {eye}: series {a} and {b} differ by {found}");
                }
            }
        }
    }

    #[test]
    fn series_of_one_colour_have_other_dashes() {
        for number in 0..8 {
            assert_ne!(Dash::of_series(number), Dash::of_series(number + 1));
            assert_ne!(Dash::of_series(number), Dash::of_series(number + 8));
        }
    }
}
