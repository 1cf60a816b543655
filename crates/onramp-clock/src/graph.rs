//! Least squares over a graph: potentials of nodes from differences along edges.
//!
//! The normal matrix is the graph's weighted Laplacian, solved by conjugate
//! gradients with a diagonal preconditioner. On a random mesh that needs about
//! 20 steps however large the mesh, while a sparse factorisation would fill in
//! almost fully.

use crate::random::hash;

/// Steps of conjugate gradients end at this fraction of the first residual.
const PRECISION: f64 = 1e-12;

/// An edge counts in full up to this many standard deviations and less beyond
/// (Huber's loss), so that no wrong edge can pull hard.
const FULL_COUNT: f64 = 1.5;

/// Share of a normal variable's variance that a weight so reduced leaves.
const VARIANCE_LEFT: f64 = 0.866;

/// Reweighting ends when no potential moves more than this many of the edges'
/// median standard deviation, or after so many times.
const SETTLED: f64 = 0.02;
const REWEIGHTINGS: usize = 40;

/// Samples of edge errors that variances are taken from: 12% in a standard
/// deviation. Up to as many nodes they are exact.
const SAMPLES: usize = 32;

/// The edges' own standard deviations count as much as this many loops in the
/// scale of the errors.
const PRIOR_LOOPS: f64 = 4.0;

/// Nodes 0 to n, exclusive, edges between them, and what is connected.
pub struct Graph {
    ends: Vec<(usize, usize)>,
    /// Of node i: `arcs[first[i]..first[i + 1]]`, each the other end and the edge.
    first: Vec<usize>,
    arcs: Vec<(usize, usize)>,
    /// Nodes of each connected part, each sorted, by their first node.
    pub parts: Vec<Vec<usize>>,
}

/// Potentials, and how well they fit.
pub struct Estimate {
    /// Zero at the first node of every part.
    pub potential: Vec<f64>,
    /// Per edge, what it says less the difference of its ends' potentials.
    pub surplus: Vec<f64>,
    /// Standard deviation of the edges' errors in units of what they claim.
    pub scale: f64,
    weights: Vec<f64>,
}

impl Graph {
    pub fn new(nodes: usize, ends: Vec<(usize, usize)>) -> Self {
        let mut first = vec![0; nodes + 1];
        for &(from, to) in &ends {
            first[from + 1] += 1;
            first[to + 1] += 1;
        }
        for i in 0..nodes {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut arcs = vec![(0, 0); 2 * ends.len()];
        for (edge, &(from, to)) in ends.iter().enumerate() {
            for (here, there) in [(from, to), (to, from)] {
                arcs[next[here]] = (there, edge);
                next[here] += 1;
            }
        }
        let mut graph = Self { ends, first, arcs, parts: Vec::new() };
        graph.parts = graph.connected();
        graph
    }

    /// The other end of each edge of `node`, and the edge's number.
    pub fn arcs(&self, node: usize) -> &[(usize, usize)] {
        &self.arcs[self.first[node]..self.first[node + 1]]
    }

    /// Edges beyond those of a spanning forest: independent loops.
    pub fn loops(&self) -> usize {
        self.ends.len() + self.parts.len() - self.nodes()
    }

    fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    fn connected(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.nodes()];
        let mut parts = Vec::new();
        for start in 0..self.nodes() {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            let mut part = vec![start];
            let mut done = 0;
            while done < part.len() {
                for &(other, _) in self.arcs(part[done]) {
                    if !std::mem::replace(&mut seen[other], true) {
                        part.push(other);
                    }
                }
                done += 1;
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts
    }

    /// The potentials that fit the `differences` along the edges best, each with
    /// its standard deviation in `sigmas`. `before`, if any, is an estimate of
    /// much the same, whose doubts about edges are a start.
    pub fn estimate(&self, differences: &[f64], sigmas: &[f64], before: Option<&Estimate>) -> Estimate {
        let settled = SETTLED * median(sigmas);
        let full: Vec<f64> = sigmas.iter().map(|s| 1.0 / (s * s)).collect();
        let mut weights = before.map_or_else(|| full.clone(), |b| b.weights.clone());
        let mut potential = vec![0.0; self.nodes()];
        let mut surplus: Vec<f64> = Vec::new();
        for _ in 0..REWEIGHTINGS {
            let rhs = self.gather(&weights.iter().zip(differences).map(|(w, d)| w * d).collect::<Vec<f64>>());
            let mut next = self.solve(&weights, &rhs, potential.clone());
            for part in &self.parts {
                let zero = next[part[0]];
                part.iter().for_each(|&i| next[i] -= zero);
            }
            let moved = next.iter().zip(&potential).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            potential = next;
            surplus = self.ends.iter().zip(differences).map(|(e, d)| d - (potential[e.1] - potential[e.0])).collect();
            if moved <= settled {
                break;
            }
            // Half of the edges count in full at least, else good edges that one of
            // years' error has displaced would hardly count and never come back.
            let off: Vec<f64> = surplus.iter().zip(sigmas).map(|(surplus, sigma)| surplus.abs() / sigma).collect();
            let full_count = FULL_COUNT.max(median(&off));
            for (i, weight) in weights.iter_mut().enumerate() {
                *weight = full[i] * (full_count / off[i]).min(1.0);
            }
        }
        let squares: f64 = surplus.iter().zip(&weights).map(|(s, w)| w * s * s / VARIANCE_LEFT).sum();
        let scale = ((squares + PRIOR_LOOPS) / (self.loops() as f64 + PRIOR_LOOPS)).sqrt();
        Estimate { potential, surplus, scale, weights }
    }

    /// Variance of each node's potential. Those of two nodes of a part add up to
    /// the variance of their difference, on average over the part: with two
    /// nodes, each has half of the edge's.
    pub fn variances(&self, estimate: &Estimate) -> Vec<f64> {
        let mut variances = vec![0.0; self.nodes()];
        let exact = self.nodes() <= SAMPLES;
        for sample in 0..if exact { self.nodes() } else { SAMPLES } {
            // Either what comes of a unit at one node, or of an error of one
            // standard deviation, up or down, on every edge.
            let rhs = if exact {
                (0..self.nodes()).map(|i| f64::from(i == sample)).collect()
            } else {
                let error = |e: usize| if hash(&[e as u64, sample as u64]) & 1 == 0 { 1.0 } else { -1.0 };
                let errors: Vec<f64> = estimate.weights.iter().enumerate().map(|(e, w)| error(e) * w.sqrt()).collect();
                self.gather(&errors)
            };
            let moved = self.solve(&estimate.weights, &self.centred(&rhs), vec![0.0; self.nodes()]);
            let moved = self.centred(&moved);
            if exact {
                variances[sample] = moved[sample].max(0.0);
            } else {
                variances.iter_mut().zip(&moved).for_each(|(v, m)| *v += m * m / SAMPLES as f64);
            }
        }
        for part in self.parts.iter().filter(|part| part.len() > 1) {
            let nodes = part.len() as f64;
            part.iter().for_each(|&i| variances[i] *= estimate.scale * estimate.scale * nodes / (nodes - 1.0));
        }
        variances
    }

    /// Sum at each node of what edges bring: plus at their end, minus at their start.
    fn gather(&self, along: &[f64]) -> Vec<f64> {
        let mut at = vec![0.0; self.nodes()];
        for (&(from, to), value) in self.ends.iter().zip(along) {
            at[from] -= value;
            at[to] += value;
        }
        at
    }

    /// Less the mean of each part.
    fn centred(&self, values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        for part in &self.parts {
            let mean = part.iter().map(|&i| values[i]).sum::<f64>() / part.len() as f64;
            part.iter().for_each(|&i| values[i] -= mean);
        }
        values
    }

    /// Laplacian times x = rhs by conjugate gradients from `x`. `rhs` must sum to
    /// zero over each part; x is determined up to a constant per part.
    fn solve(&self, weights: &[f64], rhs: &[f64], mut x: Vec<f64>) -> Vec<f64> {
        let arcs: Vec<(usize, f64)> = self.arcs.iter().map(|&(other, edge)| (other, weights[edge])).collect();
        let arcs_of = |i: usize| &arcs[self.first[i]..self.first[i + 1]];
        let diagonal: Vec<f64> = (0..self.nodes()).map(|i| arcs_of(i).iter().map(|a| a.1).sum()).collect();
        let times = |x: &[f64]| -> Vec<f64> {
            (0..x.len()).map(|i| arcs_of(i).iter().map(|&(other, weight)| weight * (x[i] - x[other])).sum()).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scaled = |r: &[f64]| -> Vec<f64> {
            r.iter().zip(&diagonal).map(|(r, d)| if *d > 0.0 { r / d } else { 0.0 }).collect()
        };
        let target = PRECISION * PRECISION * dot(rhs, &scaled(rhs));
        let mut residual: Vec<f64> = rhs.iter().zip(times(&x)).map(|(b, ax)| b - ax).collect();
        let mut direction = scaled(&residual);
        let mut power = dot(&residual, &direction);
        for _ in 0..4 * self.nodes() + 100 {
            if power <= target {
                break;
            }
            let image = times(&direction);
            let curvature = dot(&direction, &image);
            if curvature <= 0.0 {
                // Rounding is all that is left.
                break;
            }
            let step = power / curvature;
            x.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
            residual.iter_mut().zip(&image).for_each(|(r, i)| *r -= step * i);
            let next = scaled(&residual);
            let next_power = dot(&residual, &next);
            direction.iter_mut().zip(&next).for_each(|(d, n)| *d = n + next_power / power * *d);
            power = next_power;
        }
        x
    }
}

/// The middle value, of an even number the upper one; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triangle_shares_its_surplus() {
        let graph = Graph::new(3, vec![(0, 1), (1, 2), (0, 2)]);
        let estimate = graph.estimate(&[10.0, 10.0, 23.0], &[10.0; 3], None);
        assert!(estimate.potential.iter().zip([0.0, 11.0, 22.0]).all(|(a, b)| (a - b).abs() < 1e-9));
        assert!(estimate.surplus.iter().all(|s| (s.abs() - 1.0).abs() < 1e-9));
    }

    #[test]
    fn one_wrong_edge_pulls_no_more_than_its_share() {
        let ends: Vec<(usize, usize)> = (0..8).flat_map(|i| (0..i).map(move |j| (j, i))).collect();
        let mut differences = vec![0.0; ends.len()];
        differences[5] = 1e9;
        let estimate = Graph::new(8, ends.clone()).estimate(&differences, &vec![1.0; ends.len()], None);
        assert!(estimate.potential.iter().all(|p| p.abs() < 0.5), "{:?}", estimate.potential);
    }

    #[test]
    fn variances_are_those_of_resistors() {
        // Two nodes, and apart from them a complete graph of three.
        let graph = Graph::new(5, vec![(0, 1), (2, 3), (3, 4), (2, 4)]);
        assert_eq!(graph.parts, [vec![0, 1], vec![2, 3, 4]]);
        let estimate = graph.estimate(&[5.0, 0.0, 0.0, 0.0], &[2.0; 4], None);
        let variances = graph.variances(&estimate);
        let scale = estimate.scale * estimate.scale;
        for (variance, exact) in variances.iter().zip([2.0, 2.0, 4.0 / 3.0, 4.0 / 3.0, 4.0 / 3.0]) {
            assert!((variance - exact * scale).abs() < 1e-9, "{variances:?}");
        }
    }

    #[test]
    fn samples_agree_with_the_residual_edge_error() {
        // A random mesh of degree 2k leaves sigma sqrt((V - 1) / E) per edge.
        let hosts: Vec<u32> = (0..300).collect();
        let ends: Vec<(usize, usize)> =
            crate::mesh::edges(&hosts, 10, 1).iter().map(|&(a, b)| (a as usize, b as usize)).collect();
        let edges = ends.len();
        let graph = Graph::new(300, ends.clone());
        let estimate = graph.estimate(&vec![0.0; edges], &vec![1.0; edges], None);
        let scale = estimate.scale * estimate.scale;
        let mean = graph.variances(&estimate).iter().sum::<f64>() / 300.0 / scale;
        // Per host half of that of a pair; pairs further apart than an edge have a little more.
        let edge = 299.0 / edges as f64 / 2.0;
        assert!(mean > edge && mean < 1.25 * edge, "{mean} {edge}");
    }
}
