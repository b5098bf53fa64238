//! Count sketches (gs-SGD): nodes send sketches of their changes, which add up, instead of their largest changes.
//!
//! A sketch is a table of some rows. Each row has a hash function, which gives each parameter a column and a sign, and the
//! change is added there. The estimate of a change is the median over rows (Charikar, Chen and Farach-Colton, 2002).

use super::{Checked, Context, EvaluationError, sparse};
use crate::suite::SELF;
use gaia_config::{Override, Plan};
use gaia_core::codec::{Changes, ValueFormat, quantise};
use gaia_core::types::{Clock, DcId, Deltas, Model, Seed, ShardId, Tightness};
use gaia_core::wire::{BulkHeader, BulkKind, encode_bulk};
use gaia_report::paper::{SystemRow, SystemUnit, SystemVerdict};

/// The bytes that a node sends, for the same error of the sum of all nodes' changes.
pub(super) fn check(context: &Context<'_, '_>) -> Result<Checked, EvaluationError> {
    let none: [Override; 0] = [];
    let plan = sparse::APP.own_plan(&none, context.changes)?;
    let seed = plan.seed.child(SELF);
    let nodes = changes(context, &plan)?;
    let mut exact = vec![0.0_f64; nodes[0].len()];
    for change in &nodes {
        exact.iter_mut().zip(change).for_each(|(sum, change)| *sum += f64::from(*change));
    }

    let mut figures = Vec::new();
    for density in DENSITIES {
        let largest = largest(&nodes, density);
        let wanted = error(&exact, &largest.sum);
        let kept = largest.sum.iter().filter(|sum| **sum != 0.0).count();

        let most = SKETCH_MAX * exact.len();
        let widths = (0..).map(|step| (64.0 * 1.1_f64.powi(step)) as usize);
        let found = widths.take_while(|width| ROWS * width <= most).find(|width| {
            let sketch = Sketch::new(seed, *width, exact.len());
            error(&exact, &sketch.sum_of(&nodes, kept)) <= wanted
        });
        // Two bytes a cell, there and back.
        let bytes = |width: usize| (2 * 2 * ROWS * width) as f64;
        let times = found.map_or(f64::INFINITY, |width| bytes(width) / largest.bytes);
        let percent = 100.0 * density;
        let what = format!("bytes of a sketch in times of the largest {percent} %");
        figures.push(super::measured(what, SystemUnit::Times, times));
    }

    let holds = figures.iter().all(|figure| figure.measured <= 1.0);
    let (nodes, parameters) = (nodes.len(), exact.len());
    let row = SystemRow {
        system: "gs-SGD".into(),
        claim: "Count sketches of gradients give 1.3 to 3.1 times the throughput of gTop-k (abstract). What is checked is that they need fewer bytes."
            .into(),
        check: format!(
            "The changes of {nodes} nodes that train a perceptron of {parameters} parameters. Bytes that a node sends and receives for the \
             same error of their sum: frames of its largest changes and of their sum with 4 bits a value, or sketches of {ROWS} rows with two \
             bytes a cell, of which as many estimates are kept. Throughput needs their GPUs and is not measured."
        ),
        figures,
        verdict: if holds { SystemVerdict::Holds } else { SystemVerdict::Fails },
        reason: if holds {
            "sketches need no more bytes than the largest changes.".into()
        } else {
            "for the same error sketches need more bytes than the largest changes.".into()
        },
    };
    Ok(Checked { rows: vec![row], runs: Vec::new() })
}

/// What the workers of each node change in one clock, after some clocks that all have made together.
fn changes(context: &Context<'_, '_>, plan: &Plan) -> Result<Vec<Vec<f32>>, EvaluationError> {
    let application = context.bench.application(plan)?;
    let mut model = application.initial_model(plan.seed.child("model"));
    let seed = plan.seed.child("tasks");
    let workers = plan.topology.workers();
    let mut tasks: Vec<_> =
        (0..workers).map(|worker| application.task(worker, seed.nth(worker))).collect();

    let mut nodes = Vec::new();
    for clock in (0..=CLOCKS_BEFORE).map(Clock) {
        nodes = vec![vec![0.0; model.values.len()]; plan.topology.data_centers.len()];
        let mut first = 0;
        for (node, dc) in nodes.iter_mut().zip(&plan.topology.data_centers) {
            for task in &mut tasks[first..first + dc.workers] {
                task.rows(clock);
                let computed = task.iterate(clock, &model);
                let (deltas, _) = computed.expect("built-in applications do not fail");
                add(&deltas, &model, node);
            }
            first += dc.workers;
        }
        let mut values = model.values.to_vec();
        for node in &nodes {
            values.iter_mut().zip(node).for_each(|(value, change)| *value += change);
        }
        model.values.copy_from_slice(&values);
    }
    Ok(nodes)
}

/// Adds changes of whole tables.
fn add(deltas: &Deltas, model: &Model, sums: &mut [f32]) {
    for (table, changed) in model.layout().table_ids().zip(&deltas.tables) {
        let start = model.layout().row_offset(table, 0);
        for (sum, change) in sums[start..].iter_mut().zip(changed.values.iter()) {
            *sum += change;
        }
    }
}

/// What the largest changes of each node come to.
struct Largest {
    /// As nodes receive it.
    sum: Vec<f64>,
    /// The bytes of the frame that a node sends, in the mean, and of the frame with the sum.
    bytes: f64,
}

fn largest(nodes: &[Vec<f32>], density: f64) -> Largest {
    let parameters = nodes[0].len();
    let count = (density * parameters as f64).ceil() as usize;
    let mut sum = vec![0.0_f32; parameters];
    let mut bytes = 0;
    for node in nodes {
        let mut order: Vec<u32> = (0..parameters as u32).collect();
        order.sort_by(|a, b| node[*b as usize].abs().total_cmp(&node[*a as usize].abs()));
        let mut indexes = order[..count].to_vec();
        indexes.sort_unstable();

        let mut values: Vec<f32> = indexes.iter().map(|index| node[*index as usize]).collect();
        quantise(&mut values, ValueFormat::Int4);
        for (index, value) in indexes.iter().zip(&values) {
            sum[*index as usize] += value;
        }
        bytes += frame_bytes(&indexes, &values);
    }
    let indexes: Vec<u32> =
        (0..parameters as u32).filter(|index| sum[*index as usize] != 0.0).collect();
    let mut values: Vec<f32> = indexes.iter().map(|index| sum[*index as usize]).collect();
    quantise(&mut values, ValueFormat::Int4);
    let mut received = vec![0.0; parameters];
    for (index, value) in indexes.iter().zip(&values) {
        received[*index as usize] = f64::from(*value);
    }
    let back = frame_bytes(&indexes, &values) as f64;
    Largest { sum: received, bytes: bytes as f64 / nodes.len() as f64 + back }
}

fn frame_bytes(indexes: &[u32], values: &[f32]) -> usize {
    let header = BulkHeader {
        kind: BulkKind::Partial,
        origin: DcId(0),
        shard: ShardId(0),
        sequence: 1,
        clock: Clock::ZERO,
        last: true,
        relayed: false,
        tightness: Tightness::NONE,
    };
    let mut frame = Vec::new();
    encode_bulk(&header, Changes::Sparse { indexes, values }, ValueFormat::Int4, &mut frame);
    frame.len()
}

/// The column and the sign of each parameter, by row.
struct Sketch {
    width: usize,
    places: Vec<[(usize, f32); ROWS]>,
}

impl Sketch {
    fn new(seed: Seed, width: usize, parameters: usize) -> Self {
        let places = (0..parameters).map(|parameter| {
            std::array::from_fn(|row| {
                let hash = seed.nth(row).nth(parameter).0;
                let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
                ((hash % width as u64) as usize, sign)
            })
        });
        Self { width, places: places.collect() }
    }

    /// The estimated sum of all nodes' changes: the largest `kept` estimates.
    fn sum_of(&self, nodes: &[Vec<f32>], kept: usize) -> Vec<f64> {
        let mut cells = vec![0.0_f64; ROWS * self.width];
        for node in nodes {
            let mut table = vec![0.0; ROWS * self.width];
            for (places, change) in self.places.iter().zip(node) {
                for (row, (column, sign)) in places.iter().enumerate() {
                    table[row * self.width + column] += sign * change;
                }
            }
            quantise(&mut table, ValueFormat::Bf16);
            cells.iter_mut().zip(&table).for_each(|(sum, cell)| *sum += f64::from(*cell));
        }

        let estimate = |places: &[(usize, f32); ROWS]| {
            let mut rows: [f64; ROWS] = std::array::from_fn(|row| {
                let (column, sign) = places[row];
                f64::from(sign) * cells[row * self.width + column]
            });
            rows.sort_by(f64::total_cmp);
            rows[ROWS / 2]
        };
        let mut sums: Vec<f64> = self.places.iter().map(estimate).collect();
        let mut order: Vec<usize> = (0..sums.len()).collect();
        order.sort_by(|a, b| sums[*b].abs().total_cmp(&sums[*a].abs()));
        order[kept..].iter().for_each(|parameter| sums[*parameter] = 0.0);
        sums
    }
}

/// The squared distance of two sums.
fn error(exact: &[f64], found: &[f64]) -> f64 {
    exact.iter().zip(found).map(|(exact, found)| (exact - found).powi(2)).sum()
}

const DENSITIES: [f64; 2] = [0.01, 0.03];
const ROWS: usize = 5;
/// The most cells of a sketch, in times of all parameters.
const SKETCH_MAX: usize = 8;
/// Clocks before the changes are taken: those of a new model are not typical.
const CLOCKS_BEFORE: u64 = 50;
