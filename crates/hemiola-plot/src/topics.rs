//! Topics of a topic model: the prevalence of each as a bar, and its top terms with their weights.
//!
//! A row per topic, the most prevalent first: a hundred topics are a table that can be read and
//! searched. The weight of a term is a bar behind it, in one scale for all topics, so that a topic
//! of a few frequent terms looks different from one of many rare ones.

use crate::characters::{bar, cut, put};
use crate::color::ColorRole;
use crate::layout::{
    GAP, GROUP_GAP, LABEL_SIZE, MARGIN, TICK_SIZE, baseline, draw_title, percent, rectangle, title_height,
};
use crate::picture::{Picture, StrokeStyle, TextAnchor, TextStyle, printable};

/// Maximum number of terms per topic in a picture.
const MOST_TERMS: usize = 8;
const ROW_HEIGHT: f64 = 24.0;
/// Narrowest and widest column of terms.
const TERM_WIDTHS: [f64; 2] = [76.0, 140.0];
/// Distance between two terms.
const TERM_GAP: f64 = 6.0;
const PREVALENCE_WIDTH: f64 = 110.0;
const NAME_WIDTH: f64 = 90.0;
const WEIGHT_SIZE: f64 = 9.0;
/// Space of a column beside a term and its weight.
const TERM_PADDING: f64 = 12.0;
const BAR_COLOR: ColorRole = ColorRole::Series(0);

/// Topics with their prevalence and their top terms, as a picture or text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicsPlot {
    title: String,
    note: String,
    topics: Vec<PlottedTopic>,
}

#[derive(Clone, Debug, PartialEq)]
struct PlottedTopic {
    name: String,
    share: f64,
    terms: Vec<(String, f64)>,
}

impl TopicsPlot {
    /// Creates a plot without topics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a topic: its name, its share of all tokens, and its top terms with their probabilities.
    /// Numbers that are not finite count as 0.
    #[must_use]
    pub fn topic<'a>(mut self, name: &str, share: f64, terms: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let terms = terms.into_iter().map(|(term, weight)| (printable(term), usable(weight))).collect();
        self.topics.push(PlottedTopic { name: printable(name), share: usable(share), terms });
        self
    }

    /// Sets the title above the topics.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = printable(title);
        self
    }

    /// Sets a remark below the topics.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.note = printable(note);
        self
    }

    /// Draws the topics in their order as a picture, with the first eight terms of each.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let terms = self.terms();
        let name = TextStyle::new(LABEL_SIZE, ColorRole::Text);
        let names = self.topics.iter().map(|topic| name.width(&topic.name).min(NAME_WIDTH)).fold(0.0, f64::max);
        let numbers = TextStyle::new(TICK_SIZE, ColorRole::Muted).width("99.9 %");
        let left = MARGIN + names.max(name.width(TOPIC)) + 2.0 * GAP;
        let bars = left + numbers + GAP;
        let words = bars + PREVALENCE_WIDTH + GROUP_GAP;
        let number = TextStyle::new(WEIGHT_SIZE, ColorRole::Muted);
        let shown = self.topics.iter().flat_map(|topic| topic.terms.iter().take(terms));
        let needed = shown.map(|(term, weight)| name.width(term) + number.width(&weight_label(*weight)));
        let term_width = needed.fold(0.0, f64::max) + TERM_PADDING + TERM_GAP;
        let term_width = term_width.clamp(TERM_WIDTHS[0], TERM_WIDTHS[1]);
        let width = (words + term_width * terms as f64 - if terms > 0 { TERM_GAP } else { GROUP_GAP } + MARGIN)
            .max(words + name.width(TERMS) + MARGIN);
        let top = MARGIN + title_height(&self.title) + LABEL_SIZE + 10.0;
        let note = if self.note.is_empty() { 0.0 } else { TICK_SIZE + GAP };
        let height = top + ROW_HEIGHT * self.topics.len() as f64 + note + MARGIN;
        let mut picture = Picture::new(width.ceil(), height.ceil());
        picture.set_title(&self.describe());
        draw_title(&mut picture, &self.title);
        let heading = TextStyle::new(LABEL_SIZE, ColorRole::Muted);
        let line = top - 10.0;
        picture.text([MARGIN, line], TOPIC, heading);
        picture.text([left, line], PREVALENCE, heading);
        picture.text([words, line], TERMS, heading);
        let scales = self.scales();
        for (number, topic) in self.topics.iter().enumerate() {
            let y = top + ROW_HEIGHT * number as f64;
            let edge = [[MARGIN, y], [width - MARGIN, y]];
            picture.line(edge, StrokeStyle::new(ColorRole::Grid, 1.0));
            let at = [MARGIN, baseline(y + ROW_HEIGHT / 2.0, LABEL_SIZE)];
            picture.text(at, &name.truncate(&topic.name, NAME_WIDTH), name);
            let style = TextStyle::new(TICK_SIZE, ColorRole::Muted).anchor(TextAnchor::End);
            let middle = baseline(y + ROW_HEIGHT / 2.0, TICK_SIZE);
            picture.text([left + numbers, middle], &percent(topic.share), style);
            bar_at(&mut picture, [bars, y + 6.0], PREVALENCE_WIDTH * topic.share / scales.share, 1.0);
            for (place, (term, weight)) in topic.terms.iter().take(terms).enumerate() {
                let at = [words + term_width * place as f64, y];
                draw_term(&mut picture, at, term_width - TERM_GAP, (term, *weight, weight / scales.weight));
            }
        }
        if !self.note.is_empty() {
            let style = TextStyle::new(TICK_SIZE, ColorRole::Muted);
            let note = style.truncate(&self.note, width - 2.0 * MARGIN);
            picture.text([MARGIN, height - MARGIN], &note, style);
        }
        picture
    }

    /// Formats the topics in lines of at most `width` characters, and at least 40, a topic per line.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        const BAR: usize = 12;
        let width = width.max(40);
        let mut text = String::new();
        if !self.title.is_empty() {
            put(&mut text, format_args!("{}\n\n", cut(&self.title, width)));
        }
        let names = self.topics.iter().map(|topic| topic.name.chars().count()).max().unwrap_or(0).clamp(5, 12);
        let heading = format!("{TOPIC:<names$}  {PREVALENCE:<0$}  {TERMS}", 8 + BAR);
        put(&mut text, format_args!("{}\n", cut(&heading, width)));
        let scales = self.scales();
        for topic in &self.topics {
            let (name, share) = (cut(&topic.name, names), percent(topic.share));
            let length = bar(topic.share / scales.share, BAR);
            let mut line = format!("{name:<names$}  {share:>6}  {length:<BAR$} ");
            for (term, weight) in &topic.terms {
                let word = format!(" {term} {}", weight_label(*weight));
                if line.chars().count() + word.chars().count() > width {
                    break;
                }
                line += &word;
            }
            put(&mut text, format_args!("{}\n", cut(line.trim_end(), width)));
        }
        if !self.note.is_empty() {
            put(&mut text, format_args!("{}\n", cut(&self.note, width)));
        }
        text
    }

    /// Number of terms per topic in a picture.
    fn terms(&self) -> usize {
        self.topics.iter().map(|topic| topic.terms.len()).max().unwrap_or(0).min(MOST_TERMS)
    }

    /// Largest share and largest weight, which have the longest bars.
    fn scales(&self) -> TopicScales {
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let weights = self.topics.iter().flat_map(|topic| &topic.terms).map(|(_, weight)| *weight);
        TopicScales {
            share: largest(&mut self.topics.iter().map(|topic| topic.share)),
            weight: largest(&mut weights.into_iter()),
        }
    }

    /// Describes the topics in a sentence, for screen readers.
    fn describe(&self) -> String {
        let title = if self.title.is_empty() { String::new() } else { format!("{}: ", self.title) };
        let first: Vec<String> = self
            .topics
            .iter()
            .take(3)
            .map(|topic| {
                let terms: Vec<&str> = topic.terms.iter().take(3).map(|(term, _)| term.as_str()).collect();
                format!("{} ({})", percent(topic.share), terms.join(", "))
            })
            .collect();
        format!("{title}prevalence and top terms of {} topics; {}", self.topics.len(), first.join("; "))
    }
}

const TOPIC: &str = "topic";
const PREVALENCE: &str = "share of all tokens";
const TERMS: &str = "top terms with their probability";

/// Values that have the longest bars.
struct TopicScales {
    share: f64,
    weight: f64,
}

/// Draws a term over a bar of its weight, with the weight as a number.
fn draw_term(picture: &mut Picture, [left, top]: [f64; 2], width: f64, (term, weight, length): (&str, f64, f64)) {
    bar_at(picture, [left, top + 4.0], width * length, 0.22);
    let number = weight_label(weight);
    let small = TextStyle::new(WEIGHT_SIZE, ColorRole::Muted);
    let style = TextStyle::new(LABEL_SIZE, ColorRole::Text);
    let room = width - small.width(&number) - TERM_PADDING;
    let middle = top + ROW_HEIGHT / 2.0;
    picture.text([left + 4.0, baseline(middle, LABEL_SIZE)], &style.truncate(term, room), style);
    let at = [left + width - 3.0, baseline(middle, LABEL_SIZE)];
    picture.text(at, &number, small.anchor(TextAnchor::End));
}

/// Fills a horizontal bar. A bar of less than half a unit is not drawn.
fn bar_at(picture: &mut Picture, at: [f64; 2], length: f64, opacity: f64) {
    if length >= 0.5 {
        let height = if opacity < 1.0 { ROW_HEIGHT - 8.0 } else { ROW_HEIGHT - 12.0 };
        picture.polygon(rectangle(at, length, height), BAR_COLOR, opacity);
    }
}

/// Formats a probability with three digits after the point, without the zero before it.
fn weight_label(weight: f64) -> String {
    let text = format!("{weight:.3}");
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

fn usable(number: f64) -> f64 {
    if number.is_finite() { number.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_short() {
        assert_eq!([0.0314, 0.0, 1.0, 0.0004].map(weight_label), [".031", ".000", "1.000", ".000"]);
    }
}
