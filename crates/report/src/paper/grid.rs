//! Cells by application, WAN and model, and what they are called on a page.

use super::records::CellRow;
use crate::page;

/// The cells of one page.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    rows: &'a [CellRow],
}

/// One application over one WAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppWanPair<'a> {
    pub(super) app: &'a str,
    pub(super) wan: &'a str,
}

impl<'a> Grid<'a> {
    pub(super) fn new(rows: &'a [CellRow]) -> Self {
        Self { rows }
    }

    pub(super) fn rows(&self) -> &'a [CellRow] {
        self.rows
    }

    /// The applications: the paper's in its order, then others.
    pub(super) fn apps(&self) -> Vec<&'a str> {
        ordered(self.rows.iter().map(|row| row.app.as_str()), &APPS.map(|(app, _)| app))
    }

    /// The pairs of an application: the paper's WANs in its order, then others.
    pub(super) fn pairs_of(&self, app: &'a str) -> Vec<AppWanPair<'a>> {
        let rows = self.rows.iter().filter(|row| row.app == app);
        let wans = ordered(rows.map(|row| row.wan.as_str()), &WANS.map(|(wan, _)| wan));
        wans.into_iter().map(|wan| AppWanPair { app, wan }).collect()
    }

    pub(super) fn pairs(&self) -> Vec<AppWanPair<'a>> {
        self.apps().into_iter().flat_map(|app| self.pairs_of(app)).collect()
    }

    /// The models that any WAN of the application has. Every other WAN is expected to have them.
    pub(super) fn models_of(&self, app: &str) -> Vec<&'a str> {
        let rows = self.rows.iter().filter(|row| row.app == app);
        ordered(rows.map(|row| row.model.as_str()), &MODELS)
    }

    /// The rows of a pair that come from a run and not from a calculation, in the order of their models.
    pub(super) fn runs_at(&self, pair: AppWanPair<'_>) -> Vec<&'a CellRow> {
        let rows = self.models_of(pair.app).into_iter().filter_map(|model| self.find(pair, model));
        rows.filter(|row| !row.curve.is_empty()).collect()
    }

    /// `None` where it was not run.
    pub(super) fn find(&self, pair: AppWanPair<'_>, model: &str) -> Option<&'a CellRow> {
        let here = |row: &&CellRow| row.app == pair.app && row.wan == pair.wan;
        self.rows.iter().filter(here).find(|row| row.model == model)
    }
}

/// An application's name, in the paper's words where it is one of the paper's.
pub(super) fn app_name(app: &str) -> String {
    let known = APPS.iter().find(|(known, _)| *known == app);
    known.map_or_else(|| app.to_owned(), |(_, name)| format!("{name} ({app})"))
}

/// The name of a pair.
pub(super) fn pair_name(pair: AppWanPair<'_>) -> String {
    format!("{} on {}", pair.app, wan_name(pair.wan))
}

/// A WAN's name, as the paper prints it where it is one of the paper's.
pub(super) fn wan_name(wan: &str) -> String {
    let known = WANS.iter().find(|(known, _)| *known == wan);
    known.map_or_else(|| wan.to_owned(), |(_, name)| (*name).to_owned())
}

/// The colour of a model, the same on every page.
pub(super) fn colour(model: &str) -> usize {
    page::colour(model, 0)
}

/// Each name once: the known ones in their order, then the others in theirs.
fn ordered<'a>(names: impl Iterator<Item = &'a str>, known: &[&str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found.sort_by_key(|name| known.iter().position(|known| known == name).unwrap_or(known.len()));
    found
}

pub(super) const LAN: &str = "lan";
pub(super) const BSP: &str = "bsp";
pub(super) const BETTER_BSP: &str = "bsp-bandwidth";
pub(super) const ASP: &str = "asp";
pub(super) const ASP_PAPER: &str = "asp-paper";
pub(super) const CENTRALIZE: &str = "centralize";

const MODELS: [&str; 9] =
    [LAN, BSP, BETTER_BSP, "ssp", ASP_PAPER, ASP, "asp-async", "local-steps", CENTRALIZE];
const APPS: [(&str, &str); 3] =
    [("mf", "Matrix factorization"), ("tm", "Topic modeling"), ("ic", "Image classification")];
const WANS: [(&str, &str); 3] = [("ec2-all", "EC2-ALL"), ("vc", "V/C WAN"), ("ss", "S/S WAN")];
