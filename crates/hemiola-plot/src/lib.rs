//! Line charts, confusion matrices, topics and vector pictures, from data to bytes.
//!
//! The crate has two layers. A [`Picture`] is a list of lines, polygons, circles and texts whose
//! colors are roles. It becomes SVG that follows the reader's light or dark setting, or PNG in one
//! color scheme. A [`Chart`] lays out lines over axes and draws them on a picture, or with
//! characters for a terminal. A [`ConfusionPlot`] and a [`TopicsPlot`] do the same for classifiers
//! and topic models. Other drawings use a picture directly.
//!
//! The crate opens no file, asks the system for no fonts, and does not depend on the machine: one
//! chart always gives the same bytes.
//!
//! ```
//! use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme};
//!
//! let loss = |rate: f64| {
//!     (1..=20).map(move |epoch| [f64::from(epoch), 1.0 / (1.0 + rate * f64::from(epoch))])
//! };
//! let panel = ChartPanel::new(
//!     ChartAxis::new("epoch").integer_ticks(),
//!     ChartAxis::new("loss").logarithmic(),
//! )
//! .line(ChartLine::new("small learning rate", loss(0.1)))
//! .line(ChartLine::new("large learning rate", loss(0.5)));
//! let chart = Chart::new().title("Learning rates").panel(panel);
//! assert!(chart.picture().svg().starts_with("<svg"));
//! assert!(chart.picture().png(ColorScheme::Dark, 2.0)?.starts_with(b"\x89PNG"));
//! assert!(chart.text(60).contains("small learning rate"));
//! # Ok::<(), hemiola_plot::Error>(())
//! ```

mod characters;
mod chart;
mod color;
mod confusion;
mod font;
mod layout;
mod picture;
mod png;
mod scale;
mod svg;
mod ticks;
mod topics;

pub use chart::{Chart, ChartAxis, ChartLine, ChartPanel, LegendPlacement};
pub use color::{ColorRole, ColorScheme, DashPattern};
pub use confusion::ConfusionPlot;
pub use picture::{Coordinates, Picture, StrokeStyle, TextAnchor, TextStyle, VectorShape};
pub use png::Error;
pub use scale::AxisScale;
pub use ticks::AxisTick;
pub use topics::TopicsPlot;
