//! The line between forward and backward points: a soft-margin support vector
//! machine in two dimensions (patent US 11,239,993, claim 4).
//!
//! In its ν form it maximises the width of the margin less 1/(ν n) times what
//! points lie beyond it. For a given slope the best margin ends at a quantile of
//! each side, and the objective is the mean of the m = ν n lowest residuals of
//! each side; it is concave in the slope, so bisection on its derivative finds
//! the optimum, at O(n) a step.

/// 2⁻³¹ of 2·10⁻³ is 1 ps in a second.
const STEPS: u32 = 31;

/// A point of one side: A's clock from the base on, and the apparent delay less
/// what all points have in common; both in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// A line y = slope x between the sides, and where each side ends: the forward
/// side's delays are slope x + `forward` and more, the backward side's
/// -slope x + `backward` and more.
#[derive(Clone, Copy, Debug)]
pub struct Margin {
    pub slope: f64,
    pub forward: f64,
    pub backward: f64,
}

/// The widest margin of a slope within `slopes` with about a fraction `nu` of each side beyond
/// it. Both sides must have points.
pub fn widest(forward: &[Point], backward: &[Point], nu: f64, slopes: [f64; 2]) -> Margin {
    let mut forward = Side::new(forward, nu);
    let mut backward = Side::new(backward, nu);
    let [mut low, mut high] = slopes;
    for _ in 0..STEPS {
        let slope = (low + high) / 2.0;
        // The derivative: what a steeper line adds to one side and takes from the other.
        if backward.support(-slope).x > forward.support(slope).x {
            low = slope;
        } else {
            high = slope;
        }
    }
    let slope = (low + high) / 2.0;
    Margin { slope, forward: forward.support(slope).y, backward: backward.support(-slope).y }
}

struct Side<'a> {
    points: &'a [Point],
    beyond: usize,
    /// The points less the line, to select from.
    residuals: Vec<Point>,
}

impl<'a> Side<'a> {
    /// Two points beyond the margin at least: one may be wrong.
    fn new(points: &'a [Point], nu: f64) -> Self {
        let beyond = (nu * points.len() as f64) as usize;
        Self { points, beyond: beyond.max(2).min(points.len()), residuals: Vec::with_capacity(points.len()) }
    }

    /// Mean x of the points on or beyond the margin, and y where it ends.
    fn support(&mut self, slope: f64) -> Point {
        self.residuals.clear();
        self.residuals.extend(self.points.iter().map(|p| Point { x: p.x, y: p.y - slope * p.x }));
        self.residuals.select_nth_unstable_by(self.beyond - 1, |a, b| a.y.total_cmp(&b.y));
        let support = &self.residuals[..self.beyond];
        Point { x: support.iter().map(|p| p.x).sum::<f64>() / self.beyond as f64, y: support[self.beyond - 1].y }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `slope`, 5 us of delay, and a queue that every third point misses.
    fn side(slope: f64) -> Vec<Point> {
        (-500..500)
            .map(|i: i32| {
                let x = f64::from(i) * 2e6;
                let queue = if i % 3 == 0 { 0.0 } else { f64::from(i * i % 977) * 10.0 };
                Point { x, y: slope * x + 5_000.0 + queue }
            })
            .collect()
    }

    #[test]
    fn a_line_is_found_below_queues() {
        for slope in [0.0, 30e-6, -499e-6] {
            let margin = widest(&side(slope), &side(-slope), 0.01, [-1e-3, 1e-3]);
            assert!((margin.slope - slope).abs() < 1e-11, "{margin:?}");
            assert!((margin.forward - 5_000.0).abs() < 0.1, "{margin:?}");
            assert!((margin.backward - 5_000.0).abs() < 0.1, "{margin:?}");
        }
    }

    #[test]
    fn a_slope_stays_within_bounds() {
        let margin = widest(&side(30e-6), &side(-30e-6), 0.01, [-20e-6, 20e-6]);
        assert!((margin.slope - 20e-6).abs() < 1e-11, "{margin:?}");
    }

    #[test]
    fn one_wrong_point_moves_neither_end() {
        let mut forward = side(10e-6);
        forward[300].y -= 1e6;
        let margin = widest(&forward, &side(-10e-6), 0.01, [-1e-3, 1e-3]);
        assert!((margin.slope - 10e-6).abs() < 1e-9, "{margin:?}");
        assert!((margin.forward - 5_000.0).abs() < 1.0, "{margin:?}");
    }
}
