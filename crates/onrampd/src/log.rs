//! Where the daemon's log goes: a line an event to standard error, or to journald with level and fields, if it listens there.
//!
//! Changes of mode, membership, policy or scope have the field `audit` with that word, and say who made them and from
//! where.

use rustix::fs::fstat;
use std::fmt::{Debug, Write as _};
use std::io;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Prefix of the fields in the journal: `journalctl ONRAMP_AUDIT=policy`.
const PREFIX: &str = "ONRAMP";

/// Events are logged from now on.
pub fn begin() {
    let journal = is_journal().then(|| tracing_journald::layer().ok()).flatten();
    // Where somebody else has begun, as in a test, that counts.
    let _ = match journal {
        Some(journal) => {
            let journal = journal.with_field_prefix(Some(PREFIX.into())).with_syslog_identifier("onrampd".into());
            registry().with(journal.with_filter(LevelFilter::INFO)).try_init()
        }
        None => registry().with(Lines(io::stderr).with_filter(LevelFilter::INFO)).try_init(),
    };
}

/// Returns whether standard error is a stream of journald's, as it tells in the environment (systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Events as lines, without their fields.
struct Lines<W>(W);

impl<S: Subscriber, O: io::Write, W: Fn() -> O + 'static> Layer<S> for Lines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::from("onrampd: "));
        event.record(&mut line);
        line.0.push('\n');
        // Nobody is left to be told.
        let _ = (self.0)().write_all(line.0.as_bytes());
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::{debug, info, warn};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_a_line() {
        let page = Page::default();
        let out = page.clone();
        let lines = registry().with(Lines(move || out.clone()).with_filter(LevelFilter::INFO));
        tracing::subscriber::with_default(lines, || {
            info!(audit = "membership", host = "10.0.0.2", "{} has joined", "10.0.0.2");
            warn!("a path is long");
            debug!("not told");
        });
        let page = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert_eq!(page, "onrampd: 10.0.0.2 has joined\nonrampd: a path is long\n");
    }
}
