//! `--metric`: the metric on the validation set by which epochs, and trials of a search, are
//! compared.

use clap::Args;
use hemiola_models::metrics::MetricName;
use hemiola_models::training::FitOptions;

/// Argument for a metric.
#[derive(Args, Debug)]
pub(super) struct MetricArg {
    /// Metric of the validation set that selects the best epoch, and by which --target and
    /// --patience stop, such as `auc` or `mae` [default: that of the model]
    #[arg(long, value_name = "NAME", help_heading = "Stopping")]
    pub(super) metric: Option<MetricName>,
}

impl MetricArg {
    /// Adds the metric to the options of a fit, if one is given.
    pub(super) fn apply<'a>(&self, options: FitOptions<'a>) -> FitOptions<'a> {
        match self.metric {
            Some(metric) => options.with_metric(metric.target()),
            None => options,
        }
    }
}
