use super::*;
use proptest::prelude::*;
use std::io::Cursor;

fn parse(text: &str) -> Result<Cdf, String> {
    read::read(&mut Lines::new("sizes.txt", Cursor::new(text)))
}

fn get(name: &str) -> Cdf {
    size_distribution(name, Path::new("/nowhere")).unwrap()
}

/// Shares of flows and of bytes in flows up to `limit`, from a million evenly
/// spaced probabilities.
fn shares(cdf: &Cdf, limit: u64) -> (f64, f64) {
    let sizes: Vec<u64> = (0..1_000_000).map(|i| cdf.sample((f64::from(i) + 0.5) / 1e6)).collect();
    let small: Vec<u64> = sizes.iter().copied().filter(|s| *s <= limit).collect();
    let bytes = |sizes: &[u64]| sizes.iter().sum::<u64>() as f64;
    (small.len() as f64 / 1e6, bytes(&small) / bytes(&sizes))
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

#[test]
fn built_in_means_are_those_of_their_tables() {
    assert!(close(get("WebSearch").mean(), 1_711_250.0, 1e-6));
    assert!(close(get("FB_Hadoop").mean(), 120_420.75, 1e-6));
    assert!(close(get("GoogleSearchRPC").mean(), 440.79, 0.005));
}

#[test]
fn sampled_means_are_those_of_the_table() {
    for name in ["WebSearch", "FB_Hadoop", "GoogleSearchRPC"] {
        let cdf = get(name);
        let sum: u64 = (0..1_000_000).map(|i| cdf.sample((f64::from(i) + 0.5) / 1e6)).sum();
        // Sizes are whole bytes, rounded down: half a byte less.
        assert!(close(sum as f64 / 1e6, cdf.mean(), 0.5 + cdf.mean() * 1e-3), "{name}");
    }
}

#[test]
fn built_in_shares_up_to_10_kb_are_the_published_ones() {
    let (flows, bytes) = shares(&get("WebSearch"), 10_000);
    assert!(close(flows, 0.15, 1e-3) && close(bytes, 0.0004, 1e-4), "{flows} {bytes}");
    let (flows, bytes) = shares(&get("FB_Hadoop"), 10_000);
    assert!(close(flows, 0.703, 1e-3) && close(bytes, 0.005, 5e-4), "{flows} {bytes}");
    let (flows, bytes) = shares(&get("GoogleSearchRPC"), 10_000);
    assert!(close(flows, 0.9986, 1e-4) && close(bytes, 0.74, 5e-3), "{flows} {bytes}");
}

#[test]
fn google_search_rpc_has_the_points_of_its_table() {
    let cdf = get("GoogleSearchRPC");
    assert_eq!(cdf.points.len(), 156);
    let ascending = |p: &[(f64, f64)]| p[0].0 < p[1].0 && p[0].1 < p[1].1;
    assert!(cdf.points.windows(2).all(ascending));
    let between = |low: f64, high: f64| -> Vec<u32> {
        cdf.points.iter().map(|p| p.0).filter(|s| *s > low && *s < high).map(|s| s as u32).collect()
    };
    assert_eq!(between(32.0, 64.0), [34, 36, 38, 40, 43, 46, 49, 53, 58]);
    assert_eq!(between(256.0, 512.0), [269, 284, 301, 320, 341, 366, 394, 427, 465]);
    let tail = [573_085, 631_896, 704_160, 795_085, 912_974, 1_071_908, 1_297_841, 1_644_453, 2_243_665];
    assert_eq!(between(524_288.0, 3_529_904.0), tail);
    let probability = cdf.points.iter().find(|p| p.0 == 19_275.0).unwrap().1;
    assert!(close(probability, 0.998_973_342, 1e-9), "{probability}");
}

#[test]
fn hpcc_tables_spread_sizes_evenly_between_two_points() {
    let cdf = parse("0 0\n1000 50\n3000 100\n").unwrap();
    assert!(close(cdf.mean(), 1_250.0, 1e-9));
    let sizes = [0.0, 0.0001, 0.25, 0.2509, 0.5, 0.75, 0.999_999].map(|u| cdf.sample(u));
    assert_eq!(sizes, [1, 1, 500, 501, 1000, 2000, 2999]);
}

#[test]
fn homa_tables_take_the_upper_size() {
    let cdf = parse("\n  137.5 \n100 0.25\n150 1\n").unwrap();
    assert!(close(cdf.mean(), 137.5, 1e-9));
    assert_eq!([0.0, 0.24, 0.25, 0.99].map(|u| cdf.sample(u)), [100, 100, 150, 150]);
}

#[test]
fn sizes_may_be_written_as_r_and_python_do() {
    assert_eq!(parse("0 0\n1e3 50.0\n4e+03 100\n"), parse("0 0\n1000 50\n4000 100\n"));
}

#[test]
fn probabilities_may_miss_their_end_by_a_rounding_error() {
    assert_eq!(parse("0 0\n1000 99.99999999999\n"), parse("0 0\n1000 100\n"));
    assert_eq!(parse("750\n500 0.5\n1000 1.0000000000000002\n"), parse("750\n500 0.5\n1000 1\n"));
    assert_eq!(parse("0 0\n500 100.00000000000001\n1000 100.00000000000001\n").unwrap().sample(0.999_999), 499);
}

#[test]
fn points_may_share_a_size_or_a_probability() {
    let cdf = parse("100 0\n100 50\n1000 50\n2000 100\n").unwrap();
    assert_eq!([0.0, 0.49, 0.5, 0.75].map(|u| cdf.sample(u)), [100, 100, 1000, 1500]);
}

#[test]
fn mistakes_name_the_line_and_what_would_be_right() {
    let error = |text: &str| parse(text).unwrap_err();
    let point = |line, text, share, example| {
        let what = format!("a size in bytes (0 to 1000000000000) and a share from 0 to {share}, such as {example}");
        format!("sizes.txt:{line}: \"{text}\" is not {what}")
    };
    let empty = "sizes.txt:1: the file is empty: write a size and a percentage a line, from 0 0 to 100 percent";
    assert_eq!(error(""), empty);
    let neither = "sizes.txt:1: \"mean\" is neither a mean size, such as 440.79, nor the first point, 0 0";
    assert_eq!(error("mean\n1 1\n"), neither);
    assert_eq!(error("-5 0\n10 100\n"), point(1, "-5 0", 100, "10000 15"));
    for bad in ["-1", "0", "inf", "NaN", "1,5"] {
        assert!(error(&format!("{bad}\n1 1\n")).starts_with("sizes.txt:1: "), "{bad}");
    }
    let first = "sizes.txt:1: the first point must be at 0 percent, such as 0 0, not at 5";
    assert_eq!(error("10 5\n20 100\n"), first);
    assert_eq!(error("0 0\n10\n20 100\n"), point(2, "10", 100, "10000 15"));
    assert_eq!(error("12\n1 0.1\n10 15\n"), point(3, "10 15", 1, "10000 0.15"));
    for bad in ["-5 50", "5 -50", "5 nan", "inf 50", "x 5", "5 5 5", "2e12 50", "5;50"] {
        assert!(error(&format!("0 0\n\n{bad}\n9 100\n")).starts_with("sizes.txt:3: "), "{bad}");
    }
    assert_eq!(error("0 0\n10 50\n9 100\n"), "sizes.txt:3: 9 100 is below the line above, 10 50");
    assert_eq!(error("0 0\n10 50\n11 49\n"), "sizes.txt:3: 11 49 is below the line above, 10 50");
    assert_eq!(error("0 0\n10 99\n\n"), "sizes.txt:3: the last point must be at 100, not at 99");
    assert_eq!(error("10\n10 0.9\n"), "sizes.txt:2: the last point must be at 1, not at 0.9");
    assert_eq!(error("10\n"), "sizes.txt:1: the last point must be at 1, not at 0");
    assert_eq!(error("0 0\n1 100\n"), "sizes.txt:2: the mean size is 0.5 B: it must be at least 1 B");
    let mean = "sizes.txt:1: states a mean of 200 B, but the sizes below have 150.00 B";
    assert_eq!(error("200\n100 0.5\n200 1\n"), mean);
}

#[test]
fn a_name_that_is_neither_built_in_nor_a_file_lists_the_names() {
    let error = size_distribution("WebSerch", Path::new("/nowhere")).unwrap_err();
    assert!(error.starts_with("cannot read \"WebSerch\": "), "{error}");
    assert!(error.ends_with("built in are \"WebSearch\", \"FB_Hadoop\" and \"GoogleSearchRPC\""), "{error}");
    assert!(is_built_in("FB_Hadoop") && !is_built_in("fb_hadoop"));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&text);
        let _ = read::read(&mut Lines::new("f", Cursor::new(bytes)));
    }

    #[test]
    fn text_that_looks_like_a_table_never_panics(text in "([0-9.]{1,4}\n)?([0-9e.+-]{1,4} [0-9.]{1,4}\n){0,6}") {
        let _ = parse(&text);
    }

    #[test]
    fn samples_lie_between_the_smallest_and_the_largest_size(
        mut sizes in proptest::collection::vec(1u32..1_000_000, 2..20),
        mut percents in proptest::collection::vec(0u8..=100, 20),
        u in 0.0..1.0f64,
    ) {
        sizes.sort_unstable();
        percents.truncate(sizes.len());
        percents.sort_unstable();
        percents[0] = 0;
        percents[sizes.len() - 1] = 100;
        let table: String = sizes.iter().zip(&percents).map(|(s, p)| format!("{s} {p}\n")).collect();
        let linear = parse(&table).unwrap();
        let step = Cdf { rule: Rule::Step, ..linear.clone() };
        for cdf in [&linear, &step] {
            let size = cdf.sample(u);
            prop_assert!(size >= u64::from(sizes[0]) && size <= u64::from(sizes[sizes.len() - 1]), "{size}");
        }
        prop_assert!(linear.sample(u) <= step.sample(u));
    }
}
