//! Where a model has the squares of a network's gradients.

use crate::layers::Stack;
use crate::optimizer::Adaptive;
use gaia_core::types::{Clock, Model, TableDeltas, TableId, TableLayout};

/// The tables with the squares of the gradients of one table of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Squares {
    /// One of each parameter.
    Each(TableId),
    /// Their sums over rows, and over columns. With several layers these do as well as one of each parameter, and cost
    /// neither memory nor bytes over a WAN.
    Sums { rows: TableId, columns: TableId },
}

impl Squares {
    /// The tables that hold the squares of all tables of a stack, and for each of those where its squares are. They come
    /// behind the tables of the stack.
    pub(super) fn of(stack: &Stack) -> (Vec<TableLayout>, Vec<Self>) {
        let tables = stack.layout().tables();
        let (mut added, mut all) = (Vec::new(), Vec::new());
        let mut add = |name: String, rows, width| {
            added.push(TableLayout { name, rows, width });
            TableId((tables.len() + added.len() - 1) as u16)
        };
        for TableLayout { name, rows, width } in tables {
            all.push(if stack.is_linear() || *rows == 1 || *width == 1 {
                Self::Each(add(format!("{name}.squares"), *rows, *width))
            } else {
                Self::Sums {
                    rows: add(format!("{name}.row_squares"), *rows, 1),
                    columns: add(format!("{name}.column_squares"), 1, *width),
                }
            });
        }
        (added, all)
    }

    /// Turns the gradient of the table with this number into directions, and returns what a worker with this share of
    /// the examples adds to the tables of its squares.
    pub(super) fn direct(
        self,
        adaptive: &mut Adaptive,
        table: usize,
        clock: Clock,
        model: &Model,
        gradient: &mut [f32],
        share: f32,
    ) -> Vec<TableDeltas> {
        match self {
            Self::Each(squares) => {
                let squares = model.table(squares);
                let change = adaptive.direct(table, |at| at, clock, gradient, squares, &[share]);
                vec![TableDeltas::all(change)]
            }
            Self::Sums { rows, columns } => {
                let sums = [model.table(rows), model.table(columns)];
                let changes = adaptive.direct_factored(table, clock, gradient, sums, share);
                changes.map(TableDeltas::all).into()
            }
        }
    }
}
