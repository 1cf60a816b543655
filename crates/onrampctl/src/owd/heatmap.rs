//! Delays as a picture: a PNG whose colours are 99th percentiles.

use super::Matrix;
use embedded_graphics::Pixel;
use embedded_graphics::mono_font::iso_8859_1::{FONT_6X10, FONT_7X13, FONT_7X13_BOLD, FONT_9X15_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor as _};
use embedded_graphics::prelude::{Dimensions, DrawTarget, Drawable as _, Point, Size};
use embedded_graphics::primitives::Rectangle;
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyle, TextStyleBuilder};
use onrampd::config::quantity::show_time;
use std::convert::Infallible;
use std::io;

/// More would make a picture that nothing shows.
const MAX_HOSTS: usize = 4096;
/// Edge of all cells together, and of the largest cell, in pixels.
const PLOT: usize = 720;
const LARGEST: usize = 110;
/// Cells of this size hold p99 and p50; of this, p99.
const TWO_LINES: i32 = 72;
const ONE_LINE: i32 = 36;
/// Around and between the parts, in pixels.
const GAP: i32 = 16;
/// The scale's.
const BAR_WIDTH: i32 = 18;
const BAR_HEIGHT: i32 = 200;
/// Logarithms begin here: a delay below is an error of the clocks.
const LEAST_NS: f64 = 100.0;

const INK: Rgb888 = Rgb888::new(0x22, 0x22, 0x22);
const FAINT: Rgb888 = Rgb888::new(0x77, 0x77, 0x77);
const NO_PROBES: Rgb888 = Rgb888::new(0xe8, 0xe8, 0xe8);
const SELF: Rgb888 = Rgb888::new(0xc4, 0xc4, 0xc4);

/// Viridis in ten steps: even to the eye, also without colours.
const COLOURS: [[u8; 3]; 10] = [
    [0x44, 0x01, 0x54],
    [0x48, 0x28, 0x78],
    [0x3e, 0x49, 0x89],
    [0x31, 0x68, 0x8e],
    [0x26, 0x82, 0x8e],
    [0x1f, 0x9e, 0x89],
    [0x35, 0xb7, 0x79],
    [0x6e, 0xce, 0x58],
    [0xb5, 0xde, 0x2b],
    [0xfd, 0xe7, 0x25],
];

/// The bytes of a PNG file; the same for the same delays.
///
/// # Errors
/// There are more than 4096 hosts.
pub fn png(matrix: &Matrix) -> io::Result<Vec<u8>> {
    if matrix.hosts.len() > MAX_HOSTS {
        let many = format!("{} hosts are too many for a picture: at most {MAX_HOSTS}", matrix.hosts.len());
        return Err(io::Error::other(many));
    }
    draw(matrix).encode()
}

fn draw(matrix: &Matrix) -> Canvas {
    let hosts: Vec<String> = matrix.hosts.iter().map(ToString::to_string).collect();
    let n = hosts.len();
    let cell = (PLOT / n.max(1)).clamp(1, LARGEST) as i32;
    let font = if cell >= 14 { &FONT_7X13 } else { &FONT_6X10 };
    let label = hosts.iter().map(|h| width(h, font)).max().unwrap_or(0) + GAP / 2;
    let scale = Scale::of(matrix);
    let title = "One-way delay, 99th percentile";
    let how = match cell {
        TWO_LINES.. => "rows from, columns to; below: median",
        ONE_LINE.. => "rows from, columns to; in µs",
        _ => "rows from, columns to",
    };
    let subtitle = format!("{n} hosts: {how}");

    let plot = Point::new(GAP + label, GAP + 42 + label);
    let edge = cell * n as i32;
    let legend = Point::new(plot.x + edge + 2 * GAP, plot.y);
    let widest = (legend.x + BAR_WIDTH + 80).max(GAP + width(title, &FONT_9X15_BOLD)).max(GAP + width(&subtitle, font));
    let lowest = plot.y + edge.max(BAR_HEIGHT) + 30;
    let mut canvas = Canvas::new(widest + GAP, lowest + GAP);

    canvas.text(Point::new(GAP, GAP), title, &FONT_9X15_BOLD, INK, LEFT);
    canvas.text(Point::new(GAP, GAP + 20), &subtitle, &FONT_7X13, FAINT, LEFT);
    // Where cells are smaller than letters, not every host is named.
    let height = font.character_size.height as i32;
    for (at, host) in hosts.iter().enumerate().step_by(((height + cell - 1) / cell) as usize) {
        let middle = at as i32 * cell + cell.max(height) / 2;
        canvas.text(plot + Point::new(-GAP / 2, middle), host, font, INK, RIGHT_MIDDLE);
        let corner = plot + Point::new(middle, -GAP / 2);
        Turned { canvas: &mut canvas, corner }.text(host, font);
    }
    // A line between cells, where there is room for it.
    let size = if cell >= 6 { cell - 1 } else { cell };
    let corner = |from: usize, to: usize| plot + Point::new(to as i32 * cell, from as i32 * cell);
    for from in 0..n {
        for to in 0..n {
            canvas.fill(corner(from, to), size, size, if from == to { SELF } else { NO_PROBES });
        }
    }
    for (from, to, owd) in matrix.cells() {
        let at = corner(from, to);
        let colour = scale.colour(owd.p99_ns);
        canvas.fill(at, size, size, colour);
        let ink = contrast(colour);
        let middle = at + Point::new(size / 2, size / 2);
        if cell >= TWO_LINES {
            canvas.text(middle - Point::new(0, 8), &show_time(owd.p99_ns), &FONT_7X13_BOLD, ink, MIDDLE);
            canvas.text(middle + Point::new(0, 8), &show_time(owd.p50_ns), &FONT_6X10, ink, MIDDLE);
        } else if cell >= ONE_LINE {
            canvas.text(middle, &in_microseconds(owd.p99_ns), &FONT_6X10, ink, MIDDLE);
        }
    }
    scale.draw(&mut canvas, legend, edge.max(BAR_HEIGHT));
    canvas
}

fn in_microseconds(ns: i64) -> String {
    let us = ns as f64 / 1e3;
    if us.abs() < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn width(text: &str, font: &MonoFont<'_>) -> i32 {
    text.chars().count() as i32 * font.character_size.width as i32
}

/// Logarithmic, from a round number to another.
struct Scale {
    low: f64,
    high: f64,
    ticks: Vec<i64>,
}

impl Scale {
    fn of(matrix: &Matrix) -> Self {
        let all = || matrix.delays.iter().map(|p| (p.owd.p99_ns as f64).max(LEAST_NS));
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(LEAST_NS, f64::max));
        let rounds: Vec<i64> = (2..18).flat_map(|decade| [1, 2, 5].map(|m| m * 10i64.pow(decade))).collect();
        let first = rounds.iter().rposition(|r| *r as f64 <= least.min(most)).unwrap_or(0);
        let last = rounds.iter().position(|r| *r as f64 >= most).unwrap_or(rounds.len() - 1).max(first + 1);
        let ticks = rounds[first..=last.min(rounds.len() - 1)].to_vec();
        let log = |tick: Option<&i64>| tick.map_or(0.0, |t| libm::log10(*t as f64));
        Self { low: log(ticks.first()), high: log(ticks.last()), ticks }
    }

    /// 0 to 1.
    fn place(&self, ns: i64) -> f64 {
        let log = libm::log10((ns as f64).max(LEAST_NS));
        ((log - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn colour(&self, ns: i64) -> Rgb888 {
        colour(self.place(ns))
    }

    fn draw(&self, canvas: &mut Canvas, at: Point, height: i32) {
        for y in 0..height {
            let place = 1.0 - f64::from(y) / f64::from(height - 1);
            canvas.fill(at + Point::new(0, y), BAR_WIDTH, 1, colour(place));
        }
        // No more than there is room for.
        let step = self.ticks.len().div_ceil((height / 20) as usize).max(1);
        for tick in self.ticks.iter().step_by(step) {
            let y = ((1.0 - self.place(*tick)) * f64::from(height - 1)).round() as i32;
            canvas.fill(at + Point::new(BAR_WIDTH, y), 4, 1, INK);
            canvas.text(at + Point::new(BAR_WIDTH + 8, y), &round_time(*tick), &FONT_7X13, INK, LEFT_MIDDLE);
        }
        let below = at + Point::new(0, height + 12);
        canvas.fill(below, BAR_WIDTH, 12, NO_PROBES);
        canvas.text(below + Point::new(BAR_WIDTH + 8, 6), "no probes", &FONT_7X13, INK, LEFT_MIDDLE);
    }
}

fn colour(place: f64) -> Rgb888 {
    let at = place * (COLOURS.len() - 1) as f64;
    let below = (at as usize).min(COLOURS.len() - 2);
    let part = at - below as f64;
    let [r, g, b] = [0, 1, 2].map(|c| {
        let (from, to) = (f64::from(COLOURS[below][c]), f64::from(COLOURS[below + 1][c]));
        (from + part * (to - from)).round() as u8
    });
    Rgb888::new(r, g, b)
}

/// White on dark, black on bright (ITU-R BT.601 luma).
fn contrast(on: Rgb888) -> Rgb888 {
    let luma = 299 * u32::from(on.r()) + 587 * u32::from(on.g()) + 114 * u32::from(on.b());
    if luma < 140_000 { Rgb888::WHITE } else { INK }
}

/// A round time without decimals.
fn round_time(ns: i64) -> String {
    let (scale, unit) = match ns {
        ..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{} {unit}", ns / scale)
}

const LEFT: TextStyle = style(Alignment::Left, Baseline::Top);
const LEFT_MIDDLE: TextStyle = style(Alignment::Left, Baseline::Middle);
const RIGHT_MIDDLE: TextStyle = style(Alignment::Right, Baseline::Middle);
const MIDDLE: TextStyle = style(Alignment::Center, Baseline::Middle);

const fn style(alignment: Alignment, baseline: Baseline) -> TextStyle {
    TextStyleBuilder::new().alignment(alignment).baseline(baseline).build()
}

/// Pixels, row by row, three bytes each.
struct Canvas {
    width: i32,
    height: i32,
    bytes: Vec<u8>,
}

impl Canvas {
    fn new(width: i32, height: i32) -> Self {
        Self { width, height, bytes: vec![0xff; 3 * (width * height) as usize] }
    }

    fn text(&mut self, at: Point, text: &str, font: &MonoFont<'_>, colour: Rgb888, style: TextStyle) {
        let Ok(_) = Text::with_text_style(text, at, MonoTextStyle::new(font, colour), style).draw(self);
    }

    fn fill(&mut self, at: Point, width: i32, height: i32, colour: Rgb888) {
        let rows = (at.y..at.y + height).flat_map(|y| (at.x..at.x + width).map(move |x| Point::new(x, y)));
        let Ok(()) = self.draw_iter(rows.map(|at| Pixel(at, colour)));
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width.unsigned_abs(), self.height.unsigned_abs());
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer.write_image_data(&self.bytes).map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)?;
        Ok(out)
    }
}

impl Dimensions for Canvas {
    fn bounding_box(&self) -> Rectangle {
        Rectangle::new(Point::zero(), Size::new(self.width.unsigned_abs(), self.height.unsigned_abs()))
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            if (0..self.width).contains(&at.x) && (0..self.height).contains(&at.y) {
                let byte = 3 * (at.y * self.width + at.x) as usize;
                self.bytes[byte..byte + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

/// A canvas on which what goes right goes up.
struct Turned<'a> {
    canvas: &'a mut Canvas,
    corner: Point,
}

impl Turned<'_> {
    fn text(&mut self, text: &str, font: &MonoFont<'_>) {
        let style = MonoTextStyle::new(font, INK);
        let Ok(_) = Text::with_text_style(text, Point::zero(), style, LEFT_MIDDLE).draw(self);
    }
}

impl Dimensions for Turned<'_> {
    fn bounding_box(&self) -> Rectangle {
        let edge = self.canvas.width.max(self.canvas.height);
        Rectangle::with_corners(Point::new_equal(-edge), Point::new_equal(edge))
    }
}

impl DrawTarget for Turned<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let corner = self.corner;
        self.canvas
            .draw_iter(pixels.into_iter().map(|Pixel(at, colour)| Pixel(corner + Point::new(at.y, -at.x), colour)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::matrix;
    use super::*;
    use onrampd::fleet::wire::{Delays, Fleet, Pair};

    /// The picture and what it decodes to.
    fn picture(matrix: &Matrix) -> (u32, u32, Vec<u8>) {
        let bytes = png(matrix).unwrap();
        let mut reader = png::Decoder::new(io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn any_number_of_hosts_is_a_picture_and_the_same_one_each_time() {
        for (n, k) in [(0, 0), (1, 0), (2, 1), (8, 3), (40, 10), (150, 4)] {
            let matrix = matrix(n, k);
            let (width, height, pixels) = picture(&matrix);
            assert!(width < 1600 && height < 1600, "{n}: {width} x {height}");
            assert!(pixels == draw(&matrix).bytes, "{n}");
        }
    }

    #[test]
    fn each_pair_has_its_colour() {
        let matrix = matrix(8, 3);
        let scale = Scale::of(&matrix);
        let canvas = draw(&matrix);
        let has = |colour: Rgb888| canvas.bytes.chunks(3).any(|p| p == [colour.r(), colour.g(), colour.b()]);
        for (_, _, owd) in matrix.cells() {
            assert!(has(scale.colour(owd.p99_ns)), "{owd:?}");
        }
        assert!(has(NO_PROBES) && has(SELF));
    }

    #[test]
    fn the_scale_holds_all_delays_between_round_numbers() {
        let of = |p99: &[i64]| {
            let pair = |(i, p99_ns): (usize, &i64)| {
                let owd = Delays { min_ns: 1, p50_ns: 2, p99_ns: *p99_ns };
                Pair { from: [10, 0, 0, 1].into(), to: [10, 0, 1, i as u8].into(), owd }
            };
            Scale::of(&Matrix::of(&Fleet { delays: p99.iter().enumerate().map(pair).collect(), ..Fleet::default() }))
        };
        assert_eq!(of(&[3_000, 42_000]).ticks, [2_000, 5_000, 10_000, 20_000, 50_000]);
        assert_eq!(of(&[5_000]).ticks, [5_000, 10_000]);
        assert_eq!(of(&[]).ticks, [100, 200]);
        // Clocks that are off, and what no network does.
        assert_eq!(of(&[-7_000, 150]).ticks, [100, 200]);
        let wide = of(&[i64::MIN, i64::MAX]);
        assert_eq!((wide.place(i64::MIN), wide.place(i64::MAX)), (0.0, 1.0));
        let ticks: Vec<String> = of(&[600_000, 1_500_000]).ticks.into_iter().map(round_time).collect();
        assert_eq!(ticks, ["500 µs", "1 ms", "2 ms"]);
    }
}
