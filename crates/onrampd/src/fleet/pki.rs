//! Who is who: the fleet's certificates, and the token that admits a host.
//!
//! The authority signs a certificate for each host, which holds its address, and one for
//! the coordinator, which holds a name no host gets. A host's certificate expires. Only the
//! coordinator judges that, by the clock by which it issued it: hosts' clocks may be years
//! apart, and none of them is asked. A renewed certificate is of the same membership, which
//! began when the host joined; [keys of pairs](super::pairs) and removals go by memberships.

use super::lists;
use super::pairs::{self, Pairs, Public, Secret, Statement};
use super::tokens::{self, today};
use hex::FromHex as _;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SerialNumber, SigningKey as _,
};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::Oid;

/// The coordinator's name in its certificate.
const COORDINATOR: &str = "coordinator.onramp";
/// All hosts: the authority's certificate, their own, its key.
const AUTHORITY: &str = "authority.pem";
const HOST: &str = "host/host.pem";
const HOST_KEY: &str = "host.key";
/// The folder of a host's certificate, which its agent writes when that is renewed.
const WRITTEN_BY_AGENT: &str = "host";
/// The folder of a coordinator, which agents cannot read; all that makes one is in it.
const COORDINATORS: &str = "coordinator";
/// In that: the authority's certificate once more, and its key.
const AUTHORITY_KEY: &str = "authority.key";
/// In a host's certificate: the public part of what its keys of pairs are made from, an octet string. A number below
/// 2.25 is nobody else's with luck only, and needs no registration.
const PAIR_KEY: &[u64] = &[2, 25, 0x6f6e_7261_6d70];
/// Tag and length of such a string.
const OCTETS: [u8; 2] = [4, 32];

/// A host's certificate is good for so long, unless its coordinator is told otherwise [s].
pub const CERTIFICATE_LIFE: u64 = 90 * 86_400;
/// A time at which all certificates are valid to TLS, whatever the coordinator's clock shows:
/// [`Identity::has_expired`] judges them.
const ALWAYS_VALID: u64 = 1;
/// The end of the year 9998, beyond which X.509 has no dates.
const LAST_DATE: u64 = 253_370_764_799;

/// Tells TLS [`ALWAYS_VALID`].
#[derive(Debug)]
struct NoTime;

impl TimeProvider for NoTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(ALWAYS_VALID)))
    }
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

pub(super) fn other(e: impl fmt::Display) -> io::Error {
    io::Error::other(e.to_string())
}

/// Puts the path before an error.
pub(super) fn at<E: fmt::Display>(path: &Path) -> impl FnOnce(E) -> io::Error {
    let path = path.display().to_string();
    move |e| other(format!("{path}: {e}"))
}

pub(super) fn write_new(folder: &Path, name: &str, text: &str, mode: u32) -> io::Result<()> {
    let path = folder.join(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(at(&path))?;
    // Whatever the umask: the agent's group must read it.
    let done = file.set_permissions(Permissions::from_mode(mode)).and_then(|()| file.write_all(text.as_bytes()));
    // Where there is no room, an empty file is no use.
    done.and_then(|()| file.sync_all()).inspect_err(|_| drop(fs::remove_file(&path))).map_err(at(&path))
}

/// Replaces a file as a whole: after a crash, or where there is no room, the old one is there.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let unfinished = format!("{}.new", name.to_string_lossy());
    // Of an attempt that was cut off.
    let _ = fs::remove_file(folder.join(&unfinished));
    let replaced = write_new(folder, &unfinished, text, mode)
        .and_then(|()| fs::rename(folder.join(&unfinished), path).map_err(at(path)))
        .and_then(|()| File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder)));
    if replaced.is_err() {
        let _ = fs::remove_file(folder.join(&unfinished));
    }
    replaced
}

/// Has `fill` write the files of `folder`, which is made: all of them or none.
fn make(folder: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let unfinished = folder.with_extension("new");
    if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists()) {
        fs::create_dir_all(parent).and_then(|()| open_to_all(parent)).map_err(at(parent))?;
    }
    // Of an attempt that was cut off.
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir(&unfinished).and_then(|()| open_to_all(&unfinished)).map_err(at(&unfinished))?;
    let made = fill(&unfinished).and_then(|()| put(&unfinished, folder).map_err(at(folder)));
    if made.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    made
}

/// Has `folder` be what `made` is. A coordinator that is there stays.
fn put(made: &Path, folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return fs::rename(made, folder);
    }
    // What makes this host a member comes last.
    for name in [WRITTEN_BY_AGENT, pairs::FILE, HOST_KEY, AUTHORITY] {
        let old = folder.join(name);
        if old.is_dir() {
            fs::remove_dir_all(&old)?;
        }
        fs::rename(made.join(name), old)?;
    }
    fs::remove_dir(made)
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Public part of the authority.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "On-Ramp fleet");
    params
}

fn named(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_string()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(1970, 1, 1);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Returns whether this host has founded or joined a fleet whose certificates are in `folder`.
#[must_use]
pub fn is_member(folder: &Path) -> bool {
    folder.join(AUTHORITY).exists()
}

/// Returns whether this host has what makes a coordinator of the fleet in `folder`.
#[must_use]
pub fn is_coordinator(folder: &Path) -> bool {
    coordinators(folder).exists()
}

/// The file in which a host's agent keeps what the fleet's policy says of it; beside its certificate, so that who leaves
/// the fleet leaves that as well.
#[must_use]
pub fn policy(folder: &Path) -> PathBuf {
    folder.join(WRITTEN_BY_AGENT).join("policy.json")
}

/// The folder of what makes a coordinator of the fleet in `folder`.
#[must_use]
pub fn coordinators(folder: &Path) -> PathBuf {
    folder.join(COORDINATORS)
}

/// Founds a fleet: a new authority, and a certificate for the host at `address`, in `folder`,
/// which is made.
///
/// # Errors
/// There is a fleet already, or something cannot be written.
pub fn found(folder: &Path, address: IpAddr) -> io::Result<()> {
    must_be_new(folder)?;
    if is_coordinator(folder) {
        let before = format!("{}: is of another fleet's coordinator: move it away", coordinators(folder).display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, before));
    }
    let key = KeyPair::generate().map_err(other)?;
    let certificate = authority_params().self_signed(&key).map_err(other)?;
    make(folder, |folder| {
        let coordinators = coordinators(folder);
        make_private(&coordinators, 0o2750)?;
        write_new(&coordinators, AUTHORITY_KEY, &key.serialize_pem(), 0o640)?;
        write_new(&coordinators, AUTHORITY, &certificate.pem(), 0o644)?;
        make_private(&coordinators.join(tokens::FOLDER), 0o2770)?;
        make_private(&coordinators.join(lists::FOLDER), 0o2770)?;
        lists::Members::open(folder)?.add([address])?;
        write_new(folder, AUTHORITY, &certificate.pem(), 0o644)?;
        let (host, pair) = (KeyPair::generate().map_err(other)?, Secret::new()?);
        let authority = Authority::open(folder)?;
        let signed = authority.admit(address, host.public_key_raw(), &pair.public(), CERTIFICATE_LIFE)?;
        store(folder, &signed, &host, &pair)
    })
}

fn must_be_new(folder: &Path) -> io::Result<()> {
    let all = if is_coordinator(folder) { "all in it but coordinator" } else { "the folder" };
    let before = format!("{}: this host is in a fleet already: remove {all} to leave it", folder.display());
    if is_member(folder) { Err(io::Error::new(io::ErrorKind::AlreadyExists, before)) } else { Ok(()) }
}

/// Makes a folder that is nobody's but its owner's and its group's.
fn make_private(folder: &Path, mode: u32) -> io::Result<()> {
    let private = Permissions::from_mode(mode);
    fs::create_dir(folder).and_then(|()| fs::set_permissions(folder, private)).map_err(at(folder))
}

fn store(folder: &Path, certificate: &str, key: &KeyPair, pair: &Secret) -> io::Result<()> {
    pair.store(folder)?;
    write_new(folder, HOST_KEY, &key.serialize_pem(), 0o640)?;
    make_private(&folder.join(WRITTEN_BY_AGENT), 0o770)?;
    write_new(folder, HOST, certificate, 0o644)
}

/// The fleet's authority: what makes a coordinator.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// The same as text.
    pem: String,
}

impl Authority {
    /// Reads what [`found`] wrote for coordinators of the fleet in `folder`.
    ///
    /// # Errors
    /// This host is no coordinator, or the files are broken.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let folder = coordinators(folder);
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(at(&path))
        };
        let broken = |name: &str| at(&folder.join(name))("is broken: copy it anew from the first coordinator");
        let key = KeyPair::from_pem(&read(AUTHORITY_KEY)?).map_err(|_| broken(AUTHORITY_KEY))?;
        let pem = read(AUTHORITY)?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| broken(AUTHORITY))?;
        Ok(Self { issuer: Issuer::new(authority_params(), key), certificate, pem })
    }

    /// A new member's certificate for its public key, a point of P-256, and the one of its keys of pairs. It expires
    /// after `life` seconds. That the host has the secret of `pair` need not be shown: without it, it has no keys.
    ///
    /// # Errors
    /// The public key is none.
    pub fn admit(&self, address: IpAddr, public_key: &[u8], pair: &Public, life: u64) -> io::Result<String> {
        self.certify(address, Membership::new()?, public_key, pair, life)
    }

    /// A certificate in the place of a member's, for the same address, membership and public keys.
    ///
    /// # Errors
    /// It is no host's.
    pub fn renew(&self, certificate: &CertificateDer<'_>, life: u64) -> io::Result<String> {
        let of_no_host = || other("the certificate is no host's");
        let Identity { address, membership, public, .. } = Identity::of(certificate).ok_or_else(of_no_host)?;
        self.certify(address, membership, &public_key(certificate)?, &public, life)
    }

    fn certify(
        &self,
        address: IpAddr,
        membership: Membership,
        public_key: &[u8],
        pair: &Public,
        life: u64,
    ) -> io::Result<String> {
        // Uncompressed: 4, then two coordinates.
        if public_key.len() != 65 || public_key[0] != 4 {
            return Err(other("the public key is no point of P-256"));
        }
        let mut params = named(&address.to_canonical().to_string()).map_err(other)?;
        // The first four bytes are another certificate's with luck only.
        let mut serial = [0; 20];
        SystemRandom::new().fill(&mut serial[..4]).map_err(other)?;
        serial[0] &= 0x7f;
        serial[4..].copy_from_slice(&membership.0);
        let pair = [&OCTETS[..], pair].concat();
        params.custom_extensions = vec![CustomExtension::from_oid_content(PAIR_KEY, pair)];
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let expires = today().saturating_add(life).min(LAST_DATE);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(expires);
        Ok(params.signed_by(&HostKey(public_key), &self.issuer).map_err(other)?.pem())
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// The token of a secret of `coordinator`'s.
    #[must_use]
    pub fn token(&self, coordinator: SocketAddr, secret: [u8; 16]) -> Token {
        Token { coordinator, fingerprint: fingerprint(&self.certificate), secret }
    }

    /// Statement of the authority on the host with this certificate, for the others.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn statement(&self, of: &Identity) -> io::Result<Statement> {
        Ok(pairs::signed(of, &self.issuer.key().sign(&pairs::to_sign(of)).map_err(other)?))
    }

    /// For an operator's command that has something to say to another coordinator, as one.
    ///
    /// # Errors
    /// The authority is broken.
    pub fn client(&self) -> io::Result<Arc<ClientConfig>> {
        let (chain, key) = self.as_coordinator()?;
        let config = client_builder()?.with_root_certificates(roots(&self.certificate)?);
        Ok(Arc::new(config.with_client_auth_cert(chain, key).map_err(other)?))
    }

    /// A coordinator's certificate, and its key.
    fn as_coordinator(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = KeyPair::generate().map_err(other)?;
        let signed = named(COORDINATOR).and_then(|p| p.signed_by(&key, &self.issuer)).map_err(other)?;
        // The authority comes along: who joins knows its fingerprint only.
        let chain = vec![signed.der().clone(), self.certificate.clone()];
        Ok((chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))))
    }

    /// For the coordinator's side of connections; hosts without a certificate may connect, to
    /// join.
    ///
    /// # Errors
    /// The authority is broken.
    pub fn server(&self) -> io::Result<Arc<ServerConfig>> {
        let (chain, key) = self.as_coordinator()?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&self.certificate)?), crypto())
            .allow_unauthenticated()
            .build()
            .map_err(other)?;
        let config = ServerConfig::builder_with_details(crypto(), Arc::new(NoTime))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(other)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(other)?;
        Ok(Arc::new(config))
    }
}

/// A host's time in the fleet, from when it joined: the last 16 bytes of its certificates' serial numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Membership(pub [u8; 16]);

impl Membership {
    /// One that begins now.
    fn new() -> io::Result<Self> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(other)?;
        bytes[..8].copy_from_slice(&today().to_be_bytes());
        Ok(Self(bytes))
    }

    /// When the host joined, in seconds since 1970 by the coordinator's clock.
    #[must_use]
    pub fn began(&self) -> u64 {
        u64::from_be_bytes(*self.0.first_chunk().expect("it has 16 bytes"))
    }
}

/// Who a host's certificate says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its address.
    pub address: IpAddr,
    /// The same of all its certificates until it joins anew.
    pub membership: Membership,
    /// Public part of what its keys of pairs are made from; the same as well.
    pub public: Public,
    /// When the certificate expires, in seconds since 1970 by the coordinator's clock.
    pub expires: u64,
}

impl Identity {
    /// Of a certificate that the authority signed, as TLS has seen to. `None` if it is no host's.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let address = parsed.subject().iter_common_name().next()?.as_str().ok()?.parse().ok()?;
        // Without leading zeros, as numbers are written.
        let mut membership = [0; 16];
        membership.iter_mut().rev().zip(parsed.raw_serial().iter().rev()).for_each(|(to, from)| *to = *from);
        let is_pair_key = |oid: &Oid| oid.iter().is_some_and(|numbers| numbers.eq(PAIR_KEY.iter().copied()));
        let pair = parsed.extensions().iter().find(|extension| is_pair_key(&extension.oid))?;
        let public = pair.value.strip_prefix(&OCTETS)?.try_into().ok()?;
        let expires = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        Some(Self { address, membership: Membership(membership), public, expires })
    }

    /// Returns whether the certificate is worth nothing at the time `today`.
    #[must_use]
    pub fn has_expired(&self, today: u64) -> bool {
        self.expires <= today
    }

    /// Returns whether the certificate is to be renewed at the time `today`, where certificates are given for `life`
    /// seconds: when a third of that is left, and at once if it was given for longer.
    #[must_use]
    pub fn is_due(&self, today: u64, life: u64) -> bool {
        let left = self.expires.saturating_sub(today);
        left <= life / 3 || left > life
    }
}

/// Returns whether a certificate that the authority has signed, as TLS has seen to, is a coordinator's.
#[must_use]
pub fn is_coordinators(certificate: &CertificateDer<'_>) -> bool {
    let is_name = |(_, parsed): (_, X509Certificate<'_>)| {
        parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok()) == Some(COORDINATOR)
    };
    x509_parser::parse_x509_certificate(certificate).is_ok_and(is_name)
}

fn roots(certificate: &CertificateDer<'static>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(other)?;
    Ok(roots)
}

/// Returns whether a host's certificate is that of `address`. That the authority signed it, TLS has
/// seen to.
fn is_of(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    Identity::of(certificate).is_some_and(|identity| identity.address == address.to_canonical())
}

/// For a host's side of connections.
///
/// # Errors
/// The host has not joined, or its files are broken.
pub fn client(folder: &Path) -> io::Result<Arc<ClientConfig>> {
    if !is_member(folder) {
        return Err(other(format!("{}: this host has not joined a fleet: see onrampctl join", folder.display())));
    }
    client_with(folder, certificate(folder, HOST)?)
}

fn public_key(certificate: &CertificateDer<'_>) -> io::Result<Vec<u8>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(other)?;
    Ok(parsed.public_key().subject_public_key.data.to_vec())
}

/// The public key of the authority that a host knows.
pub(super) fn authority_key(folder: &Path) -> io::Result<Vec<u8>> {
    public_key(&certificate(folder, AUTHORITY)?)
}

/// Who this host is by its certificate.
pub(super) fn identity(folder: &Path) -> io::Result<Identity> {
    let of_old = || at(&folder.join(HOST))("is no certificate of a host's, or an earlier version's: join anew");
    Identity::of(&certificate(folder, HOST)?).ok_or_else(of_old)
}

fn certificate(folder: &Path, name: &str) -> io::Result<CertificateDer<'static>> {
    let path = folder.join(name);
    CertificateDer::from_pem_file(&path).map_err(at(&path))
}

fn client_with(folder: &Path, own: CertificateDer<'static>) -> io::Result<Arc<ClientConfig>> {
    let path = folder.join(HOST_KEY);
    let key = PrivateKeyDer::from_pem_file(&path).map_err(at(&path))?;
    let config = client_builder()?
        .with_root_certificates(roots(&certificate(folder, AUTHORITY)?)?)
        .with_client_auth_cert(vec![own], key)
        .map_err(other)?;
    Ok(Arc::new(config))
}

/// Keeps a renewed certificate of the host at `address` in the place of the one before, and returns
/// what it connects with from now on.
///
/// # Errors
/// It is not this host's, or cannot be written. The one before stays.
pub fn keep_renewed(folder: &Path, address: IpAddr, pem: &str) -> io::Result<Arc<ClientConfig>> {
    let renewed = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(other)?;
    let before = identity(folder)?;
    let fits = |new: Identity| new.address == address.to_canonical() && new.public == before.public;
    if !Identity::of(&renewed).is_some_and(fits) {
        return Err(other(format!("the coordinator sent a certificate that is not of {address} and its keys")));
    }
    // Refuses one of another key.
    let client = client_with(folder, renewed)?;
    replace(&folder.join(HOST), pem, 0o644)?;
    Ok(client)
}

/// Checks that a host can take part with what is in `folder`, as `address`.
///
/// # Errors
/// It has not joined, its files are broken, or it has joined as another address.
pub fn check(folder: &Path, address: IpAddr) -> io::Result<()> {
    client(folder)?;
    Pairs::open(folder)?;
    let wrong = || other(format!("{}: is not of the address {address}", folder.join(HOST).display()));
    is_of(&certificate(folder, HOST)?, address).then_some(()).ok_or_else(wrong)
}

fn client_builder() -> io::Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>> {
    ClientConfig::builder_with_details(crypto(), Arc::new(NoTime))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(other)
}

/// The coordinator, by its name.
#[must_use]
pub fn coordinator() -> ServerName<'static> {
    ServerName::try_from(COORDINATOR).expect("it is a name")
}

/// A host about to join: its keys.
pub struct Newcomer {
    key: KeyPair,
    pair: Secret,
}

impl Newcomer {
    /// With new keys.
    ///
    /// # Errors
    /// The host has joined before, or there is no randomness.
    pub fn new(folder: &Path) -> io::Result<Self> {
        must_be_new(folder)?;
        Ok(Self { key: KeyPair::generate().map_err(other)?, pair: Secret::new()? })
    }

    /// Its public key.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        self.key.public_key_raw()
    }

    /// Public part of what its keys of pairs are made from.
    #[must_use]
    pub fn pair_key(&self) -> Public {
        self.pair.public()
    }

    /// For a connection to a coordinator with the token's authority.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn client(token: &Token) -> io::Result<Arc<ClientConfig>> {
        let verifier = ByFingerprint { fingerprint: token.fingerprint, crypto: crypto() };
        let config =
            client_builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        Ok(Arc::new(config))
    }

    /// Keeps what the coordinator answered in `folder`, which is made.
    ///
    /// # Errors
    /// It is not the token's authority, or something cannot be written.
    pub fn store(&self, folder: &Path, token: &Token, certificate: &str, authority: &str) -> io::Result<()> {
        let parsed = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(other)?;
        let own = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(other)?;
        if fingerprint(&parsed) != token.fingerprint {
            return Err(other("the coordinator sent another authority than the token's"));
        }
        if Identity::of(&own).is_none_or(|own| own.public != self.pair_key()) {
            return Err(other(
                "the coordinator's certificate does not name this host's keys: is it an earlier version?",
            ));
        }
        make(folder, |folder| {
            write_new(folder, AUTHORITY, authority, 0o644)?;
            store(folder, certificate, &self.key, &self.pair)
        })
    }
}

/// A host's public key, to be signed.
struct HostKey<'a>(&'a [u8]);

impl PublicKeyData for HostKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// Trusts the authority with a fingerprint.
#[derive(Debug)]
struct ByFingerprint {
    fingerprint: [u8; 32],
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByFingerprint {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let wrong = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let authority = intermediates.iter().find(|c| fingerprint(c) == self.fingerprint).ok_or(wrong)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.crypto.clone())
            .build()
            .map_err(|e| rustls::Error::General(e.to_string()))?
            .verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.crypto.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.crypto.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

/// A token, which admits a host: where to join, whom to trust, and a secret.
/// As text: `address:port/hex`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// A coordinator.
    pub coordinator: SocketAddr,
    fingerprint: [u8; 32],
    /// Shown to the coordinator.
    pub secret: [u8; 16],
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.coordinator, hex::encode(self.fingerprint), hex::encode(self.secret))
    }
}

/// Tokens do not appear in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.coordinator)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // It is a secret, and errors end up in logs: none shows it.
        let wrong = |what: &str| {
            format!("{what}: copy all that `onrampctl init` or `onrampctl token create` prints on the coordinator")
        };
        let none = || wrong("is no token such as 10.0.0.1:9472/31712fa0…");
        if text.starts_with(['"', '\'']) || text.ends_with(['"', '\'']) {
            return Err("is in quotes: leave them out".into());
        }
        let (coordinator, rest) = text.split_once('/').ok_or_else(none)?;
        let coordinator = coordinator.parse().map_err(|_| none())?;
        if rest.len() < 96 && rest.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong("ends too early"));
        }
        let bytes = <[u8; 48]>::from_hex(rest).map_err(|_| none())?;
        let (fingerprint, secret) = (bytes.first_chunk().ok_or_else(none)?, bytes.last_chunk().ok_or_else(none)?);
        Ok(Self { coordinator, fingerprint: *fingerprint, secret: *secret })
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, certificate);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Folder;
    use proptest::prelude::*;

    const US: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const PEER: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2));

    #[test]
    fn a_token_is_the_same_as_text_and_shows_its_secret_to_nobody() {
        let ours = Folder::new("ours");
        found(&ours.0, US).unwrap();
        let ours = Authority::open(&ours.0).unwrap();
        for coordinator in ["10.0.0.1:9472", "[fd09::1]:1"] {
            let token = ours.token(coordinator.parse().unwrap(), [0xa5; 16]);
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        let token = ours.token("10.0.0.1:9472".parse().unwrap(), [0xa5; 16]);
        assert!(!format!("{token:?}").contains(&hex::encode(token.secret)), "tokens do not appear in logs");
        let text = token.to_string();
        for (wrong, said) in [
            (format!("\"{text}\""), "is in quotes"),
            (text[..text.len() - 3].into(), "ends too early"),
            (format!("{text}0"), "is no token"),
            (text.replace(':', ""), "is no token"),
            ("secret".into(), "is no token"),
        ] {
            let e = wrong.parse::<Token>().unwrap_err();
            assert!(e.starts_with(said) && !e.contains("a5a5") && !e.contains("secret"), "{e}");
        }
    }

    #[test]
    fn a_certificate_is_of_one_address() {
        let folder = Folder::new("one");
        found(&folder.0, US).unwrap();
        let authority = Authority::open(&folder.0).unwrap();
        let key = KeyPair::generate().unwrap();
        for (own, other) in [(US, PEER), (PEER, US)] {
            let pem = authority.admit(own, key.public_key_raw(), &[9; 32], CERTIFICATE_LIFE).unwrap();
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            assert!(is_of(&certificate, own) && !is_of(&certificate, other));
        }
        let mapped = IpAddr::V6([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1].into());
        let pem = authority.admit(mapped, key.public_key_raw(), &[9; 32], CERTIFICATE_LIFE).unwrap();
        assert!(is_of(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap(), US), "IPv4 written as IPv6");
        let raw = key.public_key_raw();
        for wrong in [&raw[..64], &[], &[&[2], &raw[1..]].concat()] {
            assert!(authority.admit(US, wrong, &[9; 32], CERTIFICATE_LIFE).is_err());
        }
    }

    #[test]
    fn a_renewed_certificate_is_of_the_same_membership() {
        let folder = Folder::new("same");
        found(&folder.0, US).unwrap();
        let authority = Authority::open(&folder.0).unwrap();
        let parsed = |pem: String| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let before = today();
        let key = KeyPair::generate().unwrap();
        let first = parsed(authority.admit(PEER, key.public_key_raw(), &[9; 32], CERTIFICATE_LIFE).unwrap());
        let second = parsed(authority.renew(&first, 5_000_000_000).unwrap());
        let [old, new] = [&first, &second].map(|certificate| Identity::of(certificate).unwrap());
        assert_eq!((old.address, old.public), (PEER, [9; 32]));
        assert!((before..=today()).contains(&old.membership.began()), "{old:?}");
        assert!(first != second && new.expires > old.expires);
        assert_eq!(Identity { expires: old.expires, ..new }, old, "the same membership");
        assert!(authority.renew(&authority.certificate, 1).is_err(), "the authority is no host");
    }

    #[test]
    fn a_certificate_is_renewed_before_it_expires_and_if_it_was_given_for_longer() {
        let identity = Identity { address: US, membership: Membership([0; 16]), public: [0; 32], expires: 1_000 };
        for (today, due, expired) in [
            (0, true, false),
            (909, true, false),
            (910, false, false),
            (969, false, false),
            (970, true, false),
            (999, true, false),
            (1_000, true, true),
            (u64::MAX, true, true),
        ] {
            assert_eq!((identity.is_due(today, 90), identity.has_expired(today)), (due, expired), "{today}");
        }
    }

    #[test]
    fn a_renewed_certificate_takes_the_old_ones_place_or_changes_nothing() {
        let folder = Folder::new("renewed");
        found(&folder.0, US).unwrap();
        let authority = Authority::open(&folder.0).unwrap();
        let path = folder.0.join(HOST);
        let old = fs::read_to_string(&path).unwrap();
        let own = CertificateDer::from_pem_slice(old.as_bytes()).unwrap();
        let of_others = |address| {
            let key = KeyPair::generate().unwrap();
            authority.admit(address, key.public_key_raw(), &identity(&folder.0).unwrap().public, 60).unwrap()
        };
        for wrong in ["", "-----BEGIN CERTIFICATE-----", &of_others(US), &of_others(PEER)] {
            assert!(keep_renewed(&folder.0, US, wrong).is_err());
        }
        // What cannot be written: something is in the way.
        let renewed = authority.renew(&own, 60).unwrap();
        let unfinished = path.with_extension("pem.new");
        fs::create_dir(&unfinished).unwrap();
        let error = keep_renewed(&folder.0, US, &renewed).unwrap_err().to_string();
        assert!(error.contains("host.pem.new"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), old);
        fs::remove_dir(&unfinished).unwrap();
        // A file that an attempt has left is no hindrance.
        fs::write(&unfinished, "half").unwrap();
        keep_renewed(&folder.0, US, &renewed).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), renewed);
        assert!(!unfinished.exists() && check(&folder.0, US).is_ok());
    }

    #[test]
    fn a_fleet_is_not_founded_over_another_and_broken_files_are_named() {
        let folder = Folder::new("twice");
        found(&folder.0, US).unwrap();
        assert!(found(&folder.0, US).unwrap_err().to_string().contains("is in a fleet already"));
        assert!(Newcomer::new(&folder.0).is_err() && is_member(&folder.0));
        let cut_off = Folder::new("cut");
        let unfinished = Folder(cut_off.0.with_extension("new"));
        fs::create_dir(&unfinished.0).unwrap();
        fs::write(unfinished.0.join(AUTHORITY), "half").unwrap();
        found(&cut_off.0, US).unwrap();
        assert!(!unfinished.0.exists() && Authority::open(&cut_off.0).is_ok());
        for name in [AUTHORITY, AUTHORITY_KEY] {
            let path = folder.0.join(COORDINATORS).join(name);
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..whole.len() / 2]).unwrap();
            let error = Authority::open(&folder.0).err().expect("it is broken").to_string();
            assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
            fs::write(&path, whole).unwrap();
        }
        assert!(Authority::open(&folder.0).is_ok() && client(&folder.0).is_ok());
    }

    #[test]
    fn a_coordinator_joins_anew_and_stays_one() {
        let folder = Folder::new("anew");
        found(&folder.0, US).unwrap();
        let authority = Authority::open(&folder.0).unwrap();
        // What was cut off after the host's own folder.
        fs::remove_file(folder.0.join(AUTHORITY)).unwrap();
        fs::remove_file(folder.0.join(HOST_KEY)).unwrap();
        assert!(found(&folder.0, US).unwrap_err().to_string().contains("another fleet's coordinator"));
        let newcomer = Newcomer::new(&folder.0).unwrap();
        let certificate = authority.admit(US, newcomer.public_key(), &newcomer.pair_key(), 60).unwrap();
        let token = authority.token("10.0.0.1:9472".parse().unwrap(), [0; 16]);
        newcomer.store(&folder.0, &token, &certificate, authority.certificate()).unwrap();
        assert!(check(&folder.0, US).is_ok() && Authority::open(&folder.0).is_ok());
        assert!(!folder.0.with_extension("new").exists());
    }

    proptest! {
        #[test]
        fn any_text_is_a_token_or_refused(text in "[0-9a-f:./\\[\\]]{0,140}") {
            let _ = text.parse::<Token>();
        }
    }
}
