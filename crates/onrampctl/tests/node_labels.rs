//! `onrampctl node-labels` and an HTTPS server in the place of Kubernetes' API.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9";

/// A cluster's API, with the folder that Kubernetes mounts for a pod.
struct Api {
    at: SocketAddr,
    account: PathBuf,
}

impl Api {
    fn new(name: &str, address: &str) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let root = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let own = CertificateParams::new([address.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();

        let account = std::env::temp_dir().join(format!("onrampctl-{name}-{}", std::process::id()));
        fs::create_dir_all(&account).unwrap();
        fs::write(account.join("ca.crt"), root.pem()).unwrap();
        fs::write(account.join("token"), TOKEN).unwrap();

        let listener = TcpListener::bind((address, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let tls = Arc::new(tls);
        thread::spawn(move || {
            let was_busy = AtomicBool::new(false);
            for socket in listener.incoming() {
                let connection = ServerConnection::new(tls.clone()).unwrap();
                // A client that does not trust the certificate goes away.
                let _ = serve(StreamOwned::new(connection, socket.unwrap()), &was_busy);
            }
        });
        Self { at, account }
    }

    /// Exit status, standard output and standard error.
    fn ask(&self, node: &str, keys: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onrampctl"));
        command.arg("node-labels").arg("--account").arg(&self.account).args(keys).env("NODE_NAME", node);
        command.env("KUBERNETES_SERVICE_HOST", self.at.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", self.at.port().to_string());
        // Nobody is there.
        command.env("https_proxy", "http://127.0.0.1:1");
        let done = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    }

    /// Its only line of an error.
    fn refusal(&self, node: &str, status: i32) -> String {
        let (code, out, said) = self.ask(node, &["rack"]);
        assert_eq!((code, &*out, said.lines().count()), (Some(status), "", 1), "{said}");
        said
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.account);
    }
}

/// Answers one request, by the node's name.
fn serve(mut stream: StreamOwned<ServerConnection, TcpStream>, was_busy: &AtomicBool) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(&mut stream);
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
    }
    let good = r#"{"kind":"PartialObjectMetadata","metadata":{"name":"n","labels":{
        "rack":"b7","topology.kubernetes.io/zone":"eu-1a","empty":""}}}"#;
    let node = request.strip_prefix("GET /api/v1/nodes/").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let (status, body) = match node {
        _ if !request.to_lowercase().contains(&format!("authorization: bearer {}\r\n", TOKEN.to_lowercase())) => {
            (401, "{}".into())
        }
        "good" => (200, good.into()),
        "busy" if !was_busy.swap(true, Relaxed) => (503, "{}".into()),
        "busy" => (200, good.into()),
        "bare" => (200, r#"{"metadata":{}}"#.into()),
        "forbidden" => (403, "{}".into()),
        "moved" => (302, "{}".into()),
        "garbage" => (200, "<html>".into()),
        "large" => (200, " ".repeat(2 << 20) + good),
        _ => (404, "{}".into()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} .\r\nContent-Length: {length}\r\nLocation: /\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

#[test]
fn a_nodes_labels_are_printed_and_what_is_none_is_left_out() {
    for (name, address) in [("four", "127.0.0.1"), ("six", "::1")] {
        let api = Api::new(name, address);
        let both = "\"rack\" = \"b7\"\n\"topology.kubernetes.io/zone\" = \"eu-1a\"\n";
        let asked = ["topology.kubernetes.io/zone", "rack", "rack"];
        assert_eq!(api.ask("good", &asked), (Some(0), both.into(), String::new()));
        let (code, out, said) = api.ask("good", &["row", "rack", "empty"]);
        assert_eq!((code, &*out), (Some(0), "\"rack\" = \"b7\"\n"));
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[0], "onrampctl: node good: row: has no such label: left out");
        assert!(lines[1].starts_with("onrampctl: node good: empty: \"\": a label's value takes 1 to 63 "), "{said}");
        assert_eq!(api.ask("bare", &["rack"]).0, Some(0));
    }
}

#[test]
fn a_busy_api_is_asked_again() {
    assert_eq!(Api::new("busy", "127.0.0.1").ask("busy", &["rack"]).1, "\"rack\" = \"b7\"\n");
}

#[test]
fn whatever_is_wrong_is_told_in_a_line_with_what_would_be_right() {
    let api = Api::new("wrong", "127.0.0.1");
    for (node, message) in [
        ("forbidden", "(403): bind a ClusterRole that may `get` `nodes`"),
        ("absent", "has no node absent (404): NODE_NAME must be the pod's spec.nodeName"),
        ("moved", "answers with 302 where a node is expected"),
        ("garbage", "does not tell a node"),
        ("large", "answers with more than 1572864 bytes"),
    ] {
        let said = api.refusal(node, 1);
        assert!(said.starts_with(&format!("onrampctl: https://{}: ", api.at)) && said.contains(message), "{said}");
    }
    assert!(api.refusal("../pods", 2).contains("is no node's name"));
    let (code, _, said) = api.ask("good", &["rack one"]);
    assert!(code == Some(2) && said.contains("a label's name takes"), "{said}");

    fs::write(api.account.join("token"), "another").unwrap();
    assert!(api.refusal("good", 1).contains("refuses the service account's token (401)"));
    fs::copy(Api::new("other", "127.0.0.1").account.join("ca.crt"), api.account.join("ca.crt")).unwrap();
    let said = api.refusal("good", 1);
    assert!(said.contains("certificate") && said.contains("ca.crt must be of the API's authority"), "{said}");
    fs::remove_file(api.account.join("token")).unwrap();
    assert!(api.refusal("good", 1).contains("mount the service account's token"));
}

#[test]
fn an_api_that_is_not_there_and_a_host_that_is_no_pod_are_told() {
    let mut api = Api::new("gone", "127.0.0.1");
    api.at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(api.refusal("good", 1).contains("is not reached"));
    let bare =
        Command::new(env!("CARGO_BIN_EXE_onrampctl")).args(["node-labels", "rack"]).env_clear().output().unwrap();
    let said = String::from_utf8(bare.stderr).unwrap();
    assert!(bare.status.code() == Some(2) && said.contains("NODE_NAME: is not set: run this in a pod"), "{said}");
}
