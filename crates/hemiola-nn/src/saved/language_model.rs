//! Saved language model: perplexity of a text, and generated text.
//!
//! **Invariant:** the generated words depend on the weights, the prompt and the options alone. Word
//! `n` is drawn with random number `n` of the seed, so a longer text begins with the shorter one.

use super::image_classifier::{batches, numbers};
use super::{NetArchitecture, NetInput, SavedNet, TextInput};
use crate::data::{Dataset as _, TextCodec, TextDataset, TextTokenizer, TextVocabulary};
use crate::error::Error;
use crate::models::{Gpt, Lstm, LstmState, NeuralNet as _, Transformer};
use crate::training::Metrics;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_core::rng::PhiloxRng;
use serde::Serialize;

/// A saved `lstm`, `transformer` or `gpt`.
#[derive(Debug)]
pub struct LanguageModel {
    net: TextNet,
    input: TextInput,
    codec: TextCodec,
    device: Device,
}

#[derive(Debug)]
enum TextNet {
    Lstm(Box<Lstm>),
    /// Net and its maximum sequence length.
    Transformer(Box<Transformer>, usize),
    /// Net and its maximum sequence length.
    Gpt(Box<Gpt>, usize),
}

/// Options of text generation.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationOptions {
    /// Number of words to generate.
    pub length: usize,
    /// Divisor of the logits: below 1, probable words become more probable; 0 always takes the most
    /// probable word.
    pub temperature: f64,
    /// Number of most probable words to draw from; `None` for all.
    pub top_k: Option<usize>,
    /// Random seed.
    pub seed: u64,
}

impl Default for GenerationOptions {
    /// 50 words, of all words by their probability.
    fn default() -> Self {
        Self { length: 50, temperature: 1.0, top_k: None, seed: 1 }
    }
}

/// Evaluation of a language model on a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextEvaluation {
    /// Mean cross-entropy of the next word (`loss`), its exponential (`perplexity`), and the share
    /// of words that are predicted best (`accuracy`).
    pub metrics: Metrics,
    /// Number of predicted words.
    pub words: usize,
}

impl LanguageModel {
    pub(super) fn new(saved: &SavedNet, device: &Device) -> Result<Self, Error> {
        let description = saved.description();
        let NetInput::Text(input) = &description.input else { return Err(saved.other_kind("a language model")) };
        let (net, words) = match &description.architecture {
            NetArchitecture::Lstm(config) => {
                (TextNet::Lstm(Box::new(saved.restore(config.init(device), device)?)), config.vocabulary_size)
            }
            NetArchitecture::Transformer(config) => {
                let net = saved.restore(config.init(device), device)?;
                (TextNet::Transformer(Box::new(net), config.context_length), config.vocabulary_size)
            }
            NetArchitecture::Gpt(config) => {
                let net = saved.restore(config.init(device), device)?;
                (TextNet::Gpt(Box::new(net), config.context_length), config.vocabulary_size)
            }
            _ => return Err(saved.other_kind("a language model")),
        };
        let codec = match &input.tokenizer {
            None => TextCodec::Words(TextVocabulary::from_words(&input.vocabulary)),
            Some(json) => {
                let tokenizer = TextTokenizer::parse(json);
                let damaged = |problem: String| saved.damaged(format!("its tokenizer: {problem}"));
                TextCodec::Tokenizer(Box::new(tokenizer.map_err(damaged)?))
            }
        };
        if codec.len() != words || input.sequence_length == 0 {
            return Err(saved.damaged(format!("its vocabulary has {} words of {words}", codec.len())));
        }
        Ok(Self { net, input: input.clone(), codec, device: device.clone() })
    }

    /// Returns vocabulary and sequence length.
    #[must_use]
    pub fn input(&self) -> &TextInput {
        &self.input
    }

    /// Returns the vocabulary or the tokenizer.
    #[must_use]
    pub fn codec(&self) -> &TextCodec {
        &self.codec
    }

    /// Returns the tokens of a prompt. Words of a vocabulary are separated by white space, and line
    /// breaks end sentences; unknown words become `<unk>` if the vocabulary has it, and are an error
    /// otherwise.
    pub fn tokens(&self, prompt: &str) -> Result<Vec<u32>, Error> {
        self.codec.encode(prompt).map_err(|word| Error::UnknownWord { word })
    }

    /// Evaluates the model on a text with the vocabulary of the model. Every sequence starts without
    /// context, as in training.
    pub fn evaluate(&self, text: &TextDataset) -> Result<TextEvaluation, Error> {
        if let TextNet::Transformer(_, context) | TextNet::Gpt(_, context) = &self.net
            && text.sequence_length() > *context
        {
            let found = text.sequence_length();
            let problem = format!("the sequences have {found} words, and the net takes at most {context}");
            return Err(Error::OtherData { problem });
        }
        if text.is_empty() {
            return Err(Error::OtherData { problem: "the text is shorter than a sequence".to_owned() });
        }
        let (mut loss, mut accuracy) = (0.0, 0.0);
        for part in batches(text.len()) {
            let batch = text.batch(&part, &self.device);
            let metrics = match &self.net {
                TextNet::Lstm(net) => net.evaluate(&batch),
                TextNet::Transformer(net, _) => net.evaluate(&batch),
                TextNet::Gpt(net, _) => net.evaluate(&batch),
            };
            loss += metrics.loss * part.len() as f64;
            accuracy += metrics.accuracy.unwrap_or(0.0) * part.len() as f64;
        }
        let (loss, accuracy) = (loss / text.len() as f64, accuracy / text.len() as f64);
        let metrics = Metrics::from([
            ("loss".to_owned(), loss),
            ("perplexity".to_owned(), loss.exp()),
            ("accuracy".to_owned(), accuracy),
        ]);
        Ok(TextEvaluation { metrics, words: text.len() * text.sequence_length() })
    }

    /// Continues a prompt of word indices; returns the generated words only. A prompt is preceded by
    /// the end of a sentence, where the vocabulary has one. A transformer sees as many of the newest
    /// words as it was trained for; an LSTM sees all of them.
    pub fn generate(&self, prompt: &[u32], options: &GenerationOptions) -> Result<Vec<u32>, Error> {
        let words = self.codec.len();
        if let Some(token) = prompt.iter().find(|token| **token as usize >= words) {
            return Err(Error::OtherData { problem: format!("word {token} is not one of {words}") });
        }
        if !(options.temperature.is_finite() && options.temperature >= 0.0) || options.top_k == Some(0) {
            let problem = "the temperature is a number of at least 0, and top-k at least 1".to_owned();
            return Err(Error::OtherData { problem });
        }
        let mut context: Vec<u32> = self.codec.start().into_iter().collect();
        context.extend(prompt);
        if context.is_empty() {
            context.push(0);
        }
        let (start, random) = (context.len(), PhiloxRng::new(options.seed));
        let mut state = LstmState::default();
        let mut unseen = 0;
        for number in 0..options.length as u64 {
            let logits = match &self.net {
                TextNet::Lstm(net) => {
                    let logits = net.forward_from(self.tensor(&context[unseen..]), &mut state);
                    unseen = context.len();
                    logits
                }
                TextNet::Transformer(net, longest) => {
                    net.forward(self.tensor(&context[context.len().saturating_sub(*longest)..]))
                }
                TextNet::Gpt(net, longest) => {
                    net.forward(self.tensor(&context[context.len().saturating_sub(*longest)..]))
                }
            };
            let [_, positions, _] = logits.dims();
            let logits = numbers(logits.narrow(1, positions - 1, 1))?;
            context.push(draw(&logits, options, random.random_f64(number, 0)));
        }
        Ok(context.split_off(start))
    }

    /// Returns tokens as text; sentences of words on lines of their own.
    #[must_use]
    pub fn text(&self, tokens: &[u32]) -> String {
        self.codec.decode(tokens)
    }

    fn tensor(&self, tokens: &[u32]) -> Tensor<2, Int> {
        let numbers: Vec<i32> = tokens.iter().map(|token| token.cast_signed()).collect();
        Tensor::from_data(TensorData::new(numbers, [1, tokens.len()]), &self.device)
    }
}

/// Draws a word by its logits; `chance` is a uniform number in `[0, 1)`.
fn draw(logits: &[f32], options: &GenerationOptions, chance: f64) -> u32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_unstable_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    if options.temperature == 0.0 {
        return order[0] as u32;
    }
    order.truncate(options.top_k.unwrap_or(usize::MAX));
    let most = f64::from(logits[order[0]]);
    let weights: Vec<f64> =
        order.iter().map(|word| ((f64::from(logits[*word]) - most) / options.temperature).exp()).collect();
    let mut left = chance * weights.iter().sum::<f64>();
    for (word, weight) in order.iter().zip(&weights) {
        left -= weight;
        if left < 0.0 {
            return *word as u32;
        }
    }
    order[order.len() - 1] as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_drawn_by_their_probability() {
        let logits = [0.0, 2.0_f32.ln(), f32::NEG_INFINITY, 1.0_f32.ln()];
        let count = |options: &GenerationOptions| {
            let mut counts = [0_i32; 4];
            (0..4000).for_each(|at| counts[draw(&logits, options, f64::from(at) / 4000.0) as usize] += 1);
            counts
        };
        let all = GenerationOptions::default();
        assert!(count(&all).iter().zip([1000, 2000, 0, 1000]).all(|(found, wanted)| (found - wanted).abs() <= 1));
        let two = GenerationOptions { top_k: Some(2), ..all.clone() };
        assert_eq!(count(&two)[2..], [0, 0], "the first of two equal words is kept");
        assert_eq!(count(&GenerationOptions { temperature: 0.0, ..all.clone() }), [0, 4000, 0, 0]);
        let cold = count(&GenerationOptions { temperature: 0.5, ..all });
        assert!((cold[1] - 2667).abs() <= 2, "{cold:?}");
    }
}
