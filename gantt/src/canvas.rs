//! Drawing in pixels and fractions of pixels.
//!
//! The SVG backend takes whole numbers only, and too few of them fit between two pixels. The
//! canvas is therefore drawn [`UNIT`] times as large, and its root element says how large it is
//! to be shown. Widths of text are estimates, since the backend has no fonts; they err on the
//! wide side.

use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, TextStyle};

use crate::theme::Tone;
use crate::{GanttError, Theme};

/// Units per pixel.
pub(crate) const UNIT: i32 = 50;
const FONT: &str = "Helvetica, Arial, sans-serif";
/// The backend divides font sizes by this.
const BACKEND_SCALE: f64 = 1.24;

/// A figure in the making.
pub(crate) struct Canvas<'a> {
    svg: SVGBackend<'a>,
    theme: Theme,
}

/// Where text starts, relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Centre,
    Right,
}

/// Size in pixels, weight and tone of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Font {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) tone: Tone,
}

impl Font {
    pub(crate) const fn new(size: f64, tone: Tone) -> Self {
        Font { size, bold: false, tone }
    }

    pub(crate) const fn bold(size: f64, tone: Tone) -> Self {
        Font { size, bold: true, tone }
    }

    /// Upper estimate of the width of `text` in pixels.
    pub(crate) fn width(&self, text: &str) -> f64 {
        let ems: f64 = text.chars().map(em).sum();
        self.size * ems * if self.bold { 1.1 } else { 1.0 }
    }

    /// `text`, cut and marked as cut if it is wider than `width` pixels.
    pub(crate) fn fit(&self, text: &str, width: f64) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let mut cut = String::new();
        for c in text.chars() {
            cut.push(c);
            if self.width(&cut) + self.width("…") > width {
                cut.pop();
                break;
            }
        }
        cut.push('…');
        cut
    }
}

/// Width of a character in a wide sans-serif font, in units of the font size.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | 'I' | ' ' | '!' | '·' => 0.34,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.43,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' | '–' => 1.0,
        'A'..='Z' | '&' => 0.76,
        '<' | '>' | '=' | '+' | '~' => 0.84,
        '\0'..='\u{2ff}' => 0.64,
        _ => 1.05,
    }
}

/// Coordinates of a point in units.
pub(crate) fn units(px: f64) -> i32 {
    (px * f64::from(UNIT)).round() as i32
}

/// Draws a figure of `width` by `height` pixels.
pub(crate) fn figure(
    (width, height): (f64, f64),
    theme: Theme,
    draw: impl FnOnce(&mut Canvas<'_>) -> Result<(), GanttError>,
) -> Result<String, GanttError> {
    let mut document = String::new();
    let size = (units(width) as u32, units(height) as u32);
    {
        let mut canvas = Canvas { svg: SVGBackend::with_string(&mut document, size), theme };
        canvas.rect((0.0, 0.0), (width, height), Tone::Page)?;
        draw(&mut canvas)?;
        canvas.svg.present().map_err(failed)?;
    }
    // The root element asks for a size in units; only its view box should.
    let large = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let rest = document
        .strip_prefix(&large)
        .ok_or_else(|| GanttError::Draw("the root element has an unknown form".to_owned()))?;
    Ok(format!("<svg width=\"{width:.0}\" height=\"{height:.0}\"{rest}"))
}

impl Canvas<'_> {
    /// Fills a rectangle given by two corners in pixels.
    pub(crate) fn rect(
        &mut self,
        (x0, y0): (f64, f64),
        (x1, y1): (f64, f64),
        tone: Tone,
    ) -> Result<(), GanttError> {
        self.unit_rect((units(x0), units(y0)), (units(x1), units(y1)), tone)
    }

    /// Fills a rectangle given by two corners in units.
    pub(crate) fn unit_rect(
        &mut self,
        from: (i32, i32),
        to: (i32, i32),
        tone: Tone,
    ) -> Result<(), GanttError> {
        self.svg.draw_rect(from, to, &self.theme.colour(tone), true).map_err(failed)
    }

    /// Fills a polygon given in units.
    pub(crate) fn polygon(
        &mut self,
        points: impl IntoIterator<Item = (i32, i32)>,
        tone: Tone,
    ) -> Result<(), GanttError> {
        self.svg.fill_polygon(points, &self.theme.colour(tone)).map_err(failed)
    }

    /// Writes one line of text; `y` is its middle.
    pub(crate) fn text(
        &mut self,
        (x, y): (f64, f64),
        align: Align,
        font: Font,
        text: &str,
    ) -> Result<(), GanttError> {
        let weight = if font.bold { FontStyle::Bold } else { FontStyle::Normal };
        let size = font.size * f64::from(UNIT) * BACKEND_SCALE;
        let anchor = match align {
            Align::Left => HPos::Left,
            Align::Centre => HPos::Center,
            Align::Right => HPos::Right,
        };
        let style = TextStyle {
            font: (FontFamily::Name(FONT), size, weight).into(),
            color: plotters::style::Color::to_backend_color(&self.theme.colour(font.tone)),
            pos: Pos::new(anchor, VPos::Center),
        };
        let text: String = text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect();
        self.svg.draw_text(&text, &style, (units(x), units(y))).map_err(failed)
    }
}

/// Whether XML may contain the character, and a single line of text too.
fn allowed(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')
}

fn failed(error: impl std::fmt::Display) -> GanttError {
    GanttError::Draw(error.to_string())
}
