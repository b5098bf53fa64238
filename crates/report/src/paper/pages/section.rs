//! The parts of a page: chapters of sections, each with text, pictures and a table.

use serde::Serialize;

use crate::page::{BlockedBar, CauseKey, Picture, Table};

#[derive(Serialize)]
pub(super) struct Chapter {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
}

#[derive(Default, Serialize)]
pub(super) struct Section {
    pub(super) heading: String,
    /// Paragraphs.
    pub(super) text: Vec<String>,
    pub(super) pictures: Vec<Picture>,
    pub(super) table: Option<Table>,
    pub(super) unfold: Option<Unfold>,
}

/// A part that is closed at first.
#[derive(Default, Serialize)]
pub(super) struct Unfold {
    pub(super) summary: String,
    pub(super) pictures: Vec<Picture>,
    pub(super) table: Option<Table>,
    pub(super) blocked: Vec<BlockedGroup>,
    pub(super) causes: Vec<CauseKey>,
}

/// Bars of held-back time that share a scale.
#[derive(Serialize)]
pub(super) struct BlockedGroup {
    pub(super) title: String,
    pub(super) bars: Vec<BlockedBar>,
}

impl Section {
    pub(super) fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// A section that says that there is nothing to show.
    pub(super) fn empty(heading: &str, why: &str) -> Self {
        Self { heading: heading.into(), text: vec![why.into()], ..Self::default() }
    }

    /// Adds a paragraph.
    pub(super) fn say(mut self, paragraph: impl Into<String>) -> Self {
        self.text.push(paragraph.into());
        self
    }

    /// Adds a picture.
    pub(super) fn draw(mut self, picture: Picture) -> Self {
        self.pictures.push(picture);
        self
    }

    /// Sets the table.
    pub(super) fn lay_out(self, table: Table) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Sets the part that is closed at first.
    pub(super) fn unfold(self, unfold: Unfold) -> Self {
        Self { unfold: Some(unfold), ..self }
    }
}
