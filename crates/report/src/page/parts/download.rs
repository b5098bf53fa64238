//! Links that save a picture or its figures. The file is inside the link, so that a page needs no network. A script of the
//! page makes a PNG of the picture; without it the links are there.

use serde::Serialize;

/// A link to a file that the page holds.
#[derive(Serialize)]
pub(super) struct Download {
    label: &'static str,
    /// The name under which it is saved.
    name: String,
    href: String,
}

impl Download {
    /// A picture that stands alone.
    pub(super) fn svg(heading: &str, picture: &str) -> Self {
        Self::new("SVG", heading, "svg", "image/svg+xml", picture)
    }

    /// The figures of a picture.
    pub(super) fn csv(heading: &str, figures: &str) -> Self {
        Self::new("CSV", heading, "csv", "text/csv", figures)
    }

    fn new(label: &'static str, heading: &str, ending: &str, media: &str, text: &str) -> Self {
        let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        let name = format!("{}.{ending}", words.join("-"));
        Self { label, name, href: format!("data:{media};charset=utf-8,{}", encoded(text)) }
    }
}

/// Text as a part of a URL: everything but letters, digits and a few signs as `%` and two digits.
fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._:;,=()".contains(&byte) => {
                url.push(char::from(byte));
            }
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                url.push('%');
                url.push(char::from(DIGITS[usize::from(byte >> 4)]));
                url.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_its_file() {
        let link = Download::csv("Held-out RMSE, over time", "a,\"é\"\n");
        assert_eq!(link.name, "held-out-rmse-over-time.csv");
        assert_eq!(link.href, "data:text/csv;charset=utf-8,a,%22%C3%A9%22%0A");
    }
}
