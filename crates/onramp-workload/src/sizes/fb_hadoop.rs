//! FB_Hadoop: flows of a Hadoop cluster at Facebook (Roy et al., SIGCOMM'15),
//! with the points of HPCC's `FbHdp_distribution.txt`.

/// Size in bytes and cumulative percent.
pub(super) const POINTS: &[(u32, f64)] = &[
    (0, 0.0),
    (100, 1.0),
    (200, 2.0),
    (300, 5.0),
    (350, 15.0),
    (400, 20.0),
    (500, 30.0),
    (600, 40.0),
    (700, 50.0),
    (1_000, 60.0),
    (2_000, 67.0),
    (7_000, 70.0),
    (30_000, 72.0),
    (50_000, 82.0),
    (80_000, 87.0),
    (120_000, 90.0),
    (300_000, 95.0),
    (1_000_000, 97.5),
    (2_000_000, 99.0),
    (10_000_000, 100.0),
];
