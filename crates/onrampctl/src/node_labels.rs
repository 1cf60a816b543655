//! Labels of the Kubernetes node that a pod runs on, as labels that the fleet's policy selects its host by.

use crate::setup::wrong;
use onrampd::policy::{self, Labels};
use rustls::crypto::ring::default_provider;
use serde::Deserialize;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{PemItem, TlsConfig, parse_pem};

/// Where Kubernetes puts the token of a pod's service account, and the certificate of the API's authority.
pub const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A node's metadata without the rest of it, such as its images.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Longest answer, in bytes: etcd holds no larger object by default.
const LONGEST: u64 = 3 << 19;
/// An attempt takes at most so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses before further attempts, for an API that is not reached or is busy, in seconds.
const PAUSES: [u64; 3] = [1, 2, 4];

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: Labels,
}

/// End of an attempt without an answer.
enum Failure {
    Passing(String),
    Lasting(String),
}
use Failure::{Lasting, Passing};

/// Returns this pod's node's labels `keys` as lines of TOML. Those that the node lacks, or that are no labels of a
/// policy, are left out, with a line on standard error.
///
/// # Errors
/// `InvalidInput`: a key is none of a policy, or this is no pod. Else the API does not tell.
pub fn run(keys: &[String], account: &Path) -> io::Result<String> {
    for key in keys {
        policy::check(&[(key.clone(), "any".into())].into()).map_err(|(_, message)| wrong(message))?;
    }
    let node = variable("NODE_NAME")?;
    if !node.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
        return Err(wrong(format!("NODE_NAME: {node:?} is no node's name")));
    }
    let found = ask(&node, account)?;
    let mut lines = Labels::new();
    for key in keys {
        let label = found.get(key).ok_or_else(|| "has no such label".to_owned()).and_then(|value| {
            policy::check(&[(key.clone(), value.clone())].into()).map_err(|(_, message)| message)?;
            // Nothing in it needs an escape.
            Ok(format!("\"{key}\" = \"{value}\"\n"))
        });
        match label {
            Ok(line) => drop(lines.insert(key.clone(), line)),
            Err(message) => eprintln!("onrampctl: node {node}: {key}: {message}: left out"),
        }
    }
    Ok(lines.into_values().collect())
}

/// A variable that pods have.
fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(|_| wrong(format!("{name}: is not set: run this in a pod, as the Helm chart's `join` does")))
}

/// All labels of a node.
fn ask(node: &str, account: &Path) -> io::Result<Labels> {
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let api = format!("https://{host}:{}", variable("KUBERNETES_SERVICE_PORT")?);
    let read = |name: &str| {
        let path = account.join(name);
        fs::read_to_string(&path).map_err(|e| {
            io::Error::new(e.kind(), format!("{}: {e}: mount the service account's token and ca.crt", path.display()))
        })
    };
    let token = read("token")?;
    let authorities: Vec<_> = parse_pem(read("ca.crt")?.as_bytes())
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    let tls = TlsConfig::builder()
        .root_certs(authorities.into())
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .build();
    let agent: Agent = Agent::config_builder()
        .tls_config(tls)
        .https_only(true)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // The API is in the cluster, whatever the environment says of proxies.
        .proxy(None)
        .timeout_global(Some(PATIENCE))
        .build()
        .into();
    let attempt = || get(&agent, &api, node, token.trim());
    let mut outcome = attempt();
    for pause in PAUSES {
        let Err(Passing(_)) = outcome else { break };
        thread::sleep(Duration::from_secs(pause));
        outcome = attempt();
    }
    outcome.map_err(|(Passing(message) | Lasting(message))| io::Error::other(format!("{api}: {message}")))
}

fn get(agent: &Agent, api: &str, node: &str, token: &str) -> Result<Labels, Failure> {
    let request = agent.get(format!("{api}/api/v1/nodes/{node}")).header("Accept", METADATA);
    let mut answer = request.header("Authorization", format!("Bearer {token}")).call().map_err(unanswered)?;
    match answer.status().as_u16() {
        200 => {
            let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec().map_err(unanswered)?;
            let node: Node =
                serde_json::from_slice(&body).map_err(|e| Lasting(format!("does not tell a node: {e}")))?;
            Ok(node.metadata.labels)
        }
        401 => Err(Lasting(
            "refuses the service account's token (401): it must be of this cluster, and not expired".into(),
        )),
        403 => Err(Lasting(
            "refuses to tell of nodes (403): bind a ClusterRole that may `get` `nodes` to the pod's service account"
                .into(),
        )),
        404 => Err(Lasting(format!("has no node {node} (404): NODE_NAME must be the pod's spec.nodeName"))),
        status @ (429 | 500..) => Err(Passing(format!("is busy or broken ({status}): its log says why"))),
        status => Err(Lasting(format!("answers with {status} where a node is expected: is it Kubernetes' API?"))),
    }
}

/// The failure of an attempt without a whole answer.
fn unanswered(e: ureq::Error) -> Failure {
    match e {
        ureq::Error::BodyExceedsLimit(most) => {
            Lasting(format!("answers with more than {most} bytes: is it Kubernetes' API?"))
        }
        // A certificate that is not trusted, or no TLS.
        ureq::Error::Io(e) if e.kind() == io::ErrorKind::InvalidData => {
            Lasting(format!("{e}: ca.crt must be of the API's authority"))
        }
        ureq::Error::Io(_) | ureq::Error::Timeout(_) => {
            Passing(format!("is not reached: {}: can this node reach it?", e.into_io()))
        }
        _ => Lasting(format!("does not answer as Kubernetes' API does: {e}")),
    }
}
