//! A chart inside a page.

use serde::Serialize;

use super::download::Download;
use crate::chart::{Bars, Lanes, Plot, Size, Spacing};

/// A chart for wide screens and for phones, with one view or with several to choose from.
#[derive(Serialize)]
pub(crate) struct Picture {
    heading: String,
    /// Unique on a page, where there is a choice.
    id: String,
    choices: Vec<Choice>,
    views: Vec<View>,
    downloads: Vec<Download>,
}

/// A pair of buttons that choose how an axis is divided. No script is needed: a checked button shows its view.
#[derive(Serialize)]
struct Choice {
    axis: &'static str,
    /// What the axis is called beside its buttons.
    label: &'static str,
    logarithmic: bool,
}

#[derive(Serialize)]
struct View {
    /// The classes of the buttons that show it; empty where it is the only one.
    class: String,
    large: String,
    small: String,
}

impl Picture {
    pub(crate) fn of_plot(heading: impl Into<String>, plot: &Plot, size: Size) -> Self {
        let view = View {
            class: String::new(),
            large: plot.inline(size),
            small: plot.inline(Size::NARROW),
        };
        let heading = heading.into();
        let downloads = downloads(&heading, &plot.standalone(), &plot.csv());
        Self { heading, id: String::new(), choices: Vec::new(), views: vec![view], downloads }
    }

    pub(crate) fn of_bars(heading: impl Into<String>, bars: &Bars, size: Size) -> Self {
        let view = View { class: String::new(), large: bars.wide(size), small: bars.narrow() };
        let heading = heading.into();
        let downloads = downloads(&heading, &bars.standalone(), &bars.csv());
        Self { heading, id: String::new(), choices: Vec::new(), views: vec![view], downloads }
    }

    pub(crate) fn of_lanes(heading: impl Into<String>, lanes: &Lanes) -> Self {
        let view = View {
            class: String::new(),
            large: lanes.inline(Size::WIDE),
            small: lanes.inline(Size::NARROW),
        };
        let heading = heading.into();
        let downloads = downloads(&heading, &lanes.standalone(), &lanes.csv());
        Self { heading, id: String::new(), choices: Vec::new(), views: vec![view], downloads }
    }

    /// An objective over time, over the page's full width, with linear and logarithmic axes to choose from.
    ///
    /// The view that suits the values is shown first.
    pub(crate) fn of_views(heading: impl Into<String>, id: &str, mut plot: Plot) -> Self {
        let Some((x, y)) = plot.spacings() else {
            return Self::of_plot(heading, &plot, Size::WIDE);
        };

        let heading = heading.into();
        let downloads = downloads(&heading, &plot.standalone(), &plot.csv());
        plot.y_spacing = Spacing::Logarithmic;
        let can_be_logarithmic = plot.spacings().is_some_and(|(_, y)| y == Spacing::Logarithmic);
        let mut choices =
            vec![Choice { axis: "x", label: "time", logarithmic: x == Spacing::Logarithmic }];
        if can_be_logarithmic {
            let logarithmic = y == Spacing::Logarithmic;
            choices.push(Choice { axis: "y", label: "objective", logarithmic });
        }

        let both = [Spacing::Linear, Spacing::Logarithmic];
        let mut views = Vec::new();
        for x_spacing in both {
            for y_spacing in both.into_iter().take(choices.len()) {
                (plot.x_spacing, plot.y_spacing) = (x_spacing, y_spacing);

                let (x, y) = (name(x_spacing), name(y_spacing));
                let class = match choices.len() {
                    1 => format!("x-{x}-view"),
                    _ => format!("x-{x}-y-{y}-view"),
                };

                let (large, small) = (plot.inline(Size::WIDE), plot.inline(Size::NARROW));
                views.push(View { class, large, small });
            }
        }

        Self { heading, id: id.into(), choices, views, downloads }
    }

    pub(super) fn remove_downloads(&mut self) {
        self.downloads.clear();
    }
}

fn downloads(heading: &str, picture: &str, figures: &str) -> Vec<Download> {
    vec![Download::svg(heading, picture), Download::csv(heading, figures)]
}

fn name(spacing: Spacing) -> &'static str {
    if spacing == Spacing::Logarithmic { "log" } else { "linear" }
}
