//! Splits a byte stream into lines.
//!
//! **Invariant:** at most [`LIMIT`] bytes and one chunk are buffered, however long a line is: a
//! longer line is split into pieces. Bytes are not interpreted otherwise, so any encoding passes.

/// Length above which a line is split into pieces.
pub(super) const LIMIT: usize = 64 * 1024;

/// Line splitter of one stream.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    /// Start of a line whose end has not arrived yet.
    partial: Vec<u8>,
    /// True if a piece of the current line has been emitted, so that its end is not an empty line.
    in_pieces: bool,
}

impl LineSplitter {
    /// Adds the next bytes, and passes each line that ends in them, without its newline, to `emit`.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8])) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..at], &bytes[at + 1..]);
            if self.partial.is_empty() {
                if !(self.in_pieces && line.is_empty()) {
                    emit(line);
                }
            } else {
                self.partial.extend_from_slice(line);
                emit(&self.partial);
                self.partial.clear();
            }
            self.in_pieces = false;
            bytes = rest;
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() >= LIMIT {
            emit(&self.partial);
            self.partial.clear();
            self.in_pieces = true;
        }
    }

    /// Emits a last line without a newline at the end of the stream.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if !self.partial.is_empty() {
            emit(&self.partial);
            self.partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = LineSplitter::default();
        let mut found = Vec::new();
        let mut emit = |line: &[u8]| found.push(line.to_vec());
        for chunk in chunks {
            lines.push(chunk, &mut emit);
        }
        lines.finish(&mut emit);
        found
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_are_cut() {
        let text = b"one\n\ntwo three\n\xff\xfe\nlast";
        let whole = cut(&[text]);
        assert_eq!(whole, [&b"one"[..], b"", b"two three", b"\xff\xfe", b"last"]);
        for at in 0..text.len() {
            assert_eq!(cut(&[&text[..at], &text[at..]]), whole, "cut at {at}");
        }
    }

    #[test]
    fn a_long_line_comes_in_bounded_pieces_without_loss() {
        let chunk = [b'x'; 1000];
        let mut chunks: Vec<&[u8]> = vec![&chunk; 200];
        chunks.push(b"\nnext\n");
        let found = cut(&chunks);
        assert!(found.iter().all(|piece| piece.len() <= LIMIT + chunk.len()));
        assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 200 * chunk.len() + 4);
        assert_eq!(found.last().unwrap(), b"next");
    }

    #[test]
    fn the_end_of_a_line_in_pieces_is_no_line() {
        let long = vec![b'x'; LIMIT];
        assert_eq!(cut(&[&long, b"\n\nnext\n"]), [&long[..], b"", b"next"]);
    }
}
