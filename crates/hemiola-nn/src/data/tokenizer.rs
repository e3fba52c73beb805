//! Byte-level BPE tokenizers in the files of Hugging Face (`tokenizer.json`), as those of GPT-2,
//! Llama 3 and Qwen (Sennrich et al. 2016; Radford et al. 2019).
//!
//! A text is divided into pieces by a pattern, the bytes of a piece are tokens, and pairs of
//! neighbours are merged, the pair of the lowest rank first. Special tokens, such as
//! `<|endoftext|>`, are found before that. Any text has tokens, and they decode to the same text.
//!
//! **Decision:** the crate `tokenizers` needs a regular-expression library in C, or a feature that is
//! called unstable, and a dozen further crates; this reader needs the crate `regex`. It refuses
//! tokenizers of other kinds by name. The pattern `\s+(?!\S)` of all these tokenizers, for which
//! `regex` has no look-ahead, is a rule of `Splitter`.
//!
//! **Invariant:** a tokenizer that is read has a token for every byte.

use super::bytes::{bad_file, digest, read as read_bytes};
use hemiola_array::Result;
use hemiola_core::rng::mix64;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Pattern of GPT-2, for tokenizers without one.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// End of all supported patterns: white space, without the last one before a word.
const SPACES: &str = r"|\s+(?!\S)|\s+";
/// Names of tokens that end a text, by preference.
const ENDS: [&str; 5] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"];

/// A byte-level BPE tokenizer.
#[derive(Clone, Debug)]
pub struct TextTokenizer {
    /// The file, as stored with a model.
    json: String,
    /// Bytes of each token.
    tokens: Vec<Vec<u8>>,
    /// Token of each byte.
    bytes: Vec<u32>,
    /// Rank and result of merging two tokens.
    merges: BTreeMap<(u32, u32), (u32, u32)>,
    /// Tokens that are taken whole if a piece is one.
    whole: Option<BTreeMap<Vec<u8>, u32>>,
    /// Special tokens, the longest first.
    special: Vec<(String, u32)>,
    splitters: Vec<Splitter>,
    prefix_space: bool,
}

/// Relevant part of a file.
#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    model: BpeModel,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct BpeModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Value,
    #[serde(default)]
    merges: Vec<Merge>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

/// A pair of tokens, in one text or in two.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

impl TextTokenizer {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_bytes(path)?;
        let json = String::from_utf8(bytes).map_err(|_| bad_file(path, "it is not UTF-8; give a `tokenizer.json`"))?;
        Self::parse(&json).map_err(|problem| bad_file(path, problem))
    }

    /// Parses the contents of a file. The error is the problem in words.
    pub fn parse(json: &str) -> Result<Self, String> {
        let file: TokenizerFile = serde_json::from_str(json)
            .map_err(|error| format!("it is no `tokenizer.json` of Hugging Face: {error}"))?;
        let TokenizerFile { added_tokens, normalizer, pre_tokenizer, model } = file;
        let kind = model.kind.as_deref().unwrap_or("BPE");
        if kind != "BPE" || model.byte_fallback {
            let kind = if model.byte_fallback { "BPE with byte fallback" } else { kind };
            return Err(format!("its model is `{kind}`; byte-level BPE is supported, as GPT-2 and Llama 3 have it"));
        }
        if let Some(normalizer) = normalizer {
            return Err(format!("its normalizer `{}` is not supported", kind_of(&normalizer)));
        }
        let Layout { splitters, prefix_space } = layout(pre_tokenizer.as_ref())?;
        let vocabulary: BTreeMap<String, u32> =
            serde_json::from_value(model.vocab).map_err(|error| format!("its vocabulary: {error}"))?;
        let count = vocabulary.values().chain(added_tokens.iter().map(|token| &token.id)).max().map_or(0, |id| id + 1);
        if count as usize > 2 * (vocabulary.len() + added_tokens.len()) {
            return Err(format!("its {} tokens have numbers up to {count}", vocabulary.len()));
        }
        let alphabet = alphabet();
        let mut tokens = vec![Vec::new(); count as usize];
        let mut numbers = BTreeMap::new();
        for (token, number) in &vocabulary {
            let bytes: Option<Vec<u8>> = token.chars().map(|letter| alphabet.get(&letter).copied()).collect();
            // Special tokens may be in the vocabulary, with letters of their own.
            let bytes = bytes.unwrap_or_else(|| token.as_bytes().to_vec());
            numbers.entry(bytes.clone()).or_insert(*number);
            tokens[*number as usize] = bytes;
        }
        for AddedToken { id, content } in &added_tokens {
            tokens[*id as usize] = content.as_bytes().to_vec();
        }
        let bytes: Option<Vec<u32>> = (0..=255).map(|byte| numbers.get(&vec![byte]).copied()).collect();
        let bytes = bytes.ok_or("it has no token for some byte, so it is not byte-level BPE")?;
        let mut merges = BTreeMap::new();
        for (rank, merge) in model.merges.iter().enumerate() {
            let (left, right) = match merge {
                Merge::Pair(left, right) => (left.as_str(), right.as_str()),
                Merge::Joined(both) => both.split_once(' ').ok_or_else(|| format!("its merge `{both}` is no pair"))?,
            };
            let number = |token: &str| vocabulary.get(token).copied();
            let (Some(first), Some(second), Some(joined)) =
                (number(left), number(right), number(&format!("{left}{right}")))
            else {
                return Err(format!("its merge `{left} {right}` has a token that is not in the vocabulary"));
            };
            merges.entry((first, second)).or_insert((rank as u32, joined));
        }
        let mut special: Vec<(String, u32)> = added_tokens
            .into_iter()
            .filter(|token| !token.content.is_empty())
            .map(|token| (token.content, token.id))
            .collect();
        special.sort_by_key(|(content, _)| std::cmp::Reverse(content.len()));
        let whole = model.ignore_merges.then_some(numbers);
        Ok(Self { json: json.to_owned(), tokens, bytes, merges, whole, special, splitters, prefix_space })
    }

    /// Returns the file that the tokenizer was parsed from.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns whether there are no tokens. That is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the token that ends a text, if there is one.
    #[must_use]
    pub fn end_of_text(&self) -> Option<u32> {
        ENDS.iter().find_map(|end| self.special.iter().find(|(content, _)| content == end)).map(|(_, token)| *token)
    }

    /// Returns the tokens of a text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut encoder = TokenEncoder::new(self);
        let mut tokens = Vec::new();
        encoder.encode(text, &mut tokens);
        tokens
    }

    /// Returns the text of tokens. Bytes that are no UTF-8 become replacement characters.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().filter_map(|token| self.tokens.get(*token as usize)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Digest of the tokenizer.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest(mix64(self.tokens.len() as u64), self.json.bytes().map(u64::from))
    }
}

/// Encoder with a memory of the pieces that it has seen.
#[derive(Debug)]
pub(super) struct TokenEncoder<'a> {
    tokenizer: &'a TextTokenizer,
    known: BTreeMap<String, Vec<u32>>,
}

/// Number of pieces that an encoder remembers.
const KNOWN_PIECES: usize = 1 << 18;

impl<'a> TokenEncoder<'a> {
    pub(super) fn new(tokenizer: &'a TextTokenizer) -> Self {
        Self { tokenizer, known: BTreeMap::new() }
    }

    /// Adds the tokens of a text.
    pub(super) fn encode(&mut self, text: &str, tokens: &mut Vec<u32>) {
        let special = &self.tokenizer.special;
        let mut rest = text;
        loop {
            let found =
                special.iter().filter_map(|(content, token)| Some((rest.find(content)?, content.len(), *token)));
            // The first one, and the longest of those that begin there.
            let Some((at, length, token)) = found.min_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length)))
            else {
                self.encode_plain(rest, tokens);
                return;
            };
            self.encode_plain(&rest[..at], tokens);
            tokens.push(token);
            rest = &rest[at + length..];
        }
    }

    /// Adds the tokens of a text without special tokens.
    fn encode_plain(&mut self, text: &str, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let spaced;
        let text = if self.tokenizer.prefix_space && !text.starts_with(char::is_whitespace) {
            spaced = format!(" {text}");
            &spaced
        } else {
            text
        };
        let mut pieces = vec![text];
        for splitter in &self.tokenizer.splitters {
            pieces = pieces.into_iter().flat_map(|piece| splitter.split(piece)).collect();
        }
        for piece in pieces {
            if let Some(known) = self.known.get(piece) {
                tokens.extend(known);
                continue;
            }
            let found = self.tokenizer.merged(piece.as_bytes());
            tokens.extend(&found);
            if self.known.len() < KNOWN_PIECES {
                self.known.insert(piece.to_owned(), found);
            }
        }
    }
}

impl TextTokenizer {
    /// Merges the bytes of a piece.
    fn merged(&self, piece: &[u8]) -> Vec<u32> {
        if let Some(token) = self.whole.as_ref().and_then(|whole| whole.get(piece)) {
            return vec![*token];
        }
        let mut tokens: Vec<u32> = piece.iter().map(|byte| self.bytes[usize::from(*byte)]).collect();
        loop {
            let pairs = tokens.windows(2).enumerate();
            let ranked = pairs.filter_map(|(at, pair)| Some((self.merges.get(&(pair[0], pair[1]))?, at)));
            let Some(((_, joined), at)) = ranked.min_by_key(|((rank, _), at)| (*rank, *at)) else { return tokens };
            tokens[at] = *joined;
            tokens.remove(at + 1);
        }
    }
}

/// Pattern that divides a text into pieces.
#[derive(Clone, Debug)]
struct Splitter {
    /// Pattern whose last alternative, in group `spaces`, is white space.
    pattern: Regex,
}

impl Splitter {
    /// Compiles a pattern that ends with [`SPACES`].
    fn new(pattern: &str) -> Result<Self, String> {
        let unsupported = || format!("its pattern `{pattern}` is not supported");
        let words = pattern.strip_suffix(SPACES).ok_or_else(unsupported)?;
        let pattern = Regex::new(&format!(r"{words}|(?P<spaces>\s+)")).map_err(|_| unsupported())?;
        Ok(Self { pattern })
    }

    /// Divides a text. Characters that no alternative matches are pieces, too.
    fn split<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(found) = self.pattern.captures_at(text, at) {
            let Some(whole) = found.get(0) else { break };
            let (start, mut end) = (whole.start(), whole.end());
            if found.name("spaces").is_some() && end < text.len() {
                // White space before a word leaves its last character to the word, unless it is the only one.
                let last = text[start..end].char_indices().next_back().map_or(start, |(last, _)| start + last);
                end = if last > start { last } else { end };
            }
            if start > at {
                pieces.push(&text[at..start]);
            }
            pieces.push(&text[start..end]);
            at = end;
        }
        if at < text.len() {
            pieces.push(&text[at..]);
        }
        pieces
    }
}

/// Division of a text before tokens are merged.
struct Layout {
    splitters: Vec<Splitter>,
    prefix_space: bool,
}

/// Reads the pre-tokenizer: `ByteLevel`, or a sequence of `Split` and `ByteLevel`.
fn layout(pre_tokenizer: Option<&Value>) -> Result<Layout, String> {
    let missing = || "it has no byte-level pre-tokenizer, so it is not byte-level BPE".to_owned();
    let pre_tokenizer = pre_tokenizer.filter(|value| !value.is_null()).ok_or_else(missing)?;
    let parts = match (kind_of(pre_tokenizer), pre_tokenizer["pretokenizers"].as_array()) {
        ("Sequence", Some(parts)) => parts.clone(),
        _ => vec![pre_tokenizer.clone()],
    };
    let (mut layout, mut is_byte_level) = (Layout { splitters: Vec::new(), prefix_space: false }, false);
    for part in &parts {
        match kind_of(part) {
            "ByteLevel" => {
                is_byte_level = true;
                layout.prefix_space = part["add_prefix_space"].as_bool().unwrap_or(true);
                if part["use_regex"].as_bool().unwrap_or(true) {
                    layout.splitters.push(Splitter::new(GPT2)?);
                }
            }
            "Split" if part["invert"].as_bool() != Some(true) && part["behavior"] == "Isolated" => {
                let pattern = part["pattern"]["Regex"].as_str().ok_or("its pattern is no regular expression")?;
                layout.splitters.push(Splitter::new(pattern)?);
            }
            other => return Err(format!("its pre-tokenizer `{other}` is not supported")),
        }
    }
    if is_byte_level { Ok(layout) } else { Err(missing()) }
}

fn kind_of(value: &Value) -> &str {
    value["type"].as_str().unwrap_or("none")
}

/// Bytes by the letter that stands for them in files: printable ones for themselves, others from
/// `Ā` on.
fn alphabet() -> BTreeMap<char, u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others = (0x100..).filter_map(char::from_u32);
    (0..=255)
        .filter_map(|byte| {
            let letter = if is_printable(byte) { char::from(byte) } else { others.next()? };
            Some((letter, byte))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A tokenizer of bytes, some merges and an end of text, as GPT-2 has it.
    pub(crate) fn small() -> Value {
        let mut vocabulary: Vec<String> = alphabet().into_keys().map(String::from).collect();
        let merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "Ġ Ġ", "1 2"];
        vocabulary.extend(merges.iter().map(|merge| merge.replace(' ', "")));
        let vocab: serde_json::Map<String, Value> =
            vocabulary.iter().enumerate().map(|(number, token)| (token.clone(), number.into())).collect();
        json!({
            "added_tokens": [{ "id": vocabulary.len(), "content": "<|endoftext|>", "special": true }],
            "normalizer": null,
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "use_regex": true },
            "model": { "type": "BPE", "vocab": vocab, "merges": merges }
        })
    }

    fn parsed(json: &Value) -> TextTokenizer {
        TextTokenizer::parse(&json.to_string()).unwrap()
    }

    fn pieces(tokenizer: &TextTokenizer, text: &str) -> Vec<String> {
        tokenizer.encode(text).iter().map(|token| tokenizer.decode(&[*token])).collect()
    }

    #[test]
    fn pairs_are_merged_by_their_rank_within_pieces() {
        let tokenizer = parsed(&small());
        assert_eq!(pieces(&tokenizer, "hello world"), ["hello", " wo", "r", "l", "d"]);
        // `hel` has no merge of `he` and `l`; the apostrophe divides pieces.
        assert_eq!(pieces(&tokenizer, "hel'll"), ["he", "l", "'", "ll"]);
        assert_eq!(pieces(&tokenizer, "a   1212"), ["a", "  ", " ", "12", "12"]);
        assert_eq!(pieces(&tokenizer, "o<|endoftext|>12"), ["o", "<|endoftext|>", "12"]);
        assert_eq!((tokenizer.end_of_text(), tokenizer.len()), (Some(264), 265));
    }

    #[test]
    fn any_text_decodes_to_itself() {
        let tokenizer = parsed(&small());
        for text in ["", " ", "\n\n a\t b \n", "naïve — 数 🎵", "x  \r\n  y", "hello<|endoftext|> hello"] {
            assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
        }
    }

    #[test]
    fn white_space_is_divided_as_by_the_look_ahead() {
        let splitter = Splitter::new(GPT2).unwrap();
        assert_eq!(splitter.split("a   b"), ["a", "  ", " b"]);
        assert_eq!(splitter.split("a b  "), ["a", " b", "  "]);
        assert_eq!(splitter.split("a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(splitter.split("it's 12 o'clock!?"), ["it", "'s", " 12", " o", "'", "clock", "!?"]);
        let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let splitter = Splitter::new(llama).unwrap();
        assert_eq!(splitter.split("a  \n b 12345"), ["a", "  \n", " b", " ", "123", "45"]);
    }

    #[test]
    fn files_of_llama_have_a_pattern_and_whole_tokens() {
        let mut file = small();
        file["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": r"\p{N}{1,3}| ?\p{L}+|\s+(?!\S)|\s+" }, "behavior": "Isolated", "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "use_regex": false }
        ] });
        file["model"]["merges"] = json!([["h", "e"]]);
        file["model"]["ignore_merges"] = json!(true);
        let tokenizer = parsed(&file);
        assert_eq!(
            pieces(&tokenizer, "hello hello 1234"),
            ["hello", " ", "he", "l", "l", "o", " ", "1", "2", "3", "4"]
        );
    }

    #[test]
    fn other_tokenizers_are_refused_by_name() {
        let refused = |path: &str, value: Value| {
            let mut file = small();
            *file.pointer_mut(path).unwrap() = value;
            TextTokenizer::parse(&file.to_string()).unwrap_err()
        };
        assert!(refused("/model/type", json!("Unigram")).contains("`Unigram`"));
        assert!(refused("/normalizer", json!({ "type": "Lowercase" })).contains("`Lowercase`"));
        assert!(refused("/pre_tokenizer", json!({ "type": "Metaspace" })).contains("`Metaspace`"));
        assert!(refused("/pre_tokenizer", Value::Null).contains("not byte-level"));
        assert!(refused("/model/merges", json!(["h x"])).contains("`h x`"));
        let told = refused("/model/vocab", json!({ "a": 0 }));
        assert!(told.contains("numbers up to") || told.contains("no token for some byte"), "{told}");
        assert!(TextTokenizer::parse("{}").unwrap_err().contains("no `tokenizer.json`"));
    }
}
