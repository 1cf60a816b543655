//! How Carousel's cores share a limit (Saeed et al., SIGCOMM'17, "one shaper per core"): from time to time each core's
//! use is counted, and the parts are set anew, max-min fair, by water-filling.

/// Share of its part from which on a core could use more.
const LIMITED: f64 = 0.98;
/// Use that a core may make that did not use up its part: a tenth more than it did, so that it can grow,
const HEADROOM: f64 = 1.1;
/// and at least this share of an equal part, so that it can begin. Nobody else has less for it, so that cores may exceed
/// the limit: by 2% where they take turns to grow (docs/studies.md).
const LEAST: f64 = 0.05;

/// Divides a limit anew; `used` is what each core used of its part. All in bits per second.
pub fn divide(limit: f64, parts: &mut [f64], used: &[f64]) {
    let least = LEAST * limit / parts.len() as f64;
    let mut order: Vec<(f64, usize)> = (parts.iter().zip(used).enumerate())
        .map(|(core, (&part, &used))| (if used >= LIMITED * part { f64::INFINITY } else { used }, core))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = limit;
    for (place, &(takes, core)) in order.iter().enumerate() {
        let fair = left / (order.len() - place) as f64;
        left -= takes.min(fair);
        parts[core] = if takes < fair { (HEADROOM * takes).max(least) } else { fair };
    }
    // Where nobody needs it, all have the rest.
    let rest = left / parts.len() as f64;
    parts.iter_mut().for_each(|part| *part += rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn divided(limit: f64, parts: &[f64], used: &[f64]) -> Vec<f64> {
        let mut parts = parts.to_vec();
        divide(limit, &mut parts, used);
        parts
    }

    #[test]
    fn what_a_core_does_not_need_goes_to_those_that_could_use_more() {
        // Two share 8 - 1; the others have 1 and a tenth, and the least: 5% of 2.
        assert_eq!(divided(8.0, &[2.0; 4], &[1.0, 2.0, 2.0, 0.0]), [1.1, 3.5, 3.5, 0.1]);
        // All could: equal parts.
        assert_eq!(divided(8.0, &[1.0, 1.0, 3.0, 3.0], &[1.0, 1.0, 3.0, 3.0]), [2.0; 4]);
        // Nobody could: each has what it may need, and an equal part of the rest, 7.
        let parts = divided(8.0, &[2.0; 4], &[1.0, 0.0, 0.0, 0.0]);
        assert!((parts[0] - (1.1 + 7.0 / 4.0)).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn parts_settle_where_demands_are_met() {
        let (wants, mut parts) = ([0.2, 0.3, 5.0, 9.0], [2.5; 4]);
        for _ in 0..20 {
            let used: Vec<_> = wants.iter().zip(&parts).map(|(&want, &part): (&f64, &f64)| want.min(part)).collect();
            divide(10.0, &mut parts, &used);
        }
        // Max-min: the first two have what they want, the others half of the rest. The limit is used up.
        let expected = [0.22, 0.33, 4.75, 4.75];
        assert!(parts.iter().zip(expected).all(|(part, e)| (part - e).abs() < 1e-9), "{parts:?}");
    }

    proptest! {
        #[test]
        fn parts_are_the_limit_and_what_lets_cores_grow_and_none_is_nothing(
            cores in proptest::collection::vec((0.01f64..10.0, 0.0f64..10.0), 1..20), limit in 0.1f64..1e9,
        ) {
            let (parts, used): (Vec<_>, Vec<_>) = cores.into_iter().unzip();
            let parts = divided(limit, &parts, &used);
            let all = parts.iter().sum::<f64>() / limit;
            prop_assert!((1.0 - 1e-9..HEADROOM + LEAST).contains(&all), "{}", all);
            prop_assert!(parts.iter().all(|&part| part >= (1.0 - 1e-9) * LEAST * limit / parts.len() as f64));
        }
    }
}
