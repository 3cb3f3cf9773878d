//! Plots and graphs, drawn here as SVG. Colours come from the style sheet by class, because the
//! content policy permits no style in the page.

use std::collections::{BTreeMap, BTreeSet};

use flow::Stage;
use flow::TicketId;
use maud::{Markup, html};

use super::parts::stage_tone;

/// Bars in one plot; the largest come first.
const BARS_MAX: usize = 12;
const BAR_HEIGHT: usize = 24;
/// Width of the area of the bars, and of the labels before it.
const BAR_WIDTH: u64 = 380;
const LABEL_WIDTH: u64 = 170;
/// Size of the plot of days.
const DAYS_WIDTH: usize = 600;
const DAYS_HEIGHT: u64 = 120;
/// Nodes of a graph; a larger one is left to the list.
const NODES_MAX: usize = 150;
const NODE_WIDTH: usize = 190;
const NODE_HEIGHT: usize = 44;
const NODE_GAP: usize = 16;
const LAYER_GAP: usize = 60;

/// One bar with its label and the text of its value.
#[derive(Debug)]
pub struct PlotBar {
    pub label: String,
    pub value: u64,
    pub shown: String,
}

/// Draws horizontal bars with their labels and values. Nothing is drawn if all are zero.
pub fn bars(title: &str, bars: &[PlotBar]) -> Markup {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    if most == 0 {
        return html! {};
    }
    let shown: Vec<&PlotBar> = bars.iter().take(BARS_MAX).collect();
    let height = shown.len() * BAR_HEIGHT;
    html! {
        figure.panel {
            figcaption { h2 { (title) } }
            svg.plot viewBox=(format!("0 0 640 {height}")) role="img" aria-label=(title) {
                @for (index, bar) in shown.iter().enumerate() {
                    @let (y, width) = (index * BAR_HEIGHT, bar.value.saturating_mul(BAR_WIDTH) / most);
                    text x=(LABEL_WIDTH - 8) y=(y + 16) text-anchor="end" { (findings::shorten(&bar.label, 26)) }
                    rect x=(LABEL_WIDTH) y=(y + 5) height="14" rx="3" width=(width.max(2)) {}
                    text.value x=(LABEL_WIDTH + width + 8) y=(y + 16) { (bar.shown) }
                }
            }
        }
    }
}

/// Draws one column for each day. The labels are those of the first and the last day.
pub fn days(title: &str, columns: &[PlotBar]) -> Markup {
    let most = columns.iter().map(|column| column.value).max().unwrap_or(0);
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
        return html! {};
    };
    if most == 0 {
        return html! {};
    }
    let step = DAYS_WIDTH / columns.len().max(1);
    let highest = columns.iter().find(|column| column.value == most);
    html! {
        figure.panel {
            figcaption { h2 { (title) } }
            svg.plot viewBox=(format!("0 0 {} {}", DAYS_WIDTH + 20, DAYS_HEIGHT + 28)) role="img" aria-label=(title) {
                @if let Some(highest) = highest { text.value x="10" y="18" { "most: " (highest.shown) " on " (highest.label) } }
                @for (index, column) in columns.iter().enumerate() {
                    @let height = column.value.saturating_mul(DAYS_HEIGHT - 28) / most;
                    rect.day x=(10 + index * step) y=(DAYS_HEIGHT - height) height=(height) width=(step.saturating_sub(3).max(1)) rx="2" {
                        title { (column.label) ": " (column.shown) }
                    }
                }
                path.axis d=(format!("M10 {0}.500H{1}", DAYS_HEIGHT, DAYS_WIDTH + 10)) {}
                text x="10" y=(DAYS_HEIGHT + 18) { (first.label) }
                text x=(DAYS_WIDTH + 10) y=(DAYS_HEIGHT + 18) text-anchor="end" { (last.label) }
            }
        }
    }
}

/// A node of a graph of tickets.
#[derive(Clone, Debug)]
pub struct GraphNode {
    pub id: TicketId,
    pub title: String,
    pub stage: Stage,
    pub needs: BTreeSet<TicketId>,
}

/// Draws tickets in layers: each one to the right of all that it depends on.
pub fn graph(nodes: &[GraphNode]) -> Markup {
    if nodes.len() > NODES_MAX || nodes.iter().all(|node| node.needs.is_empty()) {
        return html! {};
    }
    let places = places(nodes);
    let right = places.values().map(|place| place.0).max().unwrap_or(0);
    let bottom = places.values().map(|place| place.1).max().unwrap_or(0);
    let size = format!(
        "0 0 {} {}",
        right + NODE_WIDTH + 2,
        bottom + NODE_HEIGHT + 2
    );
    html! {
        div.wide.panel {
            svg.graph viewBox=(size) width=(right + NODE_WIDTH + 2) height=(bottom + NODE_HEIGHT + 2) role="group" aria-label="Dependencies" {
                @for node in nodes {
                    @for need in &node.needs {
                        @if let (Some(from), Some(to)) = (places.get(need), places.get(&node.id)) { (edge(*from, *to)) }
                    }
                }
                @for node in nodes {
                    @if let Some((x, y)) = places.get(&node.id) {
                        a href=(format!("/tickets/{}", node.id)) {
                            rect.node.(stage_tone(node.stage)) x=(x + 1) y=(y + 1) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="6" {}
                            text.name x=(x + 11) y=(y + 19) { (findings::shorten(&node.title, 25)) }
                            text x=(x + 11) y=(y + 35) { (node.stage.as_str()) " · " (findings::shorten(node.id.as_str(), 18)) }
                            title { (node.title) }
                        }
                    }
                }
            }
        }
    }
}

/// Draws an arrow from the right side of one node to the left side of another.
fn edge(from: (usize, usize), to: (usize, usize)) -> Markup {
    let (x1, y1) = (from.0 + NODE_WIDTH + 1, from.1 + NODE_HEIGHT / 2 + 1);
    let (x2, y2) = (to.0, to.1 + NODE_HEIGHT / 2 + 1);
    let middle = x1 + LAYER_GAP / 2;
    let line = format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}");
    let head = format!(
        "M{} {}L{x2} {y2}L{} {}",
        x2.saturating_sub(6),
        y2 - 4,
        x2.saturating_sub(6),
        y2 + 4
    );
    html! { path.edge d=(line) {} path.edge d=(head) {} }
}

/// Computes the place of each node. A cycle cannot occur; if it did, its nodes would share a layer.
fn places(nodes: &[GraphNode]) -> BTreeMap<TicketId, (usize, usize)> {
    let mut layers: BTreeMap<&TicketId, usize> = nodes.iter().map(|node| (&node.id, 0)).collect();
    // Each pass moves nodes behind what they need; no chain is longer than the number of nodes.
    for _ in 0..nodes.len() {
        let before = layers.clone();
        for node in nodes {
            let needs = node.needs.iter().filter_map(|need| before.get(need));
            let layer = needs.map(|layer| layer + 1).max().unwrap_or(0);
            layers.insert(&node.id, layer.min(nodes.len()));
        }
        if layers == before {
            break;
        }
    }
    let mut heights: BTreeMap<usize, usize> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for node in nodes {
        let layer = layers.get(&node.id).copied().unwrap_or(0);
        let row = heights.entry(layer).or_default();
        let place = (
            layer * (NODE_WIDTH + LAYER_GAP),
            *row * (NODE_HEIGHT + NODE_GAP),
        );
        places.insert(node.id.clone(), place);
        *row += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, needs: &[&str]) -> GraphNode {
        let id_of = |id: &str| TicketId::new(id).unwrap();
        GraphNode {
            id: id_of(id),
            title: id.to_owned(),
            stage: Stage::Queued,
            needs: needs.iter().map(|need| id_of(need)).collect(),
        }
    }

    #[test]
    fn a_ticket_stands_behind_all_that_it_needs() {
        let nodes = [node("a", &[]), node("c", &["a", "b"]), node("b", &["a"])];
        let places = places(&nodes);
        let x = |id: &str| places[&TicketId::new(id).unwrap()].0;
        assert!(x("a") < x("b") && x("b") < x("c"));
        assert!(graph(&nodes).into_string().contains("/tickets/c"));
    }

    #[test]
    fn plots_of_nothing_are_left_out() {
        let zero = PlotBar {
            label: "x".to_owned(),
            value: 0,
            shown: "0".to_owned(),
        };
        assert!(bars("t", &[]).into_string().is_empty());
        assert!(
            days("t", std::slice::from_ref(&zero))
                .into_string()
                .is_empty()
        );
        assert!(bars("t", &[zero]).into_string().is_empty());
        let cycle = [node("a", &["b"]), node("b", &["a"])];
        assert!(graph(&cycle).into_string().contains("/tickets/a"));
    }
}
