//! Which rows of the model a script holds, which of them it reads, and what it has changed of them.
//!
//! A script's buffer has the values of the rows that it holds, table after table: usually of all rows. Before an iteration
//! those that were read are written into it. A row that is held and not read stays what it was, and may not change.
//!
//! Of sparse tables, which come after all others, a script holds the rows in hand: those of its latest read, in a buffer that
//! it has made for them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::numbers;
use gaia::{
    Deltas, Model, ModelLayout, RowSet, SharedValues, TableDeltas, TableId, TableRows,
    TensorSpec as Tensor,
};

/// The rows that an iteration needs of some tables. Of others it needs all, and of sparse ones none.
#[derive(Clone, Default)]
pub(crate) struct NamedRows {
    tables: Arc<[Option<Rows>]>,
    /// By table, of sparse ones.
    hands: Arc<BTreeMap<usize, Hand>>,
}

/// Rows of a sparse table, and the script's buffer for their values.
pub(crate) struct Hand {
    pub(crate) rows: Rows,
    pub(crate) values: PyBuffer<f32>,
}

/// The rows of a tensor that a script names, in any order, and of a sparse table the buffer for their values.
pub(crate) struct Named {
    pub(crate) tensor: usize,
    pub(crate) rows: Vec<i64>,
    pub(crate) values: Option<PyBuffer<f32>>,
}

/// Strictly ascending numbers of rows.
pub(crate) type Rows = Arc<[u32]>;

/// The rows of each table that a script holds.
pub(crate) struct Parts(Vec<Part>);

/// The part of a change of a script that is a change of the model.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) weights: f32,
    pub(crate) statistics: f32,
}

/// The rows of one table that a script holds, and where their values lie.
struct Part {
    rows: Range<usize>,
    is_whole: bool,
    is_statistics: bool,
    /// Whether changes are sent.
    sends: bool,
    width: usize,
    in_model: usize,
    in_buffer: usize,
}

/// A number in memory that only this process writes, or that a script may write too.
pub(crate) trait Value {
    fn value(&self) -> f32;
}

impl Value for f32 {
    fn value(&self) -> f32 {
        *self
    }
}

impl Value for Cell<f32> {
    fn value(&self) -> f32 {
        self.get()
    }
}

/// What an iteration began with and ended with.
pub(crate) struct Iteration<'run> {
    /// The model that was read.
    pub(crate) model: &'run [f32],
    /// The rows that were read.
    pub(crate) read: &'run NamedRows,
    /// The values of the script's buffer when the iteration began, as the script has rounded them.
    pub(crate) rounded: Option<&'run [f32]>,
    /// What the script has held when the iteration began.
    pub(crate) held: &'run [f32],
    /// What it holds after the iteration.
    pub(crate) after: &'run [f32],
    /// The statistics that it has kept, if their changes count from these.
    pub(crate) statistics: Option<&'run [f32]>,
}

/// What the changes of a whole model count from.
#[derive(Clone, Copy)]
pub(crate) struct Before<'run, B> {
    pub(crate) values: &'run [B],
    /// The statistics that the script has kept, if their changes count from these.
    pub(crate) statistics: Option<&'run [f32]>,
}

impl<'run, B> Before<'run, B> {
    /// A model alone.
    pub(crate) fn model(values: &'run [B]) -> Self {
        Self { values, statistics: None }
    }
}

impl NamedRows {
    /// Rows of tensors. `sharded`: as of [`Tensor::table`]. `held`: of each tensor, the rows of its first dimension that the
    /// script holds, where it does not hold all. Others are those of other workers.
    ///
    /// # Errors
    /// The first row that its tensor does not have, or that the buffer of a sparse table has not as many values as its rows.
    pub(crate) fn new(
        tensors: &[Tensor],
        sharded: bool,
        held: Option<&[Range<usize>]>,
        named: Vec<Named>,
    ) -> Result<Self, String> {
        let (mut tables, mut hands) = (vec![None; tensors.len()], BTreeMap::new());
        for Named { tensor: at, rows, values } in named {
            let tensor = tensors.get(at).ok_or_else(|| format!("there is no tensor {at}"))?;
            let mut rows = rows_of(tensor, sharded, rows)?;
            if let Some(held) = held.filter(|_| !tensor.is_statistics) {
                rows.retain(|row| held[at].contains(&(*row as usize)));
            }
            rows.sort_unstable();
            rows.dedup();
            let rows = Rows::from(rows);
            match (tensor.sparse, values) {
                (None, None) => tables[at] = Some(rows),
                (Some(_), Some(values)) => {
                    hands.insert(at, Hand::new(tensor, rows, values)?);
                }
                (sparse, _) => {
                    let (found, expected) =
                        if sparse.is_some() { ("no", "a") } else { ("a", "no") };
                    return Err(format!(
                        "{}: {found} buffer of rows, expected {expected} one",
                        tensor.name
                    ));
                }
            }
        }
        Ok(Self { tables: tables.into(), hands: hands.into() })
    }

    /// The rows in hand of sparse tables, by table.
    pub(crate) fn hands(&self) -> impl Iterator<Item = (TableId, &Hand)> {
        self.hands.iter().map(|(at, hand)| (TableId(*at as u16), hand))
    }

    fn of(&self, table: usize) -> Option<&Rows> {
        self.tables.get(table)?.as_ref()
    }

    fn names_some(&self) -> bool {
        self.tables.iter().any(Option::is_some)
    }
}

impl Hand {
    /// Rows of a sparse table, and as many values.
    ///
    /// # Errors
    /// The number of values, if it is another one.
    pub(crate) fn new(tensor: &Tensor, rows: Rows, values: PyBuffer<f32>) -> Result<Self, String> {
        let expected = rows.len() * tensor.len_of(&(0..1));
        match values.item_count() {
            found if found == expected => Ok(Self { rows, values }),
            found => {
                Err(format!("{}: found {found} values of rows, expected {expected}", tensor.name))
            }
        }
    }

    /// Writes the rows of a model that has them into the buffer.
    pub(crate) fn write(&self, py: Python<'_>, table: TableId, model: &Model) -> PyResult<()> {
        let rows = self.rows.iter().flat_map(|row| model.row(table, *row as usize));
        self.values.copy_from_slice(py, &rows.copied().collect::<Vec<f32>>())
    }

    /// `share` of the change of each row that has changed since it was read into the buffer.
    fn changes(
        &self,
        py: Python<'_>,
        table: TableId,
        model: &Model,
        share: f32,
    ) -> Result<TableDeltas, String> {
        let after = numbers(py, &self.values).ok_or(NOT_CONTIGUOUS)?;
        let width = model.layout().table(table).width;
        let rows = self.rows.iter().copied();
        Ok(changed_rows(rows, model.table(table), after, width, share, Vec::new()))
    }
}

impl Parts {
    /// Those of a script that holds these indexes of the first dimension of each tensor. `None`: all.
    pub(crate) fn new(
        layout: &ModelLayout,
        held: Option<&[Range<usize>]>,
        sends_statistics: bool,
    ) -> Self {
        let mut in_buffer = 0;
        let is_dense = |table: &TableId| layout.sparse(*table).is_none();
        let part = |(at, table): (usize, TableId)| {
            let layout_of_table = layout.table(table);
            let (count, width) = (layout_of_table.rows, layout_of_table.width);
            let is_statistics = layout.is_statistics(table);
            let held = held.map(|held| held[at].clone()).filter(|_| !is_statistics);
            let rows = held.unwrap_or(0..count);
            let part = Part {
                is_whole: rows == (0..count),
                is_statistics,
                sends: sends_statistics || !is_statistics,
                width,
                in_model: layout.row_offset(table, rows.start),
                in_buffer,
                rows,
            };
            in_buffer += part.len();
            part
        };
        Self(layout.table_ids().filter(is_dense).enumerate().map(part).collect())
    }

    /// The number of values that the script holds.
    pub(crate) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| last.in_buffer + last.len())
    }

    /// Where the script's buffer has the statistics whose changes it sends: after all weights.
    pub(crate) fn sent_statistics(&self) -> Range<usize> {
        let mut sent = self.0.iter().filter(|part| part.is_statistics && part.sends);
        sent.next().map_or(0..0, |first| first.in_buffer..self.len())
    }

    /// The rows that an iteration reads of a model with so many tables.
    pub(crate) fn rows(&self, named: &NamedRows, tables: usize) -> RowSet {
        let sparse = (self.0.len()..tables).map(|at| {
            let hand = named.hands.get(&at);
            hand.map_or_else(TableRows::none, |hand| TableRows::Listed(hand.rows.clone()))
        });
        let tables = self.0.iter().enumerate().map(|(at, part)| match named.of(at) {
            Some(rows) => TableRows::Listed(rows.clone()),
            None if part.is_whole => TableRows::All,
            None => TableRows::listed(part.rows.clone().map(|row| row as u32).collect()),
        });
        RowSet { tables: tables.chain(sparse).collect() }
    }

    /// What the script holds of a complete model.
    pub(crate) fn of(&self, model: &[f32]) -> Vec<f32> {
        let parts = self.0.iter().flat_map(|part| &model[part.all_in_model()]);
        parts.copied().collect()
    }

    /// Puts what was read of a model into what the script holds.
    pub(crate) fn update(&self, held: &mut [f32], model: &[f32], read: &NamedRows) {
        for (at, part) in self.0.iter().enumerate() {
            let Some(rows) = read.of(at) else {
                held[part.all_in_buffer()].copy_from_slice(&model[part.all_in_model()]);
                continue;
            };
            for row in rows.iter() {
                held[part.in_buffer(*row)].copy_from_slice(&model[part.in_model(*row)]);
            }
        }
    }

    /// The share of each table that is not sparse.
    pub(crate) fn all_shares(&self, shares: Shares) -> impl Iterator<Item = f32> {
        self.0.iter().map(move |part| part.share(shares))
    }

    /// The share of the change of each row that has changed in an iteration.
    ///
    /// # Errors
    /// The first row that has changed and was not read.
    pub(crate) fn changes(
        &self,
        iteration: &Iteration<'_>,
        shares: Shares,
        tensors: &[Tensor],
    ) -> Result<Deltas, String> {
        let after = iteration.after;
        let of_part = |(at, part): (usize, &Part)| {
            if !part.sends {
                return Ok(TableDeltas::none());
            }
            let Some(rows) = iteration.read.of(at) else {
                let all = part.all_in_buffer();
                let read = || match iteration.rounded {
                    Some(rounded) => &rounded[all.clone()],
                    None => &iteration.model[part.all_in_model()],
                };
                let before = self.kept(part, iteration.statistics).unwrap_or_else(read);
                let rows = part.rows.clone().map(|row| row as u32);
                let (width, share) = (part.width, part.share(shares));
                return Ok(changed_rows(
                    rows,
                    before,
                    &after[all.clone()],
                    width,
                    share,
                    Vec::new(),
                ));
            };

            let held = iteration.rounded.unwrap_or(iteration.held);
            if let Some(row) = part.unread_that_changed(rows, held, after) {
                return Err(changed_unread(&tensors[at], row, part.width));
            }
            let listed = |values: &[f32]| -> Vec<f32> {
                let rows = rows.iter().flat_map(|row| &values[part.in_buffer(*row)]);
                rows.copied().collect()
            };
            let (before, after) = (listed(held), listed(after));
            let (width, share) = (part.width, part.share(shares));
            Ok(changed_rows(rows.iter().copied(), &before, &after, width, share, Vec::new()))
        };
        let tables = self.0.iter().enumerate().map(of_part).collect::<Result<_, String>>()?;
        Ok(Deltas { tables })
    }

    /// The share of the change of each row of a whole model that has changed: from `before` to what the script's buffer holds
    /// `after`. `spare` has the memory of earlier changes by table, which is used again once nobody else holds it.
    pub(crate) fn changes_of_whole<B: Value>(
        &self,
        before: Before<'_, B>,
        after: &[Cell<f32>],
        shares: Shares,
        spare: &mut Vec<SharedValues>,
    ) -> Deltas {
        spare.resize_with(self.0.len(), SharedValues::default);
        let of_part = |(part, spare): (&Part, &mut SharedValues)| {
            if !part.sends {
                return TableDeltas::none();
            }
            let kept = self.kept(part, before.statistics);
            let (before, after) =
                (&before.values[part.all_in_model()], &after[part.all_in_buffer()]);
            let rows = part.rows.clone().map(|row| row as u32);
            let memory = spare.reclaim().unwrap_or_default();

            let share = part.share(shares);
            let mut changed = match kept {
                Some(kept) => changed_rows(rows, kept, after, part.width, share, memory),
                None => changed_rows(rows, before, after, part.width, share, memory),
            };
            if changed.rows.len(part.rows.len()) == part.rows.len() {
                changed.rows = TableRows::All;
            }
            spare.clone_from(&changed.values);
            changed
        };
        Deltas { tables: self.0.iter().zip(spare).map(of_part).collect() }
    }

    /// Adds the changes of rows in hand to those of the other tables of the model that was read.
    ///
    /// # Errors
    /// That a buffer is not contiguous.
    pub(crate) fn add_changes_in_hand(
        &self,
        py: Python<'_>,
        deltas: &mut Deltas,
        (model, read): (&Model, &NamedRows),
        shares: Shares,
    ) -> Result<(), String> {
        deltas.tables.resize(model.layout().tables().len(), TableDeltas::none());
        for (table, hand) in read.hands() {
            deltas.tables[table.index()] = hand.changes(py, table, model, shares.weights)?;
        }
        Ok(())
    }

    /// The values of a part among the statistics that the script has kept.
    fn kept<'kept>(&self, part: &Part, statistics: Option<&'kept [f32]>) -> Option<&'kept [f32]> {
        let first = self.sent_statistics().start;
        let kept = statistics.filter(|_| part.is_statistics)?;
        Some(&kept[part.in_buffer - first..part.end() - first])
    }

    /// Whether every row of the tables that are not sparse is held, and all were read.
    pub(crate) fn are_whole(&self, read: &NamedRows) -> bool {
        self.0.iter().all(|part| part.is_whole) && !read.names_some()
    }
}

impl Part {
    /// The share of its changes that are changes of the model.
    fn share(&self, shares: Shares) -> f32 {
        if self.is_statistics { shares.statistics } else { shares.weights }
    }

    fn len(&self) -> usize {
        self.rows.len() * self.width
    }

    /// Where the part ends in the script's buffer.
    fn end(&self) -> usize {
        self.in_buffer + self.len()
    }

    fn all_in_model(&self) -> Range<usize> {
        self.in_model..self.in_model + self.len()
    }

    fn all_in_buffer(&self) -> Range<usize> {
        self.in_buffer..self.end()
    }

    fn in_model(&self, row: u32) -> Range<usize> {
        let start = self.in_model + (row as usize - self.rows.start) * self.width;
        start..start + self.width
    }

    fn in_buffer(&self, row: u32) -> Range<usize> {
        let start = self.in_buffer + (row as usize - self.rows.start) * self.width;
        start..start + self.width
    }

    /// The first row that differs from what the script has held, of those that were not `read`.
    fn unread_that_changed(&self, read: &[u32], held: &[f32], after: &[f32]) -> Option<usize> {
        let gaps = read.iter().map(|row| self.in_buffer(*row)).chain(once(self.end()..self.end()));
        let mut start = self.in_buffer;
        for Range { start: end, end: next } in gaps {
            let differs =
                |(held, after): (&f32, &f32)| held != after && !(held.is_nan() && after.is_nan());
            let mut pairs = held[start..end].iter().zip(&after[start..end]);
            if let Some(found) = pairs.position(differs) {
                return Some(self.rows.start + (start + found - self.in_buffer) / self.width);
            }
            start = next;
        }
        None
    }
}

fn changed_unread(tensor: &Tensor, row: usize, width: usize) -> String {
    // A row of a vector's table is several values of the tensor.
    let (name, first) = (&tensor.name, if tensor.shape.len() == 1 { row * width } else { row });
    format!(
        "{name}: row {first} has changed, and rows={{\"{name}\": ...}} has not named it for this clock, expected changes of named rows \
         alone: momentum and weight decay change rows without a gradient, so take torch.nn.Embedding(..., sparse=True) with \
         torch.optim.SparseAdam or plain SGD, or name each row that changes"
    )
}

/// The rows of a tensor's table that hold these rows of the tensor.
///
/// # Errors
/// The first row that the tensor does not have.
fn rows_of(tensor: &Tensor, sharded: bool, rows: Vec<i64>) -> Result<Vec<u32>, String> {
    // A row of a vector's table has several of its values.
    let values_a_row = match tensor.shape.len() {
        1 => tensor.table(sharded).width.max(1),
        _ => 1,
    };
    let count = if tensor.is_empty() { 0 } else { tensor.first_dimension() };
    let row = |row: i64| {
        let row = usize::try_from(row).ok().filter(|row| *row < count).ok_or_else(|| {
            let expected = match count.checked_sub(1) {
                Some(last) => format!("0 to {last}"),
                None => "none".into(),
            };
            format!("rows names row {row} of {}, expected {expected}", tensor.name)
        })?;
        Ok((row / values_a_row) as u32)
    };
    rows.into_iter().map(row).collect()
}

/// `share` of the change of each of these rows that has changed, in this memory.
fn changed_rows<B: Value, A: Value>(
    rows: impl Iterator<Item = u32>,
    before: &[B],
    after: &[A],
    width: usize,
    share: f32,
    mut values: Vec<f32>,
) -> TableDeltas {
    if width == 0 {
        return TableDeltas::none();
    }
    values.clear();
    values.reserve_exact(after.len());

    let mut changed = Vec::new();
    let both = before.chunks_exact(width).zip(after.chunks_exact(width));
    for (row, (before, after)) in rows.zip(both) {
        let begun = values.len();
        let both = before.iter().zip(after);
        values.extend(both.map(|(before, after)| share * (after.value() - before.value())));
        if values[begun..].iter().all(|change| *change == 0.0) {
            values.truncate(begun);
        } else {
            changed.push(row);
        }
    }
    TableDeltas::listed(changed, values)
}

/// The exchange takes no other buffers.
pub(crate) const NOT_CONTIGUOUS: &str = "the values of the script are not contiguous";
