//! The headers compile for the target they are restricted for. Needs clang;
//! without one there is nothing to check.

use std::io::Write;
use std::process::{Command, Stdio};

/// Declarations that a BPF program has included before the headers.
const PROGRAM: &str = r#"
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed long long __s64;

#include "onramp.h"
#include "orack.h"

__u64 use_flow(struct onramp_flow *flow, const struct onramp_params *params, __u64 now, __s64 owd)
{
	struct onramp_stamp stamp;

	onramp_init(flow, params, now);
	onramp_start(flow, params, now, owd, now);
	stamp = onramp_stamp_packet(flow, now);
	onramp_acked(flow, params, now, stamp, owd);
	return onramp_release(flow, now) + onramp_paused_total(flow, now);
}

__u32 use_orack(void *data, void *end, struct orack *ack)
{
	ack->tag = orack_tag(ack, 1, 2);
	return orack_parse(data, end, ack) + orack_write(data, end, ack);
}
"#;

#[test]
fn headers_compile_for_bpf() {
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let Ok(mut child) = Command::new(clang)
        .args(["-target", "bpf", "-std=c11", "-O2", "-ffreestanding", "-nostdinc", "-Wall", "-Wextra", "-Werror"])
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../../core")])
        .args(["-x", "c", "-c", "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .spawn()
    else {
        eprintln!("skipped: no clang");
        return;
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(PROGRAM.as_bytes()).expect("clang reads");
    drop(stdin);
    assert!(child.wait().expect("clang ends").success());
}
