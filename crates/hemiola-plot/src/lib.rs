//! Pictures of what Hemiola does: data in, bytes out.
//!
//! Two layers. A [`Picture`] is a list of lines, polygons, circles and texts in inks that have a name and not a colour; it
//! becomes SVG that follows the reader's light or dark setting, or PNG on one ground. A [`Chart`] lays out lines over axes and
//! draws them on a picture, or with characters for a terminal. Drawings that are no charts use a picture directly.
//!
//! Nothing here opens a file, asks the system for fonts, or depends on the machine: the same chart is the same bytes.
//!
//! ```
//! use hemiola_plot::{Axis, Chart, Ground, Line, Panel};
//!
//! let error = |step: f64| (1..=20).map(move |pass| [f64::from(pass), 1.0 / (1.0 + step * f64::from(pass))]);
//! let panel = Panel::new(Axis::new("pass").whole(), Axis::new("error").logarithmic())
//!     .line(Line::new("small steps", error(0.1)))
//!     .line(Line::new("large steps", error(0.5)));
//! let chart = Chart::new().title("Steps").panel(panel);
//! assert!(chart.picture().svg().starts_with("<svg"));
//! assert!(chart.picture().png(Ground::Dark, 2.0)?.starts_with(b"\x89PNG"));
//! assert!(chart.text(60).contains("small steps"));
//! # Ok::<(), hemiola_plot::Error>(())
//! ```

mod chart;
mod font;
mod ink;
mod picture;
mod png;
mod scale;
mod svg;
mod ticks;

pub use chart::{Axis, Chart, Labels, Line, Panel};
pub use ink::{Dash, Ground, Ink};
pub use picture::{Anchor, Lettering, Pen, Picture, Point, Shape};
pub use png::Error;
pub use scale::Scale;
pub use ticks::Tick;
