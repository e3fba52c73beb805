//! The user of `recommend` and `predict`: a user of the training data, or a new user with given
//! ratings.

use super::input_args::RatingFileArgs;
use super::names::{Titles, user};
use crate::error::CommandError;
use clap::Args;
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{ByteRange, Csv, InputFile};
use hemiola_cluster::Cluster;
use hemiola_models::mf::{MfModel, UserFactors, data};
use std::path::Path;

/// Arguments that select a user: by name, or as a new user by ratings.
#[derive(Args, Debug)]
pub(super) struct NewUserArgs {
    /// User, by the name in the training data.
    #[arg(long, value_name = "ID")]
    user: Option<String>,

    /// A new user, given by ratings: `ITEM:RATING,ITEM:RATING`, or a file with an item and a rating
    /// on each line. For a model of events, ratings are weights and may be omitted.
    #[arg(long, value_name = "LIST|FILE", conflicts_with = "user")]
    ratings: Option<String>,
}

/// Factors of a user, and the items that a new user has rated.
pub(super) struct SelectedUser {
    pub(super) row: UserFactors,
    pub(super) rated: Vec<usize>,
}

impl NewUserArgs {
    /// Returns true if neither a user nor ratings are given.
    pub(super) fn is_empty(&self) -> bool {
        self.user.is_none() && self.ratings.is_none()
    }

    /// Returns the name of a user of the training data, if one is given.
    pub(super) fn name(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Looks up the user, or folds in a new user.
    pub(super) fn find(&self, cluster: &Cluster, model: &MfModel, titles: &Titles) -> anyhow::Result<SelectedUser> {
        if let Some(name) = &self.user {
            let row = model.user_row(cluster, user(model, name)?)?;
            return Ok(SelectedUser { row, rated: Vec::new() });
        }
        let Some(given) = self.ratings.as_deref() else {
            let failure = CommandError::usage("no user is given");
            return Err(failure.hint("add `--user ID`, or `--ratings` of a new user").into());
        };
        let path = Path::new(given);
        if !path.exists() && looks_like_a_file(given) && titles.item(model, given).is_err() {
            let message = format!("there is no file or item `{given}`");
            return Err(CommandError::usage(message).hint("check the path, or write `ITEM:RATING`").into());
        }
        let named = if path.is_file() { from_file(path)? } else { from_list(given)? };
        let mut ratings = Vec::with_capacity(named.len());
        for (name, rating) in named {
            let item = titles.item(model, &name)?;
            let rating = match (rating, model.loss().is_implicit()) {
                (Some(rating), true) if rating <= 0.0 => {
                    return Err(CommandError::usage(format!("the weight of `{name}` is {rating}"))
                        .hint("events have weights above 0; leave out the item")
                        .into());
                }
                (Some(rating), _) => rating,
                (None, true) => 1.0,
                (None, false) => {
                    return Err(CommandError::usage(format!("`{name}` has no rating"))
                        .hint("write `ITEM:RATING`; several are separated by commas")
                        .into());
                }
            };
            ratings.push((item, rating));
        }
        let row = model.fold_in(cluster, &ratings)?;
        Ok(SelectedUser { row, rated: ratings.into_iter().map(|(item, _)| item).collect() })
    }

    /// Returns the items of the user in files of ratings or events.
    pub(super) fn seen_in(
        &self,
        cluster: &Cluster,
        model: &MfModel,
        reading: &RatingFileArgs,
        files: &str,
    ) -> anyhow::Result<Vec<usize>> {
        let Some(name) = &self.user else { return Ok(Vec::new()) };
        let options = reading.options(true, model.input.as_ref());
        let all = data::aligned_to(&data::read_with(cluster, &options, files)?.entries, model)?;
        let wanted = user(model, name)?;
        let mut seen = Vec::new();
        all.for_each(|[user, item], _| {
            if user == wanted {
                seen.push(item);
            }
        });
        Ok(seen)
    }
}

type Named = Vec<(String, Option<f32>)>;

/// Returns true if a text looks like the path of a file rather than a list of items.
fn looks_like_a_file(text: &str) -> bool {
    const ENDINGS: [&str; 7] = ["csv", "tsv", "txt", "dat", "data", "gz", "zst"];
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
    !text.contains([':', ',']) && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Parses `ITEM:RATING,..`. Item names may contain colons, and ratings may be missing.
fn from_list(text: &str) -> anyhow::Result<Named> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parsed = parts
        .map(|part| {
            let Some((item, rating)) = part.rsplit_once(':') else { return Ok((part.to_owned(), None)) };
            match rating.trim().parse::<f32>() {
                Ok(rating) if rating.is_finite() => Ok((item.trim().to_owned(), Some(rating))),
                // A title may end with the word `infinity`, but hardly with the shorter `inf` of a
                // program.
                Ok(rating) if !part.to_lowercase().ends_with("infinity") => {
                    let message = format!("the rating of `{}` is {rating}", item.trim());
                    Err(CommandError::usage(message).hint("ratings are finite numbers; leave out unrated items"))
                }
                _ => Ok((part.to_owned(), None)),
            }
        })
        .collect::<Result<Named, _>>()?;
    if parsed.is_empty() {
        return Err(CommandError::usage("`--ratings` names no item")
            .hint("write `ITEM:RATING`, or the name of a file")
            .into());
    }
    Ok(parsed)
}

fn from_file(path: &Path) -> anyhow::Result<Named> {
    let source = InputFile::open(path)?;
    let separator =
        DetectedFormat::separator_of(&source)?.separator.map_or_else(|| ",".to_owned(), |found| found.text());
    let mut named = Vec::new();
    for range in ByteRange::split(std::slice::from_ref(&source), u64::MAX) {
        Csv::new().separator(&separator).read_fields(&range, |fields| {
            let item = data::decode_text(&fields.text()?);
            let rating = if fields.is_empty() { None } else { Some(fields.next::<f32>()?) };
            fields.skip_rest();
            named.push((item, rating));
            Ok(())
        })?;
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_items_with_optional_ratings() {
        let list = from_list("50:4.5, Alien: the film:3 ,x, Alien: no rating").unwrap();
        let list: Vec<(&str, Option<f32>)> = list.iter().map(|(item, rating)| (item.as_str(), *rating)).collect();
        let expected = [("50", Some(4.5)), ("Alien: the film", Some(3.0)), ("x", None), ("Alien: no rating", None)];
        assert_eq!(list, expected);
        assert_eq!(from_list("50:4,60:nan").unwrap_err().to_string(), "the rating of `60` is NaN");
        assert_eq!(from_list("To: Infinity").unwrap(), [("To: Infinity".to_owned(), None)]);
        assert_eq!(from_list(" ,").unwrap_err().to_string(), "`--ratings` names no item");
    }
}
