//! A headless Chromium, by the DevTools protocol over a pipe.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// A browser with one page; ends with this.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    calls: u64,
    session: Option<String>,
    /// All that it told of without being asked.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts one with its profile in `folder`; `None` where there is none, which is said.
    pub fn open(folder: &Path) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        let Some(name) = names.into_iter().find(is_there) else {
            eprintln!("skipped: there is no chromium");
            return None;
        };
        // Its pipe is descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", name]);
        // Root, as which tests run, takes it without a sandbox; pages are our own.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", folder.join("browser").display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                let _ = send.send(serde_json::from_slice(&message).unwrap());
            }
        });
        let mut browser = Self { child, input, messages, calls: 0, session: None, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            call["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{call}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(Duration::from_secs(60)).expect(method);
            if message["id"] == self.calls {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens the page that is served there, and waits until it is there.
    pub fn open_page(&mut self, at: SocketAddr) {
        self.call("Page.navigate", json!({"url": format!("http://{at}/")}));
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'");
    }

    /// The value of an expression of JavaScript on the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Text of an element.
    pub fn text(&mut self, id: &str) -> String {
        self.value(&format!("document.getElementById('{id}').innerText")).as_str().unwrap().into()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != true {
            if start.elapsed() > Duration::from_secs(60) {
                panic!("never {expression}: {}", self.value("document.body.innerText"));
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Moves to a part of the width of an element, and clicks there if asked to.
    pub fn point(&mut self, selector: &str, part: f64, click: bool) {
        let rect = format!(
            "(() => {{ const e = document.querySelector('{selector}'); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.left, r.width, r.top + r.height / 2]; }})()"
        );
        let rect = self.value(&rect);
        let [left, width, y] = [0, 1, 2].map(|i| rect[i].as_f64().unwrap());
        let kinds: &[&str] = if click { &["mouseMoved", "mousePressed", "mouseReleased"] } else { &["mouseMoved"] };
        for kind in kinds {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({"type": kind, "x": left + part * width, "y": y, "button": button, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "ArrowLeft" => 37,
            _ => panic!("{key}"),
        };
        for kind in ["rawKeyDown", "char", "keyUp"] {
            if kind == "char" && key != "Enter" {
                continue;
            }
            let text = if kind == "char" { "\r" } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Errors and warnings of the console so far, among them what the page's policy forbids.
    pub fn complaints(&self) -> Vec<&Value> {
        let is_bad = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] != "verbose",
            _ => false,
        };
        self.events.iter().filter(is_bad).collect()
    }

    /// Addresses of all that pages loaded.
    pub fn loaded(&self) -> Vec<&str> {
        let of = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        self.events.iter().filter(of).map(|e| e["params"]["request"]["url"].as_str().unwrap()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
