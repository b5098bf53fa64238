//! A table for the templates: headings over columns, rows in groups, every cell as text.

use serde::Serialize;

/// Rows in groups under one line of headings, or two.
#[derive(Default, Serialize)]
pub(crate) struct Table {
    /// For screen readers.
    label: String,
    /// The upper line of headings, which span columns; empty for none.
    over: Vec<Over>,
    heads: Vec<Head>,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct Over {
    text: String,
    span: usize,
}

#[derive(Serialize)]
struct Head {
    text: String,
    numeric: bool,
    /// Whether an upper heading begins at this column.
    leads: bool,
}

#[derive(Serialize)]
struct Group {
    title: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    class: &'static str,
    cells: Vec<Cell>,
}

/// One cell.
#[derive(Default, Serialize)]
pub(crate) struct Cell {
    text: String,
    /// The class of a colour before the text; empty for none.
    dot: String,
    /// Whether this figure misses its target.
    miss: bool,
    /// A bar beside the text: percent of its longest.
    bar: Option<String>,
    /// A quieter line below the text; empty for none.
    below: String,
}

impl Table {
    /// A table without rows. A heading that begins with `#` is that of a column of figures.
    pub(crate) fn new(label: impl Into<String>, heads: &[&str]) -> Self {
        let head = |text: &&str| match text.strip_prefix('#') {
            Some(text) => Head { text: text.into(), numeric: true, leads: false },
            None => Head { text: (*text).into(), numeric: false, leads: false },
        };
        Self {
            label: label.into(),
            over: Vec::new(),
            heads: heads.iter().map(head).collect(),
            groups: Vec::new(),
        }
    }

    /// Adds the upper line of headings, each with the number of columns that it spans.
    ///
    /// # Panics
    /// Where they do not span all columns.
    pub(crate) fn over(mut self, over: &[(&str, usize)]) -> Self {
        let columns: usize = over.iter().map(|(_, span)| span).sum();
        assert_eq!(columns, self.heads.len(), "every column has something over it");
        let mut column = 0;
        for (_, span) in over {
            self.heads[column].leads = column > 0;
            column += span;
        }
        self.over =
            over.iter().map(|(text, span)| Over { text: (*text).into(), span: *span }).collect();
        self
    }

    /// Begins a group of rows. An empty title is not shown.
    pub(crate) fn group(&mut self, title: impl Into<String>) {
        self.groups.push(Group { title: title.into(), rows: Vec::new() });
    }

    /// Adds a row to the last group.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.classed_row("", cells);
    }

    /// Adds a highlighted row.
    pub(crate) fn own_row(&mut self, cells: Vec<Cell>) {
        self.classed_row("own", cells);
    }

    /// Adds a row of the sums of the rows above it.
    pub(crate) fn sum_row(&mut self, cells: Vec<Cell>) {
        self.classed_row("sums", cells);
    }

    fn classed_row(&mut self, class: &'static str, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.heads.len(), "a row has a cell for each heading");
        if self.groups.is_empty() {
            self.group("");
        }
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(Row { class, cells });
        }
    }
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn dot(self, colour: usize) -> Self {
        Self { dot: format!("gc-{colour}"), ..self }
    }

    pub(crate) fn miss_if(self, miss: bool) -> Self {
        Self { miss, ..self }
    }

    /// A quieter line below the text, such as a range: `2.90× to 3.42×` breaks before `to` alone.
    pub(crate) fn below(self, text: &str) -> Self {
        let parts: Vec<String> =
            text.split(" to ").map(|part| part.replace(' ', "\u{a0}")).collect();
        Self { below: parts.join(" to\u{a0}"), ..self }
    }

    /// A bar beside the figure, `share` of the longest.
    pub(crate) fn bar(self, share: f64) -> Self {
        let percent = if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 };
        Self { bar: Some(format!("{percent:.1}")), ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
