//! `hemiola recommend --users`, `similar --items` and `predict --output`: results for many users,
//! items, pairs or examples at once, as tables with their ids.

use super::input_args::RatingFileArgs;
use super::names::{Titles, user};
use super::read_hints::ReadHints;
use super::table_output::{TableArg, TableColumn, TableWriter, label, number};
use crate::error::CommandError;
use crate::output;
use crate::plural::counted;
use hemiola_array::read::lines::read_names;
use hemiola_array::read::{InputFile, InputPaths, is_stream};
use hemiola_cluster::Cluster;
use hemiola_models::input::column_texts;
use hemiola_models::linear::LinearPrediction;
use hemiola_models::mf::{BatchRecommender, MfModel, RankedItems, data};
use hemiola_models::sparse::SparsePrediction;
use serde_json::Value;

/// Number of users, items or pairs whose results are in memory together.
const BATCH: usize = 4096;
/// Value of `--users` and `--items` for all of the model.
const ALL: &str = "all";

/// Users or items of a batch, by index.
fn selected(given: &str, count: usize, find: impl Fn(&str) -> anyhow::Result<usize>) -> anyhow::Result<Vec<usize>> {
    if given == ALL {
        return Ok((0..count).collect());
    }
    let source = InputFile::open(given)
        .map_err(|error| CommandError::array(&error, "give a file with a name on each line, or `all`"))?;
    let names = read_names(&source)?;
    names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).map(find).collect()
}

/// Recommendations for many users.
pub(super) struct BatchRecommendation<'a> {
    /// File of names, or `all`.
    pub(super) users: &'a str,
    /// Number of items of each user.
    pub(super) count: usize,
    /// Items excluded for all users.
    pub(super) seen: Vec<usize>,
    /// Files with the items to exclude for each user.
    pub(super) seen_in: Option<&'a str>,
    pub(super) reading: &'a RatingFileArgs,
    pub(super) table: &'a TableArg,
}

impl BatchRecommendation<'_> {
    pub(super) fn write(self, cluster: &Cluster, model: &MfModel, titles: &Titles) -> anyhow::Result<()> {
        let [users, _] = model.shape();
        let wanted = selected(self.users, users, |name| user(model, name))?;
        let mut common: Vec<u32> = self.seen.iter().map(|item| *item as u32).collect();
        common.sort_unstable();
        common.dedup();
        let known = self.known(cluster, model, &common)?;
        let recommender = BatchRecommender::new(cluster, model)?;
        let seen = |user: usize| known.as_ref().map_or(&common[..], |known| &known[user]);
        let mut table = ItemTable::begin(self.table, "user", titles)?;
        for batch in wanted.chunks(BATCH) {
            let lists = recommender.recommend(batch, self.count, &seen)?;
            for (user, list) in batch.iter().zip(lists) {
                table.list(&model.user_name(*user), &list, model, titles)?;
            }
        }
        table.finish()
    }

    /// Reads the excluded items of each user, ascending.
    fn known(&self, cluster: &Cluster, model: &MfModel, common: &[u32]) -> anyhow::Result<Option<Vec<Vec<u32>>>> {
        let Some(files) = self.seen_in else { return Ok(None) };
        let options = self.reading.options(true, model.input.as_ref());
        let read = data::read_with(cluster, &options, files).map_err(anyhow::Error::from);
        let read = read.map_err(|error| ReadHints::RATINGS.explain(error))?;
        let mut known = vec![common.to_vec(); model.shape()[0]];
        data::aligned_to(&read.entries, model)?.for_each(|[user, item], _| known[user].push(item as u32));
        for items in &mut known {
            items.sort_unstable();
            items.dedup();
        }
        Ok(Some(known))
    }
}

/// Writes the items that are most similar to each of many items.
pub(super) fn write_similar(
    cluster: &Cluster,
    model: &MfModel,
    (items, count): (&str, usize),
    table: &TableArg,
    titles: &Titles,
) -> anyhow::Result<()> {
    let wanted = selected(items, model.shape()[1], |name| titles.item(model, name))?;
    let recommender = BatchRecommender::new(cluster, model)?;
    let mut table = ItemTable::begin(table, "item", titles)?;
    for batch in wanted.chunks(BATCH) {
        for (item, list) in batch.iter().zip(recommender.similar(batch, count)?) {
            table.list(&model.item_name(*item), &list, model, titles)?;
        }
    }
    table.finish()
}

/// Table of ranked items: a row for each item of each list.
struct ItemTable {
    table: TableWriter,
    titled: bool,
}

impl ItemTable {
    fn begin(table: &TableArg, of: &str, titles: &Titles) -> anyhow::Result<Self> {
        let titled = !titles.is_empty();
        let item = if of == "item" { "similar" } else { "item" };
        let mut columns = vec![
            TableColumn::text(of),
            TableColumn::integer("rank"),
            TableColumn::text(item),
            TableColumn::number("score"),
        ];
        columns.extend(titled.then(|| TableColumn::text("title")));
        Ok(Self { table: table.begin(columns)?, titled })
    }

    fn list(&mut self, of: &str, list: &RankedItems, model: &MfModel, titles: &Titles) -> anyhow::Result<()> {
        for (rank, (item, score)) in (1_u64..).zip(list) {
            let name = model.item_name(*item);
            let title = self.titled.then(|| titles.title(&name).map_or(Value::Null, Value::from));
            let mut row = vec![of.into(), rank.into(), name.into(), number(*score)];
            row.extend(title);
            self.table.row(&row)?;
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        self.table.finish()
    }
}

/// Predicts the ratings of the pairs of user and item in files, line by line.
pub(super) fn write_ratings(
    cluster: &Cluster,
    model: &MfModel,
    reading: &RatingFileArgs,
    files: &[String],
    table: &TableArg,
) -> anyhow::Result<()> {
    let columns = vec![TableColumn::text("user"), TableColumn::text("item"), TableColumn::number("prediction")];
    let mut table = table.begin(columns)?;
    let (mut pairs, mut cold, mut failed) = (0_u64, 0_u64, None);
    let options = reading.options(true, model.input.as_ref());
    let read = data::read_pairs(&options, files, BATCH, |names| {
        let found: Vec<[Option<usize>; 2]> =
            names.iter().map(|[user, item]| [model.user(user), model.item(item)]).collect();
        let predictions = model.predict_any(cluster, &found)?;
        pairs += names.len() as u64;
        cold += found.iter().filter(|pair| pair.contains(&None)).count() as u64;
        for ([user, item], prediction) in names.iter().zip(predictions) {
            if let (None, Err(error)) =
                (&failed, table.row(&[user.as_str().into(), item.as_str().into(), number(prediction)]))
            {
                failed = Some(error);
            }
        }
        Ok(())
    });
    read.map_err(|error| ReadHints::RATINGS.explain(error.into()))?;
    if let Some(error) = failed {
        return Err(error);
    }
    table.finish()?;
    if cold > 0 {
        let pairs = counted(pairs, "pair");
        output::note(&format!(
            "{cold} of {pairs} have a user or an item that the model does not know; their prediction is the mean with the \
             known bias"
        ));
    }
    Ok(())
}

/// Ids of examples, from a column of their files.
pub(super) struct ExampleIds {
    column: String,
    ids: Vec<String>,
}

impl ExampleIds {
    /// Reads the ids of a column. Without one, examples are numbered from 1.
    pub(super) fn read(column: Option<&str>, files: &[String], separator: Option<&str>) -> anyhow::Result<Self> {
        let Some(column) = column else { return Ok(Self { column: "row".to_owned(), ids: Vec::new() }) };
        if files.iter().any(|file| is_stream(file)) {
            let failure =
                CommandError::usage("`--id-column` reads the data twice, which standard input does not allow");
            return Err(failure.hint("give a file for `--data`").into());
        }
        let found = InputPaths::from(files).find()?;
        Ok(Self { column: column.to_owned(), ids: column_texts(found, separator, column)? })
    }

    /// Returns the column of the ids.
    fn table_column(&self) -> TableColumn {
        if self.ids.is_empty() { TableColumn::integer(&self.column) } else { TableColumn::text(&self.column) }
    }

    fn of(&self, row: usize) -> Value {
        match self.ids.get(row) {
            Some(id) => id.as_str().into(),
            None => (row as u64 + 1).into(),
        }
    }
}

/// Writes predictions of examples: id, prediction, and further columns.
pub(super) struct PredictionTable<'a> {
    pub(super) table: &'a TableArg,
    pub(super) ids: ExampleIds,
}

impl PredictionTable<'_> {
    /// Writes classes, with the probability of each class, or the decision value of the second
    /// class or of each of more than two.
    pub(super) fn classes(self, classes: &[String], predicted: &[LinearPrediction]) -> anyhow::Result<()> {
        let probabilities = predicted.first().is_some_and(|first| !first.probabilities.is_empty());
        let names = match (probabilities, classes) {
            (true, _) => classes.iter().map(|class| format!("probability_{class}")).collect::<Vec<_>>(),
            (false, [_, second]) => vec![format!("decision_{second}")],
            (false, _) => classes.iter().map(|class| format!("decision_{class}")).collect(),
        };
        let mut columns = vec![prediction_column(classes)];
        columns.extend(names.into_iter().map(TableColumn::number));
        let rows = predicted.iter().map(|one| {
            let values = if probabilities { &one.probabilities } else { &one.scores };
            let class = class_cell(one.name.as_deref(), f64::from(one.label));
            [class].into_iter().chain(values.iter().map(|value| Value::from(*value))).collect()
        });
        self.cells(columns, rows)
    }

    /// Writes columns of any model: each row has the cells after its id.
    pub(super) fn cells(self, columns: Vec<TableColumn>, rows: impl Iterator<Item = Vec<Value>>) -> anyhow::Result<()> {
        let mut table = self.table.begin([vec![self.ids.table_column()], columns].concat())?;
        for (row, cells) in rows.enumerate() {
            table.row(&[vec![self.ids.of(row)], cells].concat())?;
        }
        table.finish()
    }

    /// Writes quantities, or classes with the probability of the second class.
    pub(super) fn values(self, classes: Option<[f32; 2]>, predicted: &[SparsePrediction]) -> anyhow::Result<()> {
        let mut columns = match classes {
            Some(classes) => vec![prediction_column(&classes.map(|class| class.to_string()))],
            None => vec![TableColumn::number("prediction")],
        };
        columns.extend(classes.map(|[_, second]| TableColumn::number(format!("probability_{second}"))));
        let rows = predicted.iter().map(|one| {
            let mut cells = vec![if classes.is_some() { label(one.value) } else { Value::from(one.value) }];
            cells.extend(classes.map(|_| one.probability.map_or(Value::Null, Value::from)));
            cells
        });
        self.cells(columns, rows)
    }
}

/// Returns the column of predicted classes.
pub(super) fn prediction_column(classes: &[String]) -> TableColumn {
    TableColumn::classes("prediction", classes)
}

/// Returns the cell of a class: its name, or its label.
pub(super) fn class_cell(name: Option<&str>, of_class: f64) -> Value {
    name.map_or_else(|| label(of_class), Value::from)
}
