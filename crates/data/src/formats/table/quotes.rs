//! Where quotes open and close in csv.

/// The quotes in the bytes of a file, as its reader takes them.
///
/// A quote opens at the start of a field alone, and closes at the next quote that is not doubled. After it the reader allows
/// text in the same field. Where such a field has several lines, the quote that closes it is rather one that opens another
/// field: none of the two is closed, and the rows between them would be lost.
pub(super) struct Quotes {
    separator: u8,
    place: Place,
    /// The line of the next byte.
    line: u64,
    /// The line of the last quote that opens a field.
    opened: u64,
}

/// What comes before a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing of its field.
    Start,
    /// Text without quotes around it.
    Text,
    /// A quote that is open.
    Quoted,
    /// A quote that closes the field, unless it is doubled.
    Closed,
    /// Blanks behind a quote that closes the field.
    Blanks,
}

impl Quotes {
    pub(super) fn new(separator: u8) -> Self {
        Self { separator, place: Place::Start, line: 1, opened: 1 }
    }

    /// Follows bytes of the file. Returns the line of the first quote that they show not to be closed.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Option<u64> {
        let is_plain = matches!(self.place, Place::Start | Place::Text) && !bytes.contains(&b'"');
        if let (true, Some(last)) = (is_plain, bytes.last()) {
            self.line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.place = if self.is_end(*last) { Place::Start } else { Place::Text };
            return None;
        }

        let mut unclosed = None;
        for &byte in bytes {
            self.place = match (self.place, byte) {
                (Place::Start, b'"') => {
                    self.opened = self.line;
                    Place::Quoted
                }
                (Place::Quoted, b'"') => Place::Closed,
                (Place::Quoted, _) | (Place::Closed, b'"') => Place::Quoted,
                (_, byte) if self.is_end(byte) => Place::Start,
                (Place::Closed | Place::Blanks, byte) if byte.is_ascii_whitespace() => {
                    Place::Blanks
                }
                (Place::Closed | Place::Blanks, _) if self.opened < self.line => {
                    unclosed = unclosed.or(Some(self.opened));
                    Place::Text
                }
                _ => Place::Text,
            };
            self.line += u64::from(byte == b'\n');
        }
        unclosed
    }

    /// The line of the quote that is open.
    pub(super) fn open(&self) -> Option<u64> {
        (self.place == Place::Quoted).then_some(self.opened)
    }

    /// Whether a byte outside of quotes ends a field.
    fn is_end(&self, byte: u8) -> bool {
        byte == self.separator || byte == b'\n'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first quote that is not closed by what follows it, and the one that is open at the end, however the text is cut.
    #[track_caller]
    fn check(text: &str, unclosed: Option<u64>, open: Option<u64>) {
        for length in 1..=text.len() {
            let mut quotes = Quotes::new(b',');
            let pieces = text.as_bytes().chunks(length);
            let found: Vec<u64> = pieces.filter_map(|piece| quotes.follow(piece)).collect();
            let found = (found.first().copied(), quotes.open());
            assert_eq!(found, (unclosed, open), "{text:?} in pieces of {length}");
        }
    }

    #[test]
    fn quotes_that_are_closed_may_have_line_feeds_and_quotes_between_them() {
        check("a,b\n1,2\n", None, None);
        check("a,\"b\nc\",d\n\"e\n\"\n", None, None);
        check("\"a \"\"quoted\"\"\n, text\"\r\n\"\",\"\"\"\"\n", None, None);
        check("\"a\nb\" \t,c\n", None, None);
        // A quote within a field is text, and so is what follows quotes in the same line.
        check("12\",1\" x\n\"a\" b,c\n", None, None);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_known_by_its_line() {
        check("a\nb,\"12 inch\nc,d\n", None, Some(2));
        check("\"", None, Some(1));
        check("a\nb,\"12 inch\nc,d\ne,\"14 inch\nf\n", Some(2), None);
        check("\"12 inch\n\" 14\n\"15\n\"\"\"", Some(1), None);
    }
}
