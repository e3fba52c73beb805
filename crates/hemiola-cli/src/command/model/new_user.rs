//! Whom something is recommended to: a user of the training data, or somebody who comes with ratings of their own.

use super::names::{Titles, user};
use crate::error::CommandError;
use clap::Args;
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{ByteRange, Csv, InputFile};
use hemiola_cluster::Cluster;
use hemiola_models::mf::{MfModel, UserFactors, data};
use std::path::Path;

/// A user, known or new.
#[derive(Args, Debug)]
pub(super) struct NewUserArgs {
    /// The user, by the name in the training data.
    #[arg(long, value_name = "ID")]
    user: Option<String>,

    /// Instead of a user: somebody new, by what they rated: `ITEM:RATING,ITEM:RATING`, or a file with an item and a rating on each
    /// line. Where the model is of events, ratings are weights and may be left out.
    #[arg(long, value_name = "LIST|FILE", conflicts_with = "user")]
    ratings: Option<String>,
}

/// Factors, and the items they come from, if they are new.
pub(super) struct NewUserEvents {
    pub(super) row: UserFactors,
    pub(super) rated: Vec<u64>,
}

impl NewUserArgs {
    /// Whether nobody was named.
    pub(super) fn is_nobody(&self) -> bool {
        self.user.is_none() && self.ratings.is_none()
    }

    /// Looks the user up, or folds somebody new in.
    pub(super) fn find(&self, cluster: &Cluster, model: &MfModel, titles: &Titles) -> anyhow::Result<NewUserEvents> {
        if let Some(name) = &self.user {
            let row = model.user_row(cluster, user(model, name)?)?;
            return Ok(NewUserEvents { row, rated: Vec::new() });
        }
        let Some(given) = self.ratings.as_deref() else {
            let failure = CommandError::usage("nobody is named to predict for, and the model is of users and items");
            return Err(failure.hint("add `--user ID`, or `--ratings` of somebody new").into());
        };
        let path = Path::new(given);
        if !path.exists() && looks_like_a_file(given) && titles.item(model, given).is_err() {
            let message = format!("there is no file `{given}`, and no item of that name");
            return Err(CommandError::usage(message).hint("check the path, or write `ITEM:RATING`").into());
        }
        let named = if path.is_file() { from_file(path)? } else { from_list(given)? };
        let mut ratings = Vec::with_capacity(named.len());
        for (name, rating) in named {
            let item = titles.item(model, &name)?;
            let rating = match (rating, model.loss()) {
                (Some(rating), hemiola_models::mf::MfLoss::OneClass) if rating <= 0.0 => {
                    return Err(CommandError::usage(format!("the weight of `{name}` is {rating}"))
                        .hint("events have weights above 0; leave out what did not happen")
                        .into());
                }
                (Some(rating), _) => rating,
                (None, hemiola_models::mf::MfLoss::OneClass) => 1.0,
                (None, _) => {
                    return Err(CommandError::usage(format!("`{name}` has no rating"))
                        .hint("write `ITEM:RATING`; several are separated by commas")
                        .into());
                }
            };
            ratings.push((item, rating));
        }
        let row = model.fold_in(cluster, &ratings)?;
        Ok(NewUserEvents { row, rated: ratings.into_iter().map(|(item, _)| item).collect() })
    }

    /// The items of the user in files of ratings or events.
    pub(super) fn seen_in(&self, cluster: &Cluster, model: &MfModel, files: &str) -> anyhow::Result<Vec<u64>> {
        let Some(name) = &self.user else { return Ok(Vec::new()) };
        let all = data::aligned_to(&data::read_events(cluster, None, files)?, model)?;
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

/// Whether a text is more likely the path of a file than a list of items.
fn looks_like_a_file(text: &str) -> bool {
    const ENDINGS: [&str; 7] = ["csv", "tsv", "txt", "dat", "data", "gz", "zst"];
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
    !text.contains([':', ',']) && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// `ITEM:RATING,..`; an item may have colons, and a rating may be missing.
fn from_list(text: &str) -> anyhow::Result<Named> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parsed = parts
        .map(|part| {
            let Some((item, rating)) = part.rsplit_once(':') else { return Ok((part.to_owned(), None)) };
            match rating.trim().parse::<f32>() {
                Ok(rating) if rating.is_finite() => Ok((item.trim().to_owned(), Some(rating))),
                // A title may end with the word, but hardly with what a program writes for it.
                Ok(rating) if !part.to_lowercase().ends_with("infinity") => {
                    let message = format!("the rating of `{}` is {rating}", item.trim());
                    Err(CommandError::usage(message).hint("ratings are finite numbers; leave out what was not rated"))
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
    fn lists_are_items_with_ratings_or_without() {
        let list = from_list("50:4.5, Alien: the film:3 ,x, Alien: no rating").unwrap();
        let list: Vec<(&str, Option<f32>)> = list.iter().map(|(item, rating)| (item.as_str(), *rating)).collect();
        let expected = [("50", Some(4.5)), ("Alien: the film", Some(3.0)), ("x", None), ("Alien: no rating", None)];
        assert_eq!(list, expected);
        assert_eq!(from_list("50:4,60:nan").unwrap_err().to_string(), "the rating of `60` is NaN");
        assert_eq!(from_list("To: Infinity").unwrap(), [("To: Infinity".to_owned(), None)]);
        assert_eq!(from_list(" ,").unwrap_err().to_string(), "`--ratings` names no item");
    }
}
