//! Topics of a topic model, from a report of `hemiola topics`.

use super::report_file::ReportedTopic;
use hemiola_plot::TopicsPlot;

/// Maximum number of topics in a picture.
const MOST_TOPICS: usize = 100;

/// Plots topics, the most prevalent first.
pub(super) fn plot(topics: &mut [ReportedTopic]) -> TopicsPlot {
    let share = |topic: &ReportedTopic| topic.share.unwrap_or(0.0);
    topics.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.topic.cmp(&b.topic)));
    let (shown, rest) = topics.split_at(topics.len().min(MOST_TOPICS));
    let plot = shown.iter().fold(TopicsPlot::new(), |plot, topic| {
        let terms = topic.words.iter().map(|term| (term.word.as_str(), term.probability.unwrap_or(0.0)));
        plot.topic(&topic.topic.to_string(), share(topic), terms)
    });
    if rest.is_empty() {
        return plot;
    }
    let tokens = 100.0 * rest.iter().map(share).sum::<f64>();
    plot.note(&format!("not shown: the {} smallest topics, with {tokens:.1} % of the tokens", rest.len()))
}
