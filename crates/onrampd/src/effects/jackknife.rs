//! How sure a value is that was computed from all of some parts, by computing it without each of them (B. Efron and
//! R. Tibshirani, An Introduction to the Bootstrap, 1993, ch. 11). Pure.

/// Variance of a value, of groups of parts that have nothing to do with each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    variance: f64,
    /// Sum of the groups' variances squared, each by its degrees of freedom (Welch–Satterthwaite).
    squares: f64,
}

impl Spread {
    /// Adds a group: the value without each of its parts, of which there are two at least.
    pub fn add(&mut self, left_out: &[f64]) {
        let n = left_out.len() as f64;
        let mean = left_out.iter().sum::<f64>() / n;
        let variance = (n - 1.0) / n * left_out.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        self.variance += variance;
        self.squares += variance.powi(2) / (n - 1.0);
    }

    /// Half an interval of the confidence whose normal quantile is `z`, such as 1.96 for 95%; 0 if no part differs.
    #[must_use]
    pub fn half(&self, z: f64) -> f64 {
        if self.squares == 0.0 { 0.0 } else { student(z, self.variance.powi(2) / self.squares) * self.variance.sqrt() }
    }
}

/// Student's quantile with `freedom` degrees, three or more, where the normal one is `z` (M. Abramowitz and I. Stegun, Handbook
/// of Mathematical Functions, 1964, 26.7.5).
fn student(z: f64, freedom: f64) -> f64 {
    let [z3, z5, z7] = [3, 5, 7].map(|n| z.powi(n));
    let terms = [
        z,
        (z3 + z) / 4.0,
        (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0,
        (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (freedom, t) in
            [(3.0, 3.182), (7.0, 2.3646), (8.0, 2.3060), (10.0, 2.2281), (20.0, 2.0860), (38.0, 2.0244), (1e9, 1.9600)]
        {
            let found = student(1.959_963_985, freedom);
            assert!((found / t - 1.0).abs() < 0.01, "{freedom}: {found}");
        }
    }

    #[test]
    fn of_a_mean_it_is_the_variance_of_a_mean() {
        let parts = [1.0, 4.0, 2.0, 7.0];
        let sum: f64 = parts.iter().sum();
        let mut spread = Spread::default();
        spread.add(&parts.map(|part| (sum - part) / 3.0));
        let variance = parts.iter().map(|part| (part - sum / 4.0).powi(2)).sum::<f64>() / 3.0 / 4.0;
        assert!((spread.variance - variance).abs() < 1e-12);
        assert_eq!(Spread::default().half(1.96), 0.0);
    }
}
