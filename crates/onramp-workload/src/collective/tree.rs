//! Two binary trees, each for half of the data: sums go up, results come down, piece by piece. A rank that is a leaf of
//! one is inside the other, so that all send and receive alike (Sanders, Speck, Träff, "Two-tree algorithms for full
//! bandwidth broadcast, reduction and scan", Parallel Computing 2009).

use super::operation::{Label, Member, Piece, Task, share};
use std::collections::BTreeMap;

/// A rank's neighbours in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    parent: Option<u32>,
    children: Vec<u32>,
}

/// The tree over 0 to `n` in which leaves are odd: the lowest bit of a number that is set is its height.
fn plain(me: u32, n: u32) -> Place {
    let height = if me == 0 { n.next_power_of_two() } else { me & me.wrapping_neg() };
    let parent = (me > 0).then(|| {
        let above = (me ^ height) | (height << 1);
        if above < n { above } else { me ^ height }
    });
    let below = |sign: bool| {
        let mut step = height / 2;
        while step > 0 {
            let child = if sign { me + step } else { me.wrapping_sub(step) };
            if child < n {
                return Some(child);
            }
            step /= 2;
        }
        None
    };
    let children = if me == 0 { vec![below(true)] } else { vec![below(false), below(true)] };
    Place { parent, children: children.into_iter().flatten().collect() }
}

/// A rank's place in one of the two trees.
fn place(tree: u32, me: u32, n: u32) -> Place {
    if tree == 0 {
        return plain(me, n);
    }
    // Mirrored, or shifted by one: whoever was inside is a leaf.
    let turn = |me: u32, by: u32| if n.is_multiple_of(2) { n - 1 - me } else { (me + by) % n };
    let back = |other| turn(other, 1);
    let Place { parent, children } = plain(turn(me, n - 1), n);
    Place { parent: parent.map(back), children: children.into_iter().map(back).collect() }
}

/// Places that a rank sends to.
pub fn peers(me: u32, n: u32) -> Vec<u32> {
    let of = |tree| {
        let Place { parent, children } = place(tree, me, n);
        parent.into_iter().chain(children)
    };
    of(0).chain(of(1)).collect()
}

/// Steps: those of the first tree, then of the second.
const UP: u32 = 0;
const DOWN: u32 = 1;

/// One rank's part.
#[derive(Debug)]
pub struct Trees {
    task: Task,
    places: [Place; 2],
    /// Sums that have come from some children only, by tree and piece.
    partial: BTreeMap<(u32, u32), usize>,
    left: u64,
}

impl Trees {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        let places = [0, 1].map(|tree| place(tree, task.me, task.n));
        let to_come = |tree: u32| {
            let Place { parent, children } = &places[tree as usize];
            u64::from(task.pieces(share(task.bytes, tree, 2))) * (children.len() as u64 + u64::from(parent.is_some()))
        };
        let left = to_come(0) + to_come(1);
        Self { task, places, partial: BTreeMap::new(), left }
    }

    fn send(&self, tree: u32, way: u32, to: u32, piece: u32, out: &mut Vec<Piece>) {
        let bytes = self.task.share(tree, 2);
        out.push(self.task.piece(to, bytes, Label { step: 2 * tree + way, piece }));
    }

    fn send_down(&self, tree: u32, piece: u32, out: &mut Vec<Piece>) {
        for &child in &self.places[tree as usize].children {
            self.send(tree, DOWN, child, piece, out);
        }
    }
}

impl Member for Trees {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        for tree in 0..2 {
            let Place { parent, children } = &self.places[tree as usize];
            if let (Some(parent), true) = (*parent, children.is_empty()) {
                let pieces = self.task.pieces(self.task.share(tree, 2));
                (0..pieces).for_each(|piece| self.send(tree, UP, parent, piece, out));
            }
        }
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        self.left -= 1;
        let (tree, piece) = (label.step / 2, label.piece);
        if label.step % 2 == DOWN {
            return self.send_down(tree, piece, out);
        }
        let come = self.partial.entry((tree, piece)).or_default();
        *come += 1;
        if *come < self.places[tree as usize].children.len() {
            return;
        }
        self.partial.remove(&(tree, piece));
        match self.places[tree as usize].parent {
            Some(parent) => self.send(tree, UP, parent, piece, out),
            None => self.send_down(tree, piece, out),
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_and_nobody_is_inside_both_trees() {
        for n in 2..200 {
            for tree in 0..2 {
                let places: Vec<Place> = (0..n).map(|me| place(tree, me, n)).collect();
                assert_eq!(places.iter().filter(|place| place.parent.is_none()).count(), 1, "{n}");
                let edges: usize = places.iter().map(|place| place.children.len()).sum();
                assert_eq!(edges, n as usize - 1, "{n} {places:?}");
                for (me, place) in (0..).zip(&places) {
                    for &child in &place.children {
                        assert_eq!(places[child as usize].parent, Some(me), "{n}");
                    }
                }
            }
            let inside = |tree, me| place(tree, me, n).children.len() == 2;
            assert!((0..n).all(|me| !(inside(0, me) && inside(1, me))), "{n}");
        }
    }
}
