//! GoogleSearchRPC: messages of a search application at Google, the table
//! `Google_SearchRPC.txt` of the Homa simulator (Homa, SIGCOMM'18).

use super::{Cdf, Rule};

/// Size in bytes and cumulative probability. From 32 B up these are every tenth
/// point of the table; the nine in between follow from them.
const ANCHORS: [(u32, f64); 21] = [
    (1, 0.0),
    (2, 0.075_603_390),
    (3, 0.132_305_933),
    (4, 0.151_206_780),
    (8, 0.170_107_628),
    (32, 0.189_008_475),
    (64, 0.326_435_928),
    (128, 0.341_703_174),
    (256, 0.463_839_541),
    (512, 0.910_400_620),
    (1_024, 0.958_110_137),
    (2_048, 0.981_010_713),
    (4_096, 0.995_323_562),
    (8_192, 0.998_424_683),
    (16_384, 0.998_901_778),
    (32_768, 0.999_140_325),
    (65_536, 0.999_349_054),
    (131_072, 0.999_870_877),
    (262_144, 0.999_975_242),
    (524_288, 0.999_982_696),
    (3_529_904, 1.0),
];

/// Ten steps of equal probability between two anchors, with the reciprocal of
/// the size linear in probability: the table's own construction.
pub(super) fn cdf() -> Cdf {
    let mut points = Vec::new();
    for pair in ANCHORS.windows(2) {
        let ((a, p), (b, q)) = ((f64::from(pair[0].0), pair[0].1), (f64::from(pair[1].0), pair[1].1));
        let steps = if a < 32.0 { 1 } else { 10 };
        points.extend((0..steps).map(|i| {
            let share = f64::from(i) / f64::from(steps);
            let size = 1.0 / (1.0 / a + (1.0 / b - 1.0 / a) * share);
            (size.round(), p + (q - p) * share)
        }));
    }
    let (size, p) = ANCHORS[ANCHORS.len() - 1];
    points.push((f64::from(size), p));
    Cdf { rule: Rule::Step, points }
}
