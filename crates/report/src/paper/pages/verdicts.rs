//! Claims about the results: each with the number of cells that meet it, and every cell that does not.

use serde::Serialize;

use super::shipping::{self, dollars, dollars_waiting};
use crate::paper::grid::{
    ASP, ASP_PAPER, AppWanPair, BETTER_BSP, BSP, CENTRALIZE, Grid, LAN, pair_name,
};
use crate::paper::records::CellRow;
use crate::text::numbers;

/// One claim, and whether it holds in every cell.
#[derive(Serialize)]
pub(super) struct Verdict {
    pass: bool,
    text: String,
    /// How many of the paper's own figures meet it; empty where that is not known.
    published: String,
    misses: Vec<String>,
    /// Cells that miss a figure of the paper which no model can reach here.
    ceilings: Vec<String>,
}

/// Whether one cell meets a claim, or why not. `None` where the claim does not apply to it.
type Answer = Option<Result<(), String>>;

pub(super) fn verdicts(grid: &Grid<'_>, the_papers_own: bool) -> Vec<Verdict> {
    if grid.rows().is_empty() {
        return vec![Verdict {
            pass: false,
            text: "No cell was run.".into(),
            published: String::new(),
            misses: Vec::new(),
            ceilings: Vec::new(),
        }];
    }

    let mut verdicts = vec![
        check_claim(grid, "asp reaches the target", |pair| reaches(grid, pair)),
        check_claim(grid, "asp is within 1.10× of the LAN", |pair| near_lan(grid, pair)),
    ];
    if the_papers_own {
        verdicts[1].published = printed_near_lan(grid);
        let claim = "asp's speed-up over BSP is at least what the paper printed";
        let beaten = check_claim(grid, claim, |pair| beats_printed(grid, pair));
        let ceilings = grid.pairs().into_iter().filter_map(|pair| at_ceiling(grid, pair));
        verdicts.push(Verdict { ceilings: ceilings.collect(), ..beaten });
    }

    let faster = check_claim(grid, "asp is faster than shipping the data first", |pair| {
        against(grid, pair, CENTRALIZE, |row| row.time_s, "the time")
    });

    let cheaper = check_claim(grid, "asp costs no more than shipping the data first", |pair| {
        against(grid, pair, CENTRALIZE, dollars, "the dollars")
    });

    let claim = "asp costs no more than shipping the data first with machines waiting for it";
    let cheaper_waiting = check_claim(grid, claim, |pair| {
        against(grid, pair, CENTRALIZE, dollars_waiting, "the dollars")
    });

    let (printed_faster, printed_cheaper) = shipping::printed_wins();
    let printed = |text: String| if the_papers_own { text } else { String::new() };
    verdicts.push(Verdict { published: printed(printed_faster), ..faster });
    verdicts.push(Verdict { published: printed(printed_cheaper), ..cheaper });
    verdicts.push(cheaper_waiting);
    verdicts.push(check_claim(grid, "asp costs no more than BSP", |pair| {
        against(grid, pair, BSP, dollars, "the dollars")
    }));
    if grid.rows().iter().any(|row| row.model == BETTER_BSP) {
        let claim = "asp takes no longer than BSP with blocks by bandwidth";
        verdicts.push(check_claim(grid, claim, |pair| {
            against(grid, pair, BETTER_BSP, |row| row.time_s, "the time")
        }));
        let claim = "asp costs no more than BSP with blocks by bandwidth";
        verdicts.push(check_claim(grid, claim, |pair| {
            against(grid, pair, BETTER_BSP, dollars, "the dollars")
        }));
    }
    verdicts.push(check_claim(grid, "asp takes no longer than ASP as published", |pair| {
        against(grid, pair, ASP_PAPER, |row| row.time_s, "the time")
    }));
    verdicts.push(check_claim(grid, "asp sends no more WAN bytes than ASP as published", |pair| {
        against(grid, pair, ASP_PAPER, |row| Some(row.wan_bytes as f64), "the bytes")
    }));
    verdicts.push(check_claim(grid, "all copies of asp are equal after the drain", |pair| {
        let row = grid.find(pair, ASP)?;
        Some(if row.copies_equal { Ok(()) } else { Err("not equal".into()) })
    }));

    verdicts
}

fn check_claim<'a>(
    grid: &Grid<'a>,
    claim: &str,
    answer: impl Fn(AppWanPair<'a>) -> Answer,
) -> Verdict {
    let answers = grid.pairs().into_iter().filter_map(|pair| Some((pair, answer(pair)?)));
    let answers: Vec<_> = answers.collect();
    let misses: Vec<String> = answers
        .iter()
        .filter_map(|(pair, answer)| {
            let why = answer.as_ref().err()?;
            Some(format!("{}: {why}", pair_name(*pair)))
        })
        .collect();
    let all = answers.len();

    Verdict {
        pass: all > 0 && misses.is_empty(),
        text: if all == 0 {
            format!("{claim}: no cell has the figures to decide.")
        } else {
            format!("{claim} in {} of {}.", all - misses.len(), numbers::counted(all, "cell"))
        },
        published: String::new(),
        misses,
        ceilings: Vec::new(),
    }
}

fn reaches(grid: &Grid<'_>, pair: AppWanPair<'_>) -> Answer {
    Some(asp(grid, pair).map(|_| ()))
}

/// ASP's row and its time where it reached the target, else the reason why not.
fn asp<'a>(grid: &Grid<'a>, pair: AppWanPair<'_>) -> Result<(&'a CellRow, f64), String> {
    let row = grid.find(pair, ASP).ok_or("not run")?;
    let time = row.time_s.filter(|_| row.converged).ok_or("never reached the target")?;
    Ok((row, time))
}

fn near_lan(grid: &Grid<'_>, pair: AppWanPair<'_>) -> Answer {
    Some(asp(grid, pair).and_then(|(row, _)| match row.times_lan {
        Some(times) if times <= NEAR_LAN => Ok(()),
        Some(times) => Err(numbers::times(times)),
        None => Err("no LAN to compare with".into()),
    }))
}

/// A cell that is as fast as the LAN meets the claim where the LAN itself is slower than the paper's figure.
fn beats_printed(grid: &Grid<'_>, pair: AppWanPair<'_>) -> Answer {
    let printed = grid.find(pair, ASP)?.paper_speedup?;
    let lan = lan_below(grid, pair, printed);
    Some(asp(grid, pair).and_then(|(row, _)| match (row.speedup_vs_bsp, lan) {
        (Some(speedup), _) if speedup >= printed => Ok(()),
        (Some(_), Some(_)) if is_near_lan(row) => Ok(()),
        (Some(speedup), lan) => {
            let why = match lan {
                Some(lan) => format!("; the LAN is {} here", numbers::times(lan)),
                None => row.times_lan.map_or_else(String::new, |times| {
                    format!("; {} the time on the LAN", numbers::times(times))
                }),
            };
            Err(format!("{}, the paper {}{why}", numbers::times(speedup), numbers::times(printed)))
        }
        (None, _) => Err("no BSP to compare with".into()),
    }))
}

/// What a cell reaches of the most that is possible, where that is less than the paper's figure.
fn at_ceiling(grid: &Grid<'_>, pair: AppWanPair<'_>) -> Option<String> {
    let row = grid.find(pair, ASP)?;
    let (speedup, printed) = (row.speedup_vs_bsp?, row.paper_speedup?);
    let lan = lan_below(grid, pair, printed)?;
    (speedup < printed && is_near_lan(row)).then(|| {
        let [speedup, lan, printed] = [speedup, lan, printed].map(numbers::times);
        format!("{}: {speedup}, the LAN {lan}, the paper {printed}", pair_name(pair))
    })
}

/// The LAN's speed-up over BSP, where that is less than this one: no model over the WAN can then reach it.
pub(super) fn lan_below(grid: &Grid<'_>, pair: AppWanPair<'_>, speedup: f64) -> Option<f64> {
    grid.find(pair, LAN)?.speedup_vs_bsp.filter(|lan| *lan < speedup)
}

pub(super) fn is_near_lan(row: &CellRow) -> bool {
    row.times_lan.is_some_and(|times| times <= NEAR_LAN)
}

/// Whether ASP needs at most as much of something as another model, or the other never reached the target.
fn against(
    grid: &Grid<'_>,
    pair: AppWanPair<'_>,
    other: &str,
    amount: fn(&CellRow) -> Option<f64>,
    what: &str,
) -> Answer {
    Some(asp(grid, pair).and_then(|(row, _)| {
        let other = grid.find(pair, other).ok_or_else(|| format!("{other} was not run"))?;
        if other.time_s.is_none() || !other.converged {
            return Ok(());
        }
        match amount(row).zip(amount(other)) {
            Some((own, theirs)) if own <= theirs => Ok(()),
            Some((own, theirs)) => Err(format!("{} {what}", numbers::times(own / theirs))),
            None => Err(format!("{what} are not known")),
        }
    }))
}

/// In how many of the paper's cells Gaia was within the same bound of the LAN.
fn printed_near_lan(grid: &Grid<'_>) -> String {
    let printed = |pair: &AppWanPair<'_>| {
        let lan = grid.find(*pair, LAN)?.paper_speedup?;
        Some(lan / grid.find(*pair, ASP)?.paper_speedup?)
    };
    let ratios: Vec<f64> = grid.pairs().iter().filter_map(printed).collect();
    let near = ratios.iter().filter(|ratio| **ratio <= NEAR_LAN).count();
    if ratios.is_empty() { String::new() } else { format!("the paper: {near} of {}", ratios.len()) }
}

/// A run is as fast as on the LAN where it takes at most this many times as long.
const NEAR_LAN: f64 = 1.10;
