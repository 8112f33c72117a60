//! Reads figures back: what is visible where, and what is written where.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

/// Colour of a lane's background.
pub(crate) const LANE: &str = "#EEF0F3";
/// Samples across the width and height of a lane.
const COLUMNS: usize = 3000;
const ROWS: usize = 150;

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).expect("a number")
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub(crate) x0: f64,
    pub(crate) y0: f64,
    pub(crate) x1: f64,
    pub(crate) y1: f64,
}

impl Rect {
    pub(crate) fn of(node: &Node<'_, '_>) -> Self {
        let (x0, y0) = (number(node, "x"), number(node, "y"));
        Rect { x0, y0, x1: x0 + number(node, "width"), y1: y0 + number(node, "height") }
    }

    fn overlaps(&self, other: &Rect) -> bool {
        self.x0 < other.x1 && other.x0 < self.x1 && self.y0 < other.y1 && other.y0 < self.y1
    }
}

/// The backgrounds of the lanes, from the top.
pub(crate) fn lanes(document: &Document<'_>) -> Vec<Rect> {
    let rects = document.descendants().filter(|node| node.has_tag_name("rect"));
    let fills = rects.filter(|node| node.attribute("fill") == Some(LANE));
    // Swatches of legends and share bars are smaller than any lane of these tests.
    fills.map(|node| Rect::of(&node)).filter(|rect| rect.x1 - rect.x0 > 8000.0).collect()
}

/// The text elements of a document with what they say.
pub(crate) fn texts<'a>(document: &'a Document<'_>) -> Vec<(Node<'a, 'a>, &'a str)> {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| (node, node.text().unwrap_or_default().trim())).collect()
}

/// The visible share of a lane per colour.
pub(crate) fn visible(document: &Document<'_>, lane: Rect) -> BTreeMap<String, f64> {
    let mut cells = vec!["".to_owned(); COLUMNS * ROWS];
    let at_x =
        |column: usize| lane.x0 + (column as f64 + 0.5) / COLUMNS as f64 * (lane.x1 - lane.x0);
    let at_y = |row: usize| lane.y0 + (row as f64 + 0.5) / ROWS as f64 * (lane.y1 - lane.y0);
    let columns = |x0: f64, x1: f64| {
        let cell = |x: f64| (x - lane.x0) / (lane.x1 - lane.x0) * COLUMNS as f64;
        let clamp = |c: f64| c.clamp(0.0, COLUMNS as f64) as usize;
        (clamp(cell(x0).floor() - 1.0)..clamp(cell(x1).ceil() + 1.0))
            .filter(move |&column| (x0..x1).contains(&at_x(column)))
    };
    for node in document.descendants() {
        let fill = node.attribute("fill").unwrap_or_default();
        let outline: Vec<(f64, f64)> = match node.tag_name().name() {
            "rect" => {
                let Rect { x0, y0, x1, y1 } = Rect::of(&node);
                vec![(x0, y1), (x0, y0), (x1, y0), (x1, y1)]
            }
            "polygon" => {
                let pairs = node.attribute("points").unwrap_or_default().split_whitespace();
                let pair = pairs.filter_map(|pair| pair.split_once(','));
                pair.map(|(x, y)| (x.parse().expect("x"), y.parse().expect("y"))).collect()
            }
            _ => continue,
        };
        let base = outline[0].1;
        if outline.iter().all(|p| p.1 <= lane.y0) || outline.iter().all(|p| p.1 >= lane.y1) {
            continue;
        }
        // Every outline is a staircase over a horizontal base.
        for pair in outline.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
            let (level, x0, x1) = (pair[0].1, pair[0].0, pair[1].0);
            let (top, bottom) = (level.min(base), level.max(base));
            for column in columns(x0, x1) {
                for row in (0..ROWS).filter(|&row| (top..bottom).contains(&at_y(row))) {
                    cells[column * ROWS + row] = fill.to_owned();
                }
            }
        }
    }
    let mut shares = BTreeMap::new();
    for fill in cells {
        *shares.entry(fill).or_insert(0.0) += 1.0 / (COLUMNS * ROWS) as f64;
    }
    shares
}

fn channels(fill: &str) -> Option<(i32, i32, i32)> {
    let channel = |at: usize| i32::from_str_radix(fill.get(at..at + 2)?, 16).ok();
    Some((channel(1)?, channel(3)?, channel(5)?))
}

/// Whether a fill is one of the reds of sleep.
pub(crate) fn is_red(fill: &str) -> bool {
    channels(fill).is_some_and(|(r, g, b)| r > g + 50 && r > b + 50)
}

/// Whether a fill is one of the greens of tasks.
pub(crate) fn is_green(fill: &str) -> bool {
    fill != LANE && channels(fill).is_some_and(|(r, g, b)| g > r + 8 && g >= b - 12)
}

/// The boxes of all texts, by a common estimate of their widths.
fn text_boxes<'a>(document: &'a Document<'_>) -> Vec<(Rect, &'a str)> {
    let boxed = |(node, text): (Node<'a, 'a>, &'a str)| {
        let size = number(&node, "font-size");
        let em = |c: char| if " ijl.,:·'".contains(c) { 0.3 } else { 0.58 };
        let width = text.chars().map(em).sum::<f64>() * size;
        let (x, y) = (number(&node, "x"), number(&node, "y"));
        let x0 = match node.attribute("text-anchor") {
            Some("end") => x - width,
            Some("middle") => x - width / 2.0,
            _ => x,
        };
        (Rect { x0, y0: y - size * 0.5, x1: x0 + width, y1: y + size * 0.5 }, text)
    };
    texts(document).into_iter().map(boxed).collect()
}

/// Fails if two texts overlap or leave the figure.
pub(crate) fn assert_texts_apart(document: &Document<'_>) {
    let view = document.root_element().attribute("viewBox").expect("a view box");
    let view: Vec<f64> = view.split(' ').map(|n| n.parse().expect("a number")).collect();
    let boxes = text_boxes(document);
    for (index, (rect, text)) in boxes.iter().enumerate() {
        assert!(rect.x0 >= 0.0 && rect.x1 <= view[2] && rect.y1 <= view[3], "`{text}` outside");
        for (other, before) in &boxes[..index] {
            assert!(!rect.overlaps(other), "`{text}` overlaps `{before}`");
        }
    }
}

/// Fails if a line of a batch or an epoch crosses a text.
pub(crate) fn assert_texts_off_lines(document: &Document<'_>) {
    let rects = document.descendants().filter(|node| node.has_tag_name("rect"));
    let rects = rects.map(|node| Rect::of(&node));
    let lines: Vec<Rect> =
        rects.filter(|r| r.x1 - r.x0 <= 100.0 && r.y1 - r.y0 > 5.0 * (r.x1 - r.x0)).collect();
    for (rect, text) in text_boxes(document) {
        assert!(!lines.iter().any(|line| line.overlaps(&rect)), "a line crosses `{text}`");
    }
}
