//! Description of a net in its checkpoint: everything that its use needs besides the weights.

use super::NetArchitecture;
use crate::data::{ImageDataset, RatingDataset, TextCodec};
use hemiola_array::Dictionary;
use serde::{Deserialize, Serialize};

/// Manifest key of the description.
pub(crate) const DESCRIPTION_KEY: &str = "description";

/// Architecture and input of a net. Its checkpoints hold it, so that the net can be used without
/// the data that it was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetDescription {
    /// Kind and sizes.
    pub architecture: NetArchitecture,
    /// Meaning of the numbers that the net takes and gives.
    pub input: NetInput,
}

/// Meaning of the inputs and outputs of a net.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum NetInput {
    /// Images, which the net classifies.
    Images(ImageInput),
    /// Text, which the net continues.
    Text(TextInput),
    /// Pairs of a user and an item, whose ratings the net predicts.
    Ratings(RatingInput),
}

/// Images of an image classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageInput {
    /// Channels, rows and columns.
    pub shape: [usize; 3],
    /// Mean and standard deviation of each channel of the training set, in bytes.
    pub normalization: Vec<[f32; 2]>,
    /// Names of the classes.
    pub classes: Vec<String>,
}

/// Text of a language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextInput {
    /// Words by index; empty if a tokenizer has the tokens.
    pub vocabulary: Vec<String>,
    /// File of the tokenizer, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Number of words of an example of the training.
    pub sequence_length: usize,
}

/// Users and items of a collaborative filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatingInput {
    /// Names of users by index; `None` if users are numbers.
    pub users: Option<Vec<String>>,
    /// Names of items by index; `None` if items are numbers.
    pub items: Option<Vec<String>>,
}

impl From<&ImageDataset> for NetInput {
    /// Describes the images of a training set.
    fn from(images: &ImageDataset) -> Self {
        Self::Images(ImageInput {
            shape: images.shape(),
            normalization: images.byte_normalization().to_vec(),
            classes: images.class_names().to_vec(),
        })
    }
}

impl From<&RatingDataset> for NetInput {
    /// Describes the users and items of a training set.
    fn from(ratings: &RatingDataset) -> Self {
        let names = |column: usize| ratings.names().map(|names| decoded(&names[column]));
        Self::Ratings(RatingInput { users: names(0), items: names(1) })
    }
}

impl NetInput {
    /// Describes text with this vocabulary or tokenizer.
    #[must_use]
    pub fn text(codec: &TextCodec, sequence_length: usize) -> Self {
        let (vocabulary, tokenizer) = match codec {
            TextCodec::Words(vocabulary) => (vocabulary.words().collect(), None),
            TextCodec::Tokenizer(tokenizer) => (Vec::new(), Some(tokenizer.json().to_owned())),
        };
        Self::Text(TextInput { vocabulary, tokenizer, sequence_length })
    }
}

fn decoded(names: &Dictionary) -> Vec<String> {
    names.names().map(decode).collect()
}

/// Decodes a name as UTF-8, or as Latin-1 if it is not valid.
pub(super) fn decode(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_owned(),
        Err(_) => name.iter().map(|byte| char::from(*byte)).collect(),
    }
}
