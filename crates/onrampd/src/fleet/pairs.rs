//! Keys of pairs: two members derive theirs by X25519 (RFC 7748), and nobody else can.
//!
//! Each host makes a secret when it joins, and keeps it. Its certificate holds the public part. Members do not see
//! each other's certificates: the coordinator sends a [`Statement`] instead, a third as long, of what is in one
//! that keys hang on, signed by the authority as the certificate is. Address, membership and public key of both hosts
//! go into the key, so that who shows another's public key as its own has no use for it, and who gets another's
//! address inherits nothing. So does the number of the [epoch](Epochs).

use super::pki::{self, Identity, Membership, other};
use crate::config::{Key, Keys};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use hex::FromHex as _;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use x25519_dalek::{PublicKey, StaticSecret};

/// A host's secret, which its agent reads.
pub(super) const FILE: &str = "pair.key";
/// Prefix of the bytes that a statement's signature covers; no certificate begins so.
const STATEMENT: &[u8] = b"On-Ramp: member of a fleet, 1";
const SALT: &[u8] = b"On-Ramp: key of a pair, 1";
/// Bytes of a statement before its signature: membership, public key.
const SAID: usize = 16 + 32;
/// A pair's key signs for so long, unless the coordinator is told otherwise [s].
pub const KEY_LIFE: u64 = 86_400;
/// The share of a key's life at each end in which two keys count.
const EDGE: u64 = 8;

/// A host's public key, of X25519.
pub type Public = [u8; 32];

/// A host's secret.
pub struct Secret(StaticSecret);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(other)?;
        Ok(Self(bytes.into()))
    }

    /// The one of the host that has joined in `folder`.
    ///
    /// # Errors
    /// It is not there, or broken.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).map_err(pki::at(&path))?;
        let bytes = <[u8; 32]>::from_hex(text.trim());
        bytes.map(|bytes| Self(bytes.into())).map_err(|_| pki::at(&path)("is broken: join anew, by another token"))
    }

    pub(super) fn store(&self, folder: &Path) -> io::Result<()> {
        pki::write_new(folder, FILE, &format!("{}\n", hex::encode(self.0.as_bytes())), 0o640)
    }

    /// Its public part.
    #[must_use]
    pub fn public(&self) -> Public {
        PublicKey::from(&self.0).to_bytes()
    }
}

/// Statement of the authority on a member, as text: its membership and public key, and a signature over these and its
/// address.
pub type Statement = Arc<str>;

/// Bytes of one of the two hosts from which keys are derived: address, membership and public key.
fn of(address: IpAddr, membership: &Membership, public: &Public) -> [u8; 64] {
    let octets = match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let mut all = [0; 64];
    all[..16].copy_from_slice(&octets);
    all[16..32].copy_from_slice(&membership.0);
    all[32..].copy_from_slice(public);
    all
}

/// Bytes of a statement on the host with this certificate, to be signed.
pub(super) fn to_sign(of_host: &Identity) -> Vec<u8> {
    [STATEMENT, &of(of_host.address, &of_host.membership, &of_host.public)].concat()
}

/// The same with its signature.
pub(super) fn signed(of_host: &Identity, signature: &[u8]) -> Statement {
    BASE64.encode([&of_host.membership.0[..], &of_host.public, signature].concat()).into()
}

/// This host's part in the keys of its pairs.
pub struct Pairs {
    secret: Secret,
    us: [u8; 64],
    /// The authority's public key.
    authority: Vec<u8>,
}

impl Pairs {
    /// Of the host that has joined in `folder`.
    ///
    /// # Errors
    /// Files are missing, or do not fit each other.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let secret = Secret::open(folder)?;
        let us = pki::identity(folder)?;
        if us.public != secret.public() {
            return Err(pki::at(&folder.join(FILE))("is not the key that the certificate names: join anew"));
        }
        Ok(Self { us: of(us.address, &us.membership, &us.public), secret, authority: pki::authority_key(folder)? })
    }

    /// Secret that the two hosts share, if the authority has made this statement on `address`.
    ///
    /// # Errors
    /// It has not.
    pub fn shared(&self, address: IpAddr, statement: &str) -> Result<Shared, &'static str> {
        let untrue = "the fleet's authority has not signed what the coordinator says of it";
        let bytes = BASE64.decode(statement).map_err(|_| untrue)?;
        let (said, signature) = bytes.split_at_checked(SAID).ok_or(untrue)?;
        let (membership, public) = said.split_first_chunk::<16>().ok_or(untrue)?;
        let public: Public = public.try_into().map_err(|_| untrue)?;
        let them = of(address, &Membership(*membership), &public);
        let authority = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.authority);
        authority.verify(&[STATEMENT, &them].concat(), signature).map_err(|_| untrue)?;
        let secret = self.secret.0.diffie_hellman(&PublicKey::from(public));
        // Else anybody knows it, whatever our secret is.
        if !secret.was_contributory() {
            return Err("its public key is none of X25519's");
        }
        let both = [self.us.min(them), self.us.max(them)];
        let salted = Salt::new(HKDF_SHA256, SALT).extract(secret.as_bytes());
        let both: [&[u8]; 2] = [&both[0], &both[1]];
        let of_pair = salted.expand(&both, HKDF_SHA256).expect("as many bytes as the hash has");
        Ok(Shared { said: said.try_into().expect("it was split there"), of_pair: of_pair.into() })
    }
}

/// Secret that this host and another one share.
pub struct Shared {
    /// Membership and public key of the other.
    said: [u8; SAID],
    of_pair: Prk,
}

/// Bytes of a SipHash key.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        16
    }
}

impl Shared {
    /// Returns whether this is of the membership and public key that a statement names, whoever signed it.
    #[must_use]
    pub fn is_of(&self, statement: &str) -> bool {
        BASE64.decode(statement).is_ok_and(|bytes| bytes.starts_with(&self.said))
    }

    /// Keys in these epochs.
    #[must_use]
    pub fn keys(&self, epochs: Epochs) -> Keys {
        Keys { sign: self.key(epochs.sign), accept: self.key(epochs.accept) }
    }

    fn key(&self, epoch: u64) -> Key {
        let mut key = [0; 16];
        let info = epoch.to_be_bytes();
        let filled = self.of_pair.expand(&[&info], Length).and_then(|okm| okm.fill(&mut key));
        filled.expect("sixteen bytes were asked for");
        Key(key)
    }
}

/// Which of a pair's keys are in use. The coordinator announces it, by its clock: each key signs for one life. In
/// the last eighth of that the next one counts, too, and in the first eighth the one before. So no tag is refused
/// while hosts hear of a change one after the other, nor where a standby's clock shows a slightly different time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epochs {
    /// Number of the key that signs.
    pub sign: u64,
    /// Number of the other key that counts; the same if none does.
    pub accept: u64,
}

impl Epochs {
    /// At the time `today`, where a key signs for `life` seconds.
    #[must_use]
    pub fn at(today: u64, life: u64) -> Self {
        let life = life.max(EDGE);
        let (sign, into, edge) = (today / life, today % life, life / EDGE);
        let accept = match into {
            _ if into < edge => sign.saturating_sub(1),
            _ if into >= life - edge => sign + 1,
            _ => sign,
        };
        Self { sign, accept }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pki::{Authority, CERTIFICATE_LIFE, Newcomer, found};
    use super::*;
    use crate::fleet::Folder;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use std::collections::BTreeSet;

    const EPOCHS: Epochs = Epochs { sign: 7, accept: 8 };

    /// A host that has joined the fleet in `fleet`: its folder and identity.
    fn joined(fleet: &Authority, name: &str, address: [u8; 4]) -> (Folder, Identity) {
        let folder = Folder::new(name);
        let newcomer = Newcomer::new(&folder.0).unwrap();
        let signed =
            fleet.admit(address.into(), newcomer.public_key(), &newcomer.pair_key(), CERTIFICATE_LIFE).unwrap();
        let token = fleet.token("10.0.0.1:9472".parse().unwrap(), [0; 16]);
        newcomer.store(&folder.0, &token, &signed, fleet.certificate()).unwrap();
        let identity = Identity::of(&CertificateDer::from_pem_slice(signed.as_bytes()).unwrap()).unwrap();
        (folder, identity)
    }

    #[test]
    fn both_hosts_derive_the_same_key_and_no_other_pair_or_epoch_has_it() {
        let folder = Folder::new("pairs");
        found(&folder.0, [10, 0, 0, 1].into()).unwrap();
        let fleet = Authority::open(&folder.0).unwrap();
        let a = pki::identity(&folder.0).unwrap();
        let (b_folder, b) = joined(&fleet, "pairs-b", [10, 0, 0, 2]);
        let (_, c) = joined(&fleet, "pairs-c", [10, 0, 0, 3]);
        // The address of b, given to another host later.
        let (later_folder, later) = joined(&fleet, "pairs-later", [10, 0, 0, 2]);
        let said = |of: &Identity| fleet.statement(of).unwrap();
        let shared = |folder: &Folder, with: &Identity| {
            Pairs::open(&folder.0).unwrap().shared(with.address, &said(with)).expect("it is true")
        };
        let ours = shared(&folder, &b);
        assert_eq!(ours.keys(EPOCHS), shared(&b_folder, &a).keys(EPOCHS), "from both ends");
        let next = Epochs { sign: 8, accept: 7 };
        assert_eq!(ours.keys(EPOCHS).accept, ours.keys(next).sign);
        let others = [shared(&folder, &c), shared(&b_folder, &c), shared(&folder, &later), shared(&later_folder, &a)];
        let signed = others.iter().map(|shared| shared.keys(EPOCHS)).chain([ours.keys(EPOCHS), ours.keys(next)]);
        let keys: BTreeSet<[u8; 16]> = signed.map(|keys| keys.sign.0).collect();
        // The last two of the others are one pair.
        assert_eq!(keys.len(), 5);
        assert!(ours.is_of(&said(&b)) && !ours.is_of(&said(&later)) && !ours.is_of(""));

        // A renewed certificate names the same key.
        let pem = fs::read(b_folder.0.join("host/host.pem")).unwrap();
        let renewed = fleet.renew(&CertificateDer::from_pem_slice(&pem).unwrap(), 60).unwrap();
        let renewed = Identity::of(&CertificateDer::from_pem_slice(renewed.as_bytes()).unwrap()).unwrap();
        assert_eq!((renewed.public, renewed.membership), (b.public, b.membership));
    }

    #[test]
    fn what_the_authority_has_not_signed_gives_no_key() {
        let [folder, elsewhere] = ["unsigned", "elsewhere"].map(Folder::new);
        for folder in [&folder, &elsewhere] {
            found(&folder.0, [10, 0, 0, 1].into()).unwrap();
        }
        let [fleet, other] = [&folder, &elsewhere].map(|folder| Authority::open(&folder.0).unwrap());
        let (_, b) = joined(&fleet, "unsigned-b", [10, 0, 0, 2]);
        let pairs = Pairs::open(&folder.0).unwrap();
        let said = fleet.statement(&b).unwrap();
        assert!(pairs.shared(b.address, &said).is_ok());
        assert!(pairs.shared([10, 0, 0, 3].into(), &said).is_err(), "it is of another address");
        let mut changed = said.to_string().into_bytes();
        for at in [0, 20, 30, 80, changed.len() - 1] {
            changed[at] ^= 1;
            assert!(pairs.shared(b.address, std::str::from_utf8(&changed).unwrap()).is_err(), "{at}");
            changed[at] ^= 1;
        }
        for wrong in ["", "AAAA", &said[..60], &other.statement(&b).unwrap()] {
            assert!(pairs.shared(b.address, wrong).is_err(), "{wrong}");
        }
        // A point of small order, signed by mistake: everybody would know what is shared.
        let weak = Identity { public: [0; 32], ..b };
        assert!(pairs.shared(weak.address, &fleet.statement(&weak).unwrap()).is_err());
    }

    #[test]
    fn a_key_counts_from_before_it_signs_until_after_that() {
        for (today, sign, accept) in
            [(800, 10, 9), (809, 10, 9), (810, 10, 10), (869, 10, 10), (870, 10, 11), (879, 10, 11), (880, 11, 10)]
        {
            assert_eq!(Epochs::at(today, 80), Epochs { sign, accept }, "{today}");
        }
        // Whoever signs now, by a clock that is a little off, is understood by who goes by the right one.
        for today in 1_000..1_200 {
            let [before, after] = [Epochs::at(today, 80), Epochs::at(today + 9, 80)];
            for (signs, hears) in [(before, after), (after, before)] {
                assert!([hears.sign, hears.accept].contains(&signs.sign), "{today}");
            }
        }
        assert_eq!(Epochs::at(5, 0), Epochs { sign: 0, accept: 0 });
    }
}
