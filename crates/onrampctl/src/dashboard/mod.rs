//! A page that shows what the agent measures and holds, and who in the fleet is congested with whom: a small HTTP
//! server, which remembers a quarter of an hour. Nothing can be changed through it.

mod congestion;
mod history;

use crate::agent::{Client, unanswered};
use crate::coordinator;
use crate::http::{self, Answer, Request};
use congestion::Congestion;
use history::History;
use onrampd::DEFAULT_SOCKET;
use onrampd::config::Config;
use onrampd::fleet::wire;
use onrampd::status::Status;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where it listens unless it is told.
pub const LISTEN: &str = "127.0.0.1:9474";
/// Time between two looks at the agent.
const LOOK: Duration = Duration::from_secs(1);
/// A look that takes long is taken less often: it keeps the agent busy for no more than this part of the time.
const PART: u32 = 20;
/// Time between two questions to the coordinator, ...
const ASK: Duration = Duration::from_secs(2);
/// ... which are asked for so long after a browser has asked.
const WATCHED: Duration = Duration::from_secs(60);

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How to ask how the fleet is.
pub enum Fleet {
    /// Coordinators, and the folder of this host's certificate.
    Coordinators(Vec<SocketAddr>, PathBuf),
    /// Why nobody can be asked.
    Unknown(String),
}

/// The fleet of a configuration.
#[must_use]
pub fn fleet(config: &Config) -> Fleet {
    match &config.fleet {
        Some(fleet) => Fleet::Coordinators(fleet.coordinators.clone(), fleet.folder.clone()),
        None => Fleet::Unknown("the configuration has no [fleet]".into()),
    }
}

/// Socket and fleet by a configuration that nobody asked for, which may be missing.
#[must_use]
pub fn unasked(config: &Path) -> (PathBuf, Fleet) {
    match Config::open(config) {
        Ok(found) => (found.socket.clone(), fleet(&found)),
        Err(errors) => {
            (DEFAULT_SOCKET.into(), Fleet::Unknown(errors.first().map_or(String::new(), ToString::to_string)))
        }
    }
}

/// State that threads share.
struct Shared {
    begun: Instant,
    /// When it began, in milliseconds since 1970: a page that sees another one forgets what it has.
    id: u64,
    history: Mutex<History>,
    /// Who is congested with whom, or why that is not known.
    congestion: Mutex<Result<Congestion, String>>,
    /// When a browser asked last.
    asked: Mutex<Option<Instant>>,
}

/// Locks, also after a thread has panicked: each change is a single assignment or a look that is taken in, so none is
/// left half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn is_watched(&self) -> bool {
        lock(&self.asked).is_some_and(|asked| asked.elapsed() < WATCHED)
    }

    fn data(&self, since: u64) -> Value {
        *lock(&self.asked) = Some(Instant::now());
        let mut data = lock(&self.history).json(since, self.now_ms());
        data["id"] = self.id.into();
        data["fleet"] = match &*lock(&self.congestion) {
            Ok(congestion) => json!(congestion),
            Err(why) => json!({ "why": why }),
        };
        data
    }
}

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot listen there.
pub fn run(listen: SocketAddr, agent: &Path, fleet: Fleet) -> io::Result<()> {
    let listener = http::bind(listen)?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let congestion = match &fleet {
        Fleet::Coordinators(..) => Err("the coordinator has not answered yet".into()),
        Fleet::Unknown(why) => Err(why.clone()),
    };
    let shared = Arc::new(Shared {
        begun: Instant::now(),
        id: since_1970.as_millis() as u64,
        history: Mutex::default(),
        congestion: Mutex::new(congestion),
        asked: Mutex::default(),
    });
    let (looks, socket) = (shared.clone(), agent.to_owned());
    thread::spawn(move || look(&looks, &socket));
    if let Fleet::Coordinators(coordinators, folder) = fleet {
        let asks = shared.clone();
        thread::spawn(move || ask(&asks, || coordinator::fleet(&coordinators, &folder)));
    }
    http::serve(listener, "/", move |request| answer(request, &shared))
}

/// Looks at the agent for ever.
fn look(shared: &Shared, socket: &Path) {
    let mut client = None;
    loop {
        let begun = Instant::now();
        let status = status(&mut client, socket);
        let took = begun.elapsed();
        let at = shared.now_ms();
        match status {
            Ok(status) => lock(&shared.history).push(at, status),
            Err(e) => lock(&shared.history).gone(at, unanswered(socket, &e)),
        }
        thread::sleep(LOOK.max(took * PART).saturating_sub(begun.elapsed()));
    }
}

/// Asks by the connection that there is, or by a new one: an agent lets those go that were silent for long.
fn status(client: &mut Option<Client>, socket: &Path) -> io::Result<Status> {
    if let Some(status) = client.as_mut().and_then(|client| client.status(0, true).ok()) {
        return Ok(status);
    }
    *client = None;
    let mut new = Client::connect(socket)?;
    let status = new.status(0, true)?;
    *client = Some(new);
    Ok(status)
}

/// Asks how the fleet is for ever, while somebody wants to know.
fn ask(shared: &Shared, fleet: impl Fn() -> io::Result<wire::Fleet>) {
    loop {
        if shared.is_watched() {
            let found = fleet().map(|fleet| Congestion::of(&fleet)).map_err(|e| e.to_string());
            *lock(&shared.congestion) = found;
        }
        thread::sleep(ASK);
    }
}

fn answer(request: &Request<'_>, shared: &Shared) -> Answer {
    let mut answer = if !request.is_for_this_host() {
        Answer::line("421 Misdirected Request", "ask by localhost, or by the address that it listens on")
    } else {
        match request.path {
            "/" => page(),
            "/data.json" => match request.value("since").unwrap_or("0").parse() {
                Ok(since) => Answer::new("200 OK", "application/json", shared.data(since).to_string()),
                Err(_) => Answer::line("400 Bad Request", "since is a number"),
            },
            _ => Answer::line("404 Not Found", "see / and /data.json?since=N"),
        }
    };
    answer.headers.extend(
        [
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ]
        .map(|(name, value)| (name, value.to_owned())),
    );
    answer
}

/// The page; only its own style and script, which have the nonce, are in force.
fn page() -> Answer {
    let mut bytes = [0; 16];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return Answer::line("500 Failed", "the system has no random numbers");
    }
    let nonce = hex::encode(bytes);
    let text = PAGE.replace("{nonce}", &nonce).replace("{style}", STYLE).replace("{script}", SCRIPT);
    let mut answer = Answer::new("200 OK", "text/html; charset=utf-8", text);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    answer.headers.push(("Content-Security-Policy", policy));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn shared() -> Shared {
        Shared {
            begun: Instant::now(),
            id: 7,
            history: Mutex::default(),
            congestion: Mutex::new(Err("no fleet".into())),
            asked: Mutex::default(),
        }
    }

    fn asked(target: &str, host: &str) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        answer(&Request { path, query, host: Some(host), local: [127, 0, 0, 1].into() }, &shared())
    }

    #[test]
    fn only_its_own_style_and_script_are_in_force() {
        let policy = |answer: &Answer| {
            let of = |(name, value): &(&str, String)| (*name == "Content-Security-Policy").then(|| value.clone());
            answer.headers.iter().find_map(of).unwrap()
        };
        let (one, other) = (asked("/", "localhost"), asked("/", "localhost"));
        assert!(policy(&one).starts_with("default-src 'none';"), "{}", policy(&one));
        assert_ne!(policy(&one), policy(&other), "a nonce is used once");
        let nonce = policy(&one).split("'nonce-").nth(1).unwrap()[..32].to_owned();
        assert_eq!(one.body.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        // Neither from elsewhere nor by what the policy forbids.
        for word in [
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            " style=\"",
            "onclick=",
        ] {
            assert!(!one.body.contains(word), "{word}");
        }
        assert!(!one.body.contains("{script}") && !one.body.contains("{style}"));
    }

    #[test]
    fn each_answer_is_kept_nowhere_and_strangers_get_none() {
        for (target, host, status) in [
            ("/", "localhost:9474", "200 OK"),
            ("/data.json", "127.0.0.1", "200 OK"),
            ("/data.json?since=12", "127.0.0.1", "200 OK"),
            ("/data.json?since=-1", "127.0.0.1", "400 Bad Request"),
            ("/metrics", "127.0.0.1", "404 Not Found"),
            ("/data.json", "evil.example", "421 Misdirected Request"),
        ] {
            let answer = asked(target, host);
            assert_eq!(answer.status, status, "{target} {host}");
            for header in [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")] {
                assert!(answer.headers.iter().any(|(name, value)| (*name, value.as_str()) == header), "{answer:?}");
            }
            assert!(!answer.headers.iter().any(|(name, _)| *name == "Set-Cookie"));
        }
    }

    #[test]
    fn data_has_its_keys() {
        let data: Value = serde_json::from_str(&asked("/data.json", "localhost").body).unwrap();
        let keys: Vec<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["agent", "fleet", "gone", "id", "more", "next", "now_ms", "oldest", "paths", "rates", "seconds"]
        );
        assert_eq!((&data["id"], &data["agent"], &data["fleet"]["why"]), (&json!(7), &Value::Null, &json!("no fleet")));
    }

    #[test]
    fn the_coordinator_is_left_alone_while_nobody_looks() {
        let shared: &'static Shared = Box::leak(Box::new(shared()));
        static ASKED: AtomicU32 = AtomicU32::new(0);
        thread::spawn(|| {
            ask(shared, || {
                ASKED.fetch_add(1, Ordering::Relaxed);
                Ok(wire::Fleet::default())
            });
        });
        thread::sleep(Duration::from_millis(200));
        assert_eq!(ASKED.load(Ordering::Relaxed), 0);
        shared.data(0);
        let begun = Instant::now();
        while lock(&shared.congestion).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(shared.data(0)["fleet"]["hosts"], json!([]));
    }
}
